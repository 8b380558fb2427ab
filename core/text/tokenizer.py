"""A model's tokenizer, built and run in the helper.

A token table kept here decodes replies of byte-level tokenizers without the helper; a cache leaves
only a conversation's new text to encode.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from array import array
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from core.api.errors import BrokenTokenizerError
from core.client.codec import Fields
from core.helper import MAX_IDS, NO_TOKEN
from core.helper.process import Helper, HelperFailedError
from core.text.added_tokens import AddedTokens

# A tokenizer with a vocabulary of 262,144 is built in 3 s here; one is built at each load.
BUILD_S = 30.0
# Ten times what an encoding takes here: 1 MB of text is a second's work.
ASK_S = 5.0
SECONDS_PER_CHARACTER = 1e-5

# Tokens of published tokenizers have up to 256 bytes. A token is sent as soon as it is sampled.
LONGEST_TOKEN_BYTES = 64 * 2**10

# Cached ids: encoding 39,000 tokens of a conversation took 130 ms each time. Two million tokens.
IDS_BYTES = 16 * 2**20
# Cached places where a template writes added tokens: it writes the same texts every turn.
PLACES_BYTES = 2**20
# Of an entry of the cache besides its numbers: its key, its slot, the headers of its objects.
_ENTRY_BYTES = 400

_TOKEN_TOO_LONG = (
    f"The tokenizer has a token of more than {LONGEST_TOKEN_BYTES // 2**10} KiB, which is too long."
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_FAILURES = {
    "time": "The model's tokenizer takes too long, so it was stopped.",
    "memory": "The model's tokenizer needs too much memory, so it was stopped.",
    "raised": "The model's tokenizer failed on this text.",
    "started": "The process for tokenizers could not be started.",
    "ended": "The model's tokenizer crashed its process.",
}

Numbers = tuple["array[int]", ...]


class TextCache:
    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.num_bytes = 0
        self._known: OrderedDict[bytes, Numbers] = OrderedDict()

    def find(self, kind: str, text: str, ask: Callable[[], Numbers]) -> Numbers:
        key = hashlib.sha256(f"{kind}\0{text}".encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        found = ask()
        self._known[key] = found
        self.num_bytes += _num_bytes(found)
        while self.num_bytes > self.most_bytes:
            _, oldest = self._known.popitem(last=False)
            self.num_bytes -= _num_bytes(oldest)
        return found

    def clear(self) -> None:
        self._known.clear()
        self.num_bytes = 0


def _num_bytes(numbers: Numbers) -> int:
    return _ENTRY_BYTES + sum(len(each) * each.itemsize for each in numbers)


@dataclass(frozen=True, slots=True)
class Encoded:
    ids: array[int]
    ends: array[int]


class TokenTable:
    def __init__(self, data: bytes, num_ids: int) -> None:
        if not 0 <= num_ids <= min(MAX_IDS, len(data) // 4):
            raise BrokenTokenizerError("The tokenizer's token table is not valid.")
        lengths = array("I", data[: 4 * num_ids])
        self.num_ids, self._lengths = num_ids, lengths
        sizes = [0 if length == NO_TOKEN else length for length in lengths]
        if max(sizes, default=0) > LONGEST_TOKEN_BYTES:
            raise BrokenTokenizerError(_TOKEN_TOO_LONG)
        self._ends = array("Q", accumulate(sizes, initial=0))
        self._text = data[4 * num_ids :]
        if self._ends[-1] != len(self._text):
            raise BrokenTokenizerError("The tokenizer's token table is not valid.")

    def token(self, token_id: int) -> str | None:
        if not 0 <= token_id < len(self._lengths) or self._lengths[token_id] == NO_TOKEN:
            return None
        return self._text[self._ends[token_id] : self._ends[token_id + 1]].decode()


class Tokenizer:
    """All methods raise BrokenTokenizerError. `byte_level` and `word_spaces` tell how tokens spell
    text, if known."""

    def __init__(self, read: Callable[[], bytes], helper: Helper) -> None:
        self._read = read
        self._helper = helper
        self._built_in = -1
        self.cached_ids = TextCache(IDS_BYTES)
        self.cached_places = TextCache(PLACES_BYTES)
        self._build()

    def encode(self, text: str, at_start: bool) -> Encoded:
        """Without control tokens. `at_start`: the prompt begins with the text."""

        def ask() -> Numbers:
            encoded = self.encode_uncached(text, at_start)
            return encoded.ids, encoded.ends

        return Encoded(*self.cached_ids.find("first" if at_start else "later", text, ask))

    def encode_uncached(self, text: str, at_start: bool) -> Encoded:
        data = self._ask("tokenizer.encode", {"at_start": at_start}, text)
        half = len(data) // 2
        return Encoded(array("I", data[:half]), array("I", data[half:]))

    def ids(self, text: str) -> list[int]:
        return self.encode(text, at_start=False).ids.tolist() if text else []

    def encode_published(self, text: str, special: bool = False) -> list[int]:
        """Encode with the added tokens that the text spells; `special` also adds those around every
        text."""
        fields = {"special": special}
        return array("I", self._ask("tokenizer.encode_published", fields, text)).tolist()

    def decode(self, *lists: list[int]) -> list[str]:
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
        self.cached_ids.clear()
        self.cached_places.clear()
        if self._helper.pid == self._built_in:
            # A helper that fails has ended, and its memory with it.
            with contextlib.suppress(HelperFailedError):
                self._helper.ask("tokenizer.forget", {}, seconds=ASK_S)

    def _find(self, text: str) -> list[tuple[int, int]]:
        def ask() -> Numbers:
            return (array("I", self._ask("tokenizer.find", {}, text)),)

        (places,) = self.cached_places.find("added", text, ask)
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
        facts, table = self._helper_result("tokenizer.build", {}, self._read(), BUILD_S)
        self.added = AddedTokens.read(facts["added_tokens"], self._find)
        self.byte_level = facts["decoder"] == "ByteLevel"
        self.word_spaces = bool(facts["word_spaces"])
        self.vocab_size = int(facts["vocab_size"])
        self.table = TokenTable(table, int(facts["ids"]))
        self._built_in = self._helper.pid or -1

    def _helper_result(
        self, task: str, fields: Fields, data: bytes, seconds: float
    ) -> tuple[Fields, bytes]:
        try:
            return self._helper.ask(task, fields, data, seconds=seconds)
        except HelperFailedError as failure:
            raise BrokenTokenizerError(_FAILURES[failure.reason]) from None


@cache
def byte_alphabet() -> dict[str, int]:
    alphabet = {}
    shifted = 0
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte <= 0xFF:
            alphabet[chr(byte)] = byte
        else:
            alphabet[chr(0x100 + shifted)] = byte
            shifted += 1
    return alphabet
