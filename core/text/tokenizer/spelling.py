"""What a model's tokens spell, for a grammar that says which may come next."""

from __future__ import annotations

import re
from collections.abc import Iterable

from llguidance import LLTokenizer, TokenizerWrapper

from core.api.errors import BrokenTokenizerError, ReplyFormatError
from core.text.tokenizer.detokenizer import TokenText
from core.text.tokenizer.plain_encoder import PlainEncoder
from core.text.tokenizer.tokenizer import Tokenizer

# Bytes of the longest token that a grammar may choose; published vocabularies have up to about
# 130. llguidance panics at 1,024, and each place of a forced text is compared with every size.
_MOST_BYTES = 512
_BYTE = re.compile(r"<0x([0-9A-F]{2})>\Z")


def spelling_tokens(
    tokenizer: Tokenizer,
    tokens: TokenText,
    encoder: PlainEncoder,
    stop_ids: Iterable[int],
    num_ids: int,
) -> LLTokenizer:
    """The ids below `num_ids` as llguidance wants them; a reply ends at `stop_ids`.

    Control tokens spell nothing, so no text can ask for one. Raises ReplyFormatError where what a
    token spells depends on others, or where nothing ends a reply.
    """
    if not tokenizer.byte_level and not tokenizer.word_spaces:
        raise ReplyFormatError(
            "This model's tokenizer doesn't say which bytes its tokens stand for, so no reply of "
            "it can be given a form."
        )
    ends = sorted(token_id for token_id in stop_ids if 0 <= token_id < num_ids)
    if not ends:
        raise ReplyFormatError("This model names no token that ends a reply.")
    vocabulary = _Vocabulary(tokenizer, tokens, encoder, ends, num_ids)
    return LLTokenizer(TokenizerWrapper(vocabulary), eos_token=ends)


class _Vocabulary:
    """Every id's bytes, and how bytes that a grammar forces are best spelled."""

    bos_token_id = None

    def __init__(
        self,
        tokenizer: Tokenizer,
        tokens: TokenText,
        encoder: PlainEncoder,
        ends: list[int],
        num_ids: int,
    ) -> None:
        self._encoder = encoder
        self.tokens = [
            tokens.bytes_of(token_id)
            if tokenizer.byte_level
            else _with_word_space(tokenizer.table.token(token_id))
            for token_id in range(num_ids)
        ]
        self.tokens = [text if len(text) <= _MOST_BYTES else b"" for text in self.tokens]
        controls = {token.id: token for token in tokenizer.added.tokens if not token.is_blank}
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
        """Ids that spell `text` to the byte: the tokenizer's own, unless it writes text anew."""
        data = text.encode("utf-8", "replace")
        try:
            ids = self._encoder.ids(text)
        except BrokenTokenizerError:
            ids = []
        known = all(0 <= each < len(self.tokens) for each in ids)
        if known and b"".join(self.tokens[each] for each in ids) == data:
            return ids
        return self._longest_first(data)

    def _longest_first(self, data: bytes) -> list[int]:
        """The longest token each time, as far as there are any."""
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


def _with_word_space(token: str | None) -> bytes:
    """What a token spells where U+2581 is a space, and bytes have tokens of their own."""
    byte = _BYTE.match(token or "")
    return bytes([int(byte[1], 16)]) if byte else (token or "").replace("\u2581", " ").encode()
