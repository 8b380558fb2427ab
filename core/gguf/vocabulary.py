"""The content of tokenizer.json from a GGUF file's metadata: `gpt2` (byte-level BPE, split as `pre`
says), `llama` (SentencePiece BPE, whose merges follow from scores) and `gemma4` (the same with its
merges given)."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from core.api.errors import BrokenTokenizerError, UnknownTokenizerError, shown
from core.gguf.pre_tokenizers import pre_tokenizer
from core.helper import MAX_IDS
from core.model_files import JsonObject

Metadata = Mapping[str, Any]
Merges = Sequence[str | tuple[str, str]]
"""Pairs, or both tokens with a space between them where neither has one."""

_SPACE = "\u2581"
# Pieces are tried at every split point. Published vocabularies have 1.9 million characters in all.
_MOST_CHARACTERS = 2**24
_LONGEST_PIECE = 256  # characters; published ones have up to 31


class TokenType(IntEnum):
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and types by id; `ids` leaves out the tokens that only pad the table."""

    model: str
    tokens: list[str]
    types: npt.NDArray[np.int64]
    ids: dict[str, int]

    def is_type(self, token_id: int, *types: TokenType) -> bool:
        return token_id < len(self.tokens) and int(self.types[token_id]) in types


def read_vocabulary(metadata: Metadata) -> Vocabulary:
    """Raises UnknownTokenizerError, BrokenTokenizerError."""
    model = metadata.get("tokenizer.ggml.model")
    if not isinstance(model, str):
        raise BrokenTokenizerError("The GGUF file has no tokenizer.")
    if model not in _BUILDERS:
        raise UnknownTokenizerError(
            f"The tokenizer of this GGUF file is a {shown(model)}. Waymark reads "
            f"{', '.join(_BUILDERS)}."
        )
    tokens = _texts(metadata, "tokenizer.ggml.tokens")
    if not 0 < len(tokens) <= MAX_IDS:
        raise BrokenTokenizerError(f"The vocabulary has {len(tokens):,} tokens.")
    types = _numbers(metadata, "tokenizer.ggml.token_type", len(tokens))
    if types.dtype.kind == "f" or not np.isin(types, list(TokenType)).all():
        raise BrokenTokenizerError("A token of the vocabulary has an unknown type.")
    if model == "llama":
        tokens = _with_word_spaces(tokens, types)
    unused = (types == TokenType.UNUSED).tolist()
    used = [
        token_id
        for token_id, token in enumerate(tokens)
        if not (unused[token_id] or not token or (token[0] == "[" and token == f"[PAD{token_id}]"))
    ]
    ids = dict(zip(map(tokens.__getitem__, used), used, strict=True))
    if len(ids) < len(used):
        twice = next(tokens[each] for each in used if ids[tokens[each]] != each)
        raise BrokenTokenizerError(f"The vocabulary has the token {shown(twice)} twice.")
    return Vocabulary(model, tokens, types.astype(np.int64), ids)


def tokenizer_json(
    metadata: Metadata, vocabulary: Vocabulary, control: Collection[int]
) -> JsonObject:
    """`control`: further control tokens. Raises UnknownTokenizerError, BrokenTokenizerError."""
    model, parts = _BUILDERS[vocabulary.model](metadata, vocabulary)
    special = vocabulary.types == TokenType.CONTROL
    special |= vocabulary.types == TokenType.UNKNOWN
    special[list(control)] = True
    added = special | (vocabulary.types == TokenType.USER_DEFINED)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    entries = [
        {"id": token_id, "content": token, **flags, "special": bool(special[token_id])}
        for token_id in np.flatnonzero(added).tolist()
        if vocabulary.ids.get(token := vocabulary.tokens[token_id]) == token_id
    ]
    options = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False}
    suffixes = {"continuing_subword_prefix": None, "end_of_word_suffix": None}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": entries,
        "post_processor": None,
        **parts,
        "model": {**options, **suffixes, **model, "vocab": vocabulary.ids},
    }


