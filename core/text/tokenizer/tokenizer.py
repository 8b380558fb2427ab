"""A model's tokenizer, which runs in the helper; what is asked of it for each token lies here.

The helper builds it of tokenizer.json, encodes and decodes. The table of all tokens is handed over
once, so a reply of a byte-level tokenizer is read without asking anybody.
"""

from __future__ import annotations

import contextlib
import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from core.api.errors import BrokenTokenizerError
from core.helper.process import Helper, HelperFailedError
from core.helper.tokenizer import MAX_IDS, NO_TOKEN
from core.helper.wire import Fields
from core.text.tokenizer.added_tokens import AddedTokens
from core.text.tokenizer.remembered import Numbers, RememberedTexts

# A tokenizer with a vocabulary of 262,144 is built in 3 s here; one is built at each load.
BUILD_S = 30.0
# Ten times what an encoding takes here: 1 MB of text is a second's work.
ASK_S = 5.0
SECONDS_PER_CHARACTER = 1e-5

# Those of published tokenizers have up to 256 bytes. A token is sent as soon as it is sampled.
LONGEST_TOKEN_BYTES = 64 * 2**10

# Of places where a template writes added tokens: it writes the same texts every turn.
FOUND_BYTES = 2**20

_TOKEN_TOO_LONG = (
    f"The tokenizer has a token of more than {LONGEST_TOKEN_BYTES // 2**10} KiB: no real one has."
)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Encoded:
    """The ids of a text, and for each the place in the text where its characters end."""

    ids: array[int]
    ends: array[int]


class TokenTable:
    """The token behind every id below `num_ids`, as a vocabulary spells it."""

    def __init__(self, data: bytes, num_ids: int) -> None:
        """`data` as `core.helper.tokenizer` writes it. Raises BrokenTokenizerError."""
        if not 0 <= num_ids <= min(MAX_IDS, len(data) // 4):
            raise BrokenTokenizerError("The tokenizer's table of tokens makes no sense.")
        lengths = array("I", data[: 4 * num_ids])
        self.num_ids, self._lengths = num_ids, lengths
        sizes = [0 if length == NO_TOKEN else length for length in lengths]
        if max(sizes, default=0) > LONGEST_TOKEN_BYTES:
            raise BrokenTokenizerError(_TOKEN_TOO_LONG)
        self._ends = array("Q", accumulate(sizes, initial=0))
        self._text = data[4 * num_ids :]
        if self._ends[-1] != len(self._text):
            raise BrokenTokenizerError("The tokenizer's table of tokens makes no sense.")

    def token(self, token_id: int) -> str | None:
        """The token of an id; None for an id without one."""
        if not 0 <= token_id < len(self._lengths) or self._lengths[token_id] == NO_TOKEN:
            return None
        return self._text[self._ends[token_id] : self._ends[token_id + 1]].decode()


class Tokenizer:
    """One tokenizer.json. `vocab_size` counts its tokens; `byte_level` and `word_spaces` say what
    they spell, if anything is known of it."""

    def __init__(
        self,
        read: Callable[[], bytes],
        helper: Helper,
    ) -> None:
        """Build in the helper of the bytes that `read` gives, and again after its death.

        Raises BrokenTokenizerError, and what `read` raises.
        """
        self._read = read
        self._helper = helper
        self._built_in = -1
        self.found = RememberedTexts(FOUND_BYTES)
        self._build()

    def encode(self, text: str, at_start: bool) -> Encoded:
        """Text in which nothing is a control token. `at_start`: nothing stands before it.

        Raises BrokenTokenizerError, as all that follow.
        """
        data = self._ask("tokenizer.encode", {"at_start": at_start}, text)
        half = len(data) // 2
        return Encoded(array("I", data[:half]), array("I", data[half:]))

    def encode_published(self, text: str) -> list[int]:
        """Text in which added tokens count, as the model was trained to see it."""
        return array("I", self._ask("tokenizer.encode_published", {}, text)).tolist()

    def decode(self, *lists: list[int]) -> list[str]:
        """The text of each list of ids, special tokens left out."""
        self._rebuild()
        fields = self._helper_result("tokenizer.decode", {"ids": lists}, b"", ASK_S)[0]
        texts = [str(text) for text in fields["texts"]]
        # A decoder can make any text of a short token.
        if any(
            len(text) > LONGEST_TOKEN_BYTES * max(1, len(ids))
            for text, ids in zip(texts, lists, strict=True)
        ):
            raise BrokenTokenizerError(_TOKEN_TOO_LONG)
        return texts

    def forget(self) -> None:
        """Drop what is remembered of texts, here and in the helper if it runs."""
        self.found.clear()
        if self._helper.pid == self._built_in:
            # A helper that fails has ended, and its memory with it.
            with contextlib.suppress(HelperFailedError):
                self._helper.ask("tokenizer.forget", {}, seconds=ASK_S)

    def _find(self, text: str) -> list[tuple[int, int]]:
        """As `core.text.tokenizer.added_tokens.Find`."""

        def ask() -> Numbers:
            return (array("I", self._ask("tokenizer.find", {}, text)),)

        (places,) = self.found.find("added", text, ask)
        return list(zip(places[::2], places[1::2], strict=True))

    def _ask(self, task: str, fields: Fields, text: str) -> bytes:
        self._rebuild()
        data = _SURROGATE.sub("\ufffd", text).encode()
        seconds = ASK_S + len(text) * SECONDS_PER_CHARACTER
        return self._helper_result(task, fields, data, seconds)[1]

    def _rebuild(self) -> None:
        if self._helper.pid != self._built_in:
            self._build()

    def _build(self) -> None:
        data = self._read()
        facts, table = self._helper_result("tokenizer.build", {}, data, BUILD_S)
        self.added = AddedTokens.read(facts["added_tokens"], self._find)
        self.byte_level = facts["decoder"] == "ByteLevel"
        self.word_spaces = bool(facts["word_spaces"])
        self.vocab_size = int(facts["vocab_size"])
        self.table = TokenTable(table, int(facts["ids"]))
        self._built_in = self._helper.pid or -1

    def _helper_result(
        self,
        task: str,
        fields: Fields,
        data: bytes,
        seconds: float,
    ) -> tuple[Fields, bytes]:
        try:
            return self._helper.ask(task, fields, data, seconds=seconds)
        except HelperFailedError as failure:
            raise _as_error(failure.reason) from None


def _as_error(reason: str) -> BrokenTokenizerError:
    words = {
        "time": "The model's tokenizer takes too long, so it was stopped.",
        "memory": "The model's tokenizer needs too much memory, so it was stopped.",
        "raised": "The model's tokenizer fails on what it was given.",
        "started": "The process that tokenizers run in could not be started.",
    }
    ended = "The model's tokenizer ended the process that it ran in."
    return BrokenTokenizerError(words.get(reason, ended))
