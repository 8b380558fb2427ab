"""tokenizer.json made of the `tiktoken.model` that Kimi-Linear's release has in its place.

A line is a token's bytes in base64, and its rank: its id, and when it is merged. How text is split
is in the release's code alone, and is known here by llama.cpp's name for it. Control tokens follow.
"""

from __future__ import annotations

import binascii
from base64 import b64decode

import numpy as np
from pydantic_core import to_json

from core.api.errors import BrokenTokenizerError
from core.gguf.vocabulary import TokenType, Vocabulary, tokenizer_json
from core.helper import MAX_IDS
from core.model_files import JsonObject
from core.text.tokenizer import byte_alphabet

_CONTROLS = 256
# A token is tried at every split point. The release has 1.1 million bytes, at most 128 in a token.
_MOST_BYTES = 2**22
_LONGEST = 256


def tokenizer_of(lines: bytes, config: JsonObject) -> bytes:
    """`config` is tokenizer_config.json, which names control tokens.

    Raises BrokenTokenizerError.
    """
    letters = {byte: letter for letter, byte in byte_alphabet().items()}
    tokens = ["".join(map(letters.__getitem__, token)) for token in _ranked(lines)]
    known = set(tokens)
    # Whichever two make a token: those of the first one are merged first.
    merges = [
        f"{token[:middle]} {token[middle:]}"
        for token in tokens
        for middle in range(1, len(token))
        if token[:middle] in known and token[middle:] in known
    ]
    controls = _controls(len(tokens), config)
    types = np.repeat([TokenType.NORMAL, TokenType.CONTROL], [len(tokens), _CONTROLS])
    tokens += controls
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    if len(ids) < len(tokens):
        raise BrokenTokenizerError("tiktoken.model has a token twice.")
    metadata = {"tokenizer.ggml.pre": "kimi-k2", "tokenizer.ggml.merges": merges}
    return to_json(tokenizer_json(metadata, Vocabulary("gpt2", tokens, types, ids), ()))


def _ranked(lines: bytes) -> list[bytes]:
    tokens: list[bytes] = []
    for line in lines.splitlines():
        text, _, rank = line.partition(b" ")
        if rank != b"%d" % len(tokens) or len(tokens) == MAX_IDS:
            raise BrokenTokenizerError(f"Line {len(tokens) + 1} of tiktoken.model has no rank.")
        try:
            tokens.append(b64decode(text, validate=True))
        except binascii.Error:
            raise BrokenTokenizerError(
                f"Line {len(tokens) + 1} of tiktoken.model is not in base64."
            ) from None
    sizes = [*map(len, tokens)]
    if not sizes or min(sizes) == 0 or max(sizes) > _LONGEST or sum(sizes) > _MOST_BYTES:
        raise BrokenTokenizerError("tiktoken.model has no tokens, or some that are too long.")
    return tokens


def _controls(first: int, config: JsonObject) -> list[str]:
    named = config.get("added_tokens_decoder")
    named = named if isinstance(named, dict) else {}
    found = []
    for token_id in range(first, first + _CONTROLS):
        entry = named.get(str(token_id))
        content = entry.get("content") if isinstance(entry, dict) else None
        if not isinstance(content, str) or not content:
            content = f"<|reserved_token_{token_id}|>"
        found.append(content)
    return found
