"""Tasks on grammars of replies.

Compiling a schema of a few hundred bytes can take gigabytes or hours and end the process, so it is
tried here first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from typing import TypeVar

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from core.client.codec import Fields

T = TypeVar("T")

END = 256
# llguidance says this of a token that doesn't fit, not of a grammar that grew past its limits.
REFUSED = "doesn't satisfy the grammar"
# A chain of 18,000 references, as long as the longest schema can hold, is followed in 64 MB.
STACK_BYTES = 256 * 2**20
_stack_lock = threading.Lock()


class GrammarLimitError(Exception): ...


class GrammarTasks:
    def compile(self, fields: Fields, text: bytes) -> tuple[Fields, bytes]:
        """`broken`: llguidance's error for the attached grammar, or None."""
        follower = matcher(byte_tokens(), text.decode())
        if not follower.is_error():
            begins = follower.compute_bitmask()
            if not follower.is_error() and any(begins):
                return {"broken": None}, b""
        return {"broken": follower.get_error()}, b""

    def derives(self, fields: Fields, text: bytes) -> tuple[Fields, bytes]:
        compiled = matcher(byte_tokens(), fields["grammar"])
        return {"derives": derives(compiled, text.decode())}, b""


class _Bytes:
    eos_token_id = END
    bos_token_id = None
    special_token_ids = (END,)
    tokens = (*(bytes([each]) for each in range(END)), b"<end>")

    def __call__(self, text: str) -> list[int]:
        return list(text.encode())


@lru_cache(maxsize=1)
def byte_tokens() -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(_Bytes()))


def matcher(tokens: LLTokenizer, grammar: str) -> LLMatcher:
    # Half a second and some 200 MB for a token at the very worst.
    limits = LLParserLimits(max_lexer_states=50_000, verbose_errors=False)
    return with_deep_stack(lambda: LLMatcher(tokens, grammar, log_level=0, limits=limits))


def derives(compiled: LLMatcher, text: str) -> bool:
    """Takes linear time. Raises GrammarLimitError."""
    follower = compiled.deep_copy()
    spelled = list(text.encode("utf-8", "replace"))
    if follower.consume_tokens(spelled):
        return follower.is_accepting()
    if REFUSED not in follower.get_error():
        raise GrammarLimitError
    return False


def with_deep_stack(call: Callable[[], T]) -> T:
    """llguidance follows chains of references by recursion."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    with _stack_lock:
        before = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=run).start()
        finally:
            threading.stack_size(before)
    return outcome.result()