def _byte_level(metadata: Metadata, vocabulary: Vocabulary) -> tuple[JsonObject, JsonObject]:
    kind = pre_tokenizer(metadata)
    as_bytes = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    byte_level = {"type": "ByteLevel", **as_bytes}
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    splits = [{**split, "pattern": {"Regex": pattern}} for pattern in kind.patterns]
    parts = {
        "normalizer": {"type": "NFC"} if kind.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, byte_level]},
        "decoder": byte_level,
    }
    merges = _given_merges(metadata, vocabulary)
    return {"byte_fallback": False, "ignore_merges": kind.ignore_merges, "merges": merges}, parts


def _with_scores(metadata: Metadata, vocabulary: Vocabulary) -> tuple[JsonObject, JsonObject]:
    if flag(metadata, "tokenizer.ggml.remove_extra_whitespaces", usual=False):
        raise UnknownTokenizerError(
            "The tokenizer of this GGUF file drops spaces between words, which Waymark doesn't do."
        )
    # No Gemma has it, and Ollama's files of them don't say so.
    usual = not str(metadata.get("general.architecture")).startswith("gemma")
    prefix = flag(metadata, "tokenizer.ggml.add_space_prefix", usual)
    return _word_spaces(metadata, vocabulary, _scored_merges(metadata, vocabulary), prefix)


def _with_merges(metadata: Metadata, vocabulary: Vocabulary) -> tuple[JsonObject, JsonObject]:
    return _word_spaces(metadata, vocabulary, _given_merges(metadata, vocabulary), prefix=False)


_BUILDERS = {"gpt2": _byte_level, "llama": _with_scores, "gemma4": _with_merges}


