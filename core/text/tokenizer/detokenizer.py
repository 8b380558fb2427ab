"""Ids back to text, one at a time, never showing half a character.

Byte-level tokenizers (Qwen, Llama 3 and kin) go through bytes, which is exact for any ids. All
others decode a short window of ids. Special tokens have no text.
"""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import Protocol

from core.text.tokenizer.tokenizer import Tokenizer

# A character has at most four bytes, so more open tokens than this can't be one character.
_MAX_OPEN_TOKENS = 8


class Detokenizer(Protocol):
    """Incremental decoder: what `push` and `close` return, joined, is the text of all ids."""

    def push(self, token_id: int) -> str:
        """The text that became complete with this id; often empty in the middle of a character."""
        ...

    def close(self) -> str:
        """What was held back, with U+FFFD for a character that never became complete."""
        ...

    @property
    def holds_back(self) -> bool:
        """Whether the last id began something that is not shown yet."""
        ...


class TokenText:
    """What each id means as text. Shared by all replies of a loaded model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._token = tokenizer.table.token
        self._hidden = frozenset(token.id for token in tokenizer.added.tokens if token.special)
        self._byte_level = tokenizer.byte_level
        self._is_space: dict[int, bool] = {}

    def detokenizer(self) -> Detokenizer:
        """A fresh decoder, for one channel of one reply."""
        return _ByteDetokenizer(self) if self._byte_level else _WindowDetokenizer(self)

    def hides(self, token_id: int) -> bool:
        """Whether the id is a special token (or none at all), which never shows as text."""
        return token_id in self._hidden or self._token(token_id) is None

    def is_space(self, token_id: int) -> bool:
        """Whether the id's text is whitespace and nothing else."""
        known = self._is_space.get(token_id)
        if known is None:
            text = "" if self.hides(token_id) else self._alone(token_id)
            known = self._is_space[token_id] = text.isspace()
        return known

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes of one id of a byte-level tokenizer; none for a hidden one."""
        token = None if token_id in self._hidden else self._token(token_id)
        if token is None:
            return b""
        alphabet = _byte_alphabet()
        try:
            return bytes(alphabet[character] for character in token)
        except KeyError:  # an added token with a space in it is stored as it reads
            return token.encode("utf-8", "replace")

    def decode(self, *lists: list[int]) -> list[str]:
        """The text of each list of ids without special tokens."""
        shown = [[token_id for token_id in ids if not self.hides(token_id)] for ids in lists]
        return self._tokenizer.decode(*shown)

    def _alone(self, token_id: int) -> str:
        if self._byte_level:
            return self.bytes_of(token_id).decode("utf-8", "replace")
        # Some decoders drop a space at the very start, so the token itself is looked at.
        token = self._token(token_id) or ""
        return token.replace("\u2581", " ") or self.decode([token_id])[0]


class _ByteDetokenizer:
    """UTF-8 bytes through Python's incremental decoder."""

    def __init__(self, tokens: TokenText) -> None:
        self._tokens = tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(self._tokens.bytes_of(token_id))

    def close(self) -> str:
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest

    @property
    def holds_back(self) -> bool:
        return bool(self._decoder.getstate()[0])


class _WindowDetokenizer:
    """Decodes the ids not shown yet behind the ids shown last, and shows what comes on top."""

    def __init__(self, tokens: TokenText) -> None:
        self._tokens = tokens
        self._shown: list[int] = []
        self._open: list[int] = []

    def push(self, token_id: int) -> str:
        if self._tokens.hides(token_id):
            return ""
        self._open.append(token_id)
        text = self._new_text()
        if text.endswith("\ufffd") and len(self._open) < _MAX_OPEN_TOKENS:
            return ""
        return self._show(text)

    def close(self) -> str:
        return self._show(self._new_text()) if self._open else ""

    @property
    def holds_back(self) -> bool:
        return bool(self._open)

    def _new_text(self) -> str:
        before, whole = self._tokens.decode(self._shown, self._shown + self._open)
        return whole[len(before) :]

    def _show(self, text: str) -> str:
        self._shown, self._open = self._open, []
        return text


@lru_cache(maxsize=1)
def _byte_alphabet() -> dict[str, int]:
    """The byte behind each character of a byte-level vocabulary.

    Printable Latin-1 bytes stand for themselves; the others, in order, for U+0100 and up (GPT-2's
    byte-level BPE).
    """
    alphabet = {}
    shifted = 0
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte <= 0xFF:
            alphabet[chr(byte)] = byte
        else:
            alphabet[chr(0x100 + shifted)] = byte
            shifted += 1
    return alphabet
