"""Token ids as text: decoded one at a time, and spelled out for grammars.

Byte-level tokens are decoded as bytes, exactly for any ids, others in a short window of ids.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence

from llguidance import LLTokenizer, TokenizerWrapper

from core.api.errors import BrokenTokenizerError, ReplyFormatError
from core.text.tokenizer import Tokenizer, byte_alphabet

# A character has at most four bytes, so more open tokens than this can't be one character.
_MAX_OPEN_TOKENS = 8
# Bytes of the longest token that a grammar may choose; published vocabularies have up to about
# 130. llguidance panics at 1,024, and each place of a forced text is compared with every size.
_MOST_BYTES = 512
_BYTE = re.compile(r"<0x([0-9A-F]{2})>\Z")


class TokenText:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._token = tokenizer.table.token
        self._hidden = frozenset(token.id for token in tokenizer.added.tokens if token.special)
        self._is_space: dict[int, bool] = {}

    def detokenizer(self) -> ByteDetokenizer | WindowDetokenizer:
        return ByteDetokenizer(self) if self.tokenizer.byte_level else WindowDetokenizer(self)

    def hides(self, token_id: int) -> bool:
        return token_id in self._hidden or self._token(token_id) is None

    def is_space(self, token_id: int) -> bool:
        known = self._is_space.get(token_id)
        if known is None:
            text = "" if self.hides(token_id) else self._alone(token_id)
            known = self._is_space[token_id] = text.isspace()
        return known

    def bytes_of(self, token_id: int) -> bytes:
        token = None if token_id in self._hidden else self._token(token_id)
        if token is None:
            return b""
        alphabet = byte_alphabet()
        try:
            return bytes(alphabet[character] for character in token)
        except KeyError:  # an added token with a space in it is stored as it reads
            return token.encode("utf-8", "replace")

    def spelled(self, token_id: int) -> bytes:
        if self.tokenizer.byte_level:
            return self.bytes_of(token_id)
        token = self._token(token_id) or ""
        byte = _BYTE.match(token)
        return bytes([int(byte[1], 16)]) if byte else token.replace("\u2581", " ").encode()

    def named(self, token_id: int) -> bytes:
        return self.spelled(token_id) or (self._token(token_id) or "").encode("utf-8", "replace")

    def text(self, ids: Sequence[int]) -> str:
        decoder = self.detokenizer()
        return "".join(map(decoder.push, ids)) + decoder.close()

    def decode(self, *lists: list[int]) -> list[str]:
        shown = [[token_id for token_id in ids if not self.hides(token_id)] for ids in lists]
        return self.tokenizer.decode(*shown)

    def _alone(self, token_id: int) -> str:
        if self.tokenizer.byte_level:
            return self.bytes_of(token_id).decode("utf-8", "replace")
        # Some decoders drop a space at the very start, so the token itself is looked at.
        token = self._token(token_id) or ""
        return token.replace("\u2581", " ") or self.decode([token_id])[0]


class ByteDetokenizer:
    """A character that never became complete is U+FFFD."""

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


class WindowDetokenizer:
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


def grammar_tokens(tokens: TokenText, stop_ids: Iterable[int], num_ids: int) -> LLTokenizer:
    """The ids below `num_ids` for llguidance; `stop_ids` end a reply, and no grammar can ask for a
    control token. Raises ReplyFormatError if a token's bytes depend on others, or nothing ends a
    reply."""
    if not tokens.tokenizer.byte_level and not tokens.tokenizer.word_spaces:
        raise ReplyFormatError(
            "This model's tokenizer doesn't say which bytes its tokens stand for, so its replies "
            "can't be given a format."
        )
    ends = sorted(token_id for token_id in stop_ids if 0 <= token_id < num_ids)
    if not ends:
        raise ReplyFormatError("This model names no token that ends a reply.")
    return LLTokenizer(TokenizerWrapper(_Vocabulary(tokens, ends, num_ids)), eos_token=ends)


class _Vocabulary:
    bos_token_id = None

    def __init__(self, tokens: TokenText, ends: list[int], num_ids: int) -> None:
        self._tokenizer = tokens.tokenizer
        spelled = map(tokens.spelled, range(num_ids))
        self.tokens = [text if len(text) <= _MOST_BYTES else b"" for text in spelled]
        controls = {token.id: token for token in self._tokenizer.added.tokens if not token.is_blank}
        for token_id, token in controls.items():
            if token_id < num_ids:
                self.tokens[token_id] = token.spelling.encode("utf-8", "replace")[:_MOST_BYTES]
        self.special_token_ids = sorted({*ends, *(each for each in controls if each < num_ids)})
        self.eos_token_id = ends[0]
        self._ids = {text: token_id for token_id, text in enumerate(self.tokens) if text}
        for token_id in self.special_token_ids:
            self._ids.pop(self.tokens[token_id], None)
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: str) -> list[int]:
        """Ids that spell `text` to the byte: the tokenizer's, unless it changes the text."""
        data = text.encode("utf-8", "replace")
        try:
            ids = self._tokenizer.ids(text)
        except BrokenTokenizerError:
            ids = []
        known = all(0 <= each < len(self.tokens) for each in ids)
        if known and b"".join(self.tokens[each] for each in ids) == data:
            return ids
        return self._longest_first(data)

    def _longest_first(self, data: bytes) -> list[int]:
        ids: list[int] = []
        start = 0
        while start < len(data):
            pieces = (data[start : start + size] for size in range(self._longest, 0, -1))
            found = next((piece for piece in pieces if piece in self._ids), None)
            if found is None:
                break
            ids.append(self._ids[found])
            start += len(found)
        return ids