def _word_spaces(
    metadata: Metadata, vocabulary: Vocabulary, merges: Merges, prefix: bool
) -> tuple[JsonObject, JsonObject]:
    """BPE over whole texts, with U+2581 for a space and bytes for unknown characters. `prefix`: a
    space before each text between control tokens."""
    normalizers: list[JsonObject] = [
        {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    ]
    decoders: list[JsonObject] = [
        {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        normalizers.insert(0, {"type": "Prepend", "prepend": _SPACE})
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    unknown = special_id(metadata, vocabulary, "unknown")
    model = {
        "unk_token": None if unknown is None else vocabulary.tokens[unknown],
        "fuse_unk": True,
        "byte_fallback": True,
        "ignore_merges": False,
        "merges": merges,
    }
    parts = {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
    }
    return model, parts


def special_id(metadata: Metadata, vocabulary: Vocabulary, name: str) -> int | None:
    """`tokenizer.ggml.{name}_token_id`, or SentencePiece's own, if it has a token. Raises
    BrokenTokenizerError for an id out of range."""
    found = metadata.get(f"tokenizer.ggml.{name}_token_id")
    if found is None and vocabulary.model == "llama":
        usual = {"unknown": 0, "bos": 1, "eos": 2}.get(name)
        if usual is not None and vocabulary.is_type(usual, TokenType.CONTROL, TokenType.UNKNOWN):
            found = usual
    if found is None:
        return None
    if type(found) is not int or not 0 <= found < len(vocabulary.tokens):
        raise BrokenTokenizerError(f"The vocabulary has no token {shown(str(found))} ({name}).")
    return found if vocabulary.tokens[found] in vocabulary.ids else None


def flag(metadata: Metadata, key: str, usual: bool) -> bool:
    """`usual`: its value in files without it. Raises BrokenTokenizerError."""
    value = metadata.get(key, usual)
    if not isinstance(value, bool):
        raise BrokenTokenizerError(f"The value of {key} is neither true nor false.")
    return value


def _texts(metadata: Metadata, key: str) -> list[str]:
    texts = metadata.get(key)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BrokenTokenizerError(f"The GGUF file has no {key}.")
    return texts


def _numbers(metadata: Metadata, key: str, count: int) -> npt.NDArray[Any]:
    numbers = np.asarray(metadata.get(key, ()))
    if numbers.shape != (count,) or numbers.dtype.kind not in "iuf":
        raise BrokenTokenizerError(f"The GGUF file should have {count:,} numbers in {key}.")
    return numbers


def _with_word_spaces(tokens: list[str], types: npt.NDArray[Any]) -> list[str]:
    restored = list(tokens)
    known = set(tokens)
    for token_id in np.flatnonzero(types == TokenType.USER_DEFINED).tolist():
        piece = tokens[token_id].replace(" ", _SPACE)
        if not piece.strip(_SPACE) and piece not in known:
            restored[token_id] = piece
    return restored


def _given_merges(metadata: Metadata, vocabulary: Vocabulary) -> Merges:
    ids, texts = vocabulary.ids, _texts(metadata, "tokenizer.ggml.merges")
    if _are_plain_merges(texts, ids):
        return texts
    merges = []
    for text in texts:
        # A token may begin with a space, but has none after its first character.
        middle = text.find(" ", 1)
        left, right = text[:middle], text[middle + 1 :]
        if middle < 0 or not (left in ids and right in ids and left + right in ids):
            raise BrokenTokenizerError(f"The vocabulary lacks tokens of the merge {shown(text)}.")
        merges.append((left, right))
    return merges


def _are_plain_merges(texts: list[str], ids: Mapping[str, int]) -> bool:
    """True if each text is two tokens and a space, and joins to a token."""
    # The library takes a text that starts like this for a comment.
    if not all(text.count(" ") == 1 and text[:8] != "#version" for text in texts):
        return False
    tokens, known = " ".join(texts).split(" ") if texts else [], ids.__contains__
    joined = map(operator.add, tokens[::2], tokens[1::2])
    return all(map(known, tokens)) and all(map(known, joined))


def _scored_merges(metadata: Metadata, vocabulary: Vocabulary) -> Merges:
    """Best score first, then longest left, longest right, as in published tokenizer.json files."""
    tokens, types = vocabulary.tokens, vocabulary.types
    scores = _numbers(metadata, "tokenizer.ggml.scores", len(tokens)).astype(np.float64)
    if not np.isfinite(scores).all():
        raise BrokenTokenizerError("A token of the vocabulary has a score that isn't a number.")
    normal = types == TokenType.NORMAL
    if normal.sum() > 1 and np.ptp(scores[normal]) == 0:
        raise UnknownTokenizerError(
            "All tokens of this GGUF file have the same score, so it doesn't say which of them "
            "come first in a text. Choose another file of this model."
        )
    # SentencePiece scores user-defined pieces 0, and converters write another score. Only blank
    # ones can be made by merges: text must not become a control token.
    user_defined = types == TokenType.USER_DEFINED
    scores[user_defined] = 0.0
    pieces = {
        token: token_id
        for token, token_id in vocabulary.ids.items()
        if normal[token_id] or (user_defined[token_id] and not token.strip(_SPACE + "\n\t"))
    }
    longest = max(map(len, pieces), default=0)
    if longest > _LONGEST_PIECE or sum(map(len, pieces)) > _MOST_CHARACTERS:
        raise BrokenTokenizerError(f"The vocabulary has a token of {longest:,} characters.")
    found = [
        (left, right, token_id)
        for piece, token_id in pieces.items()
        for middle in range(1, len(piece))
        if (left := piece[:middle]) in pieces and (right := piece[middle:]) in pieces
    ]
    lefts = np.array([len(left) for left, _, _ in found], dtype=np.int64)
    rights = np.array([len(right) for _, right, _ in found], dtype=np.int64)
    score = scores[np.array([token_id for _, _, token_id in found], dtype=np.int64)]
    return [found[index][:2] for index in np.lexsort((-rights, -lefts, -score)).tolist()]
