"""Pre-tokenizers of byte-level BPE, by their names in `tokenizer.ggml.pre`: regular expressions,
each of which splits what those before it left. They are as published; llama.cpp's
src/llama-vocab.cpp has them rewritten for an engine without Unicode classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.api.errors import UnknownTokenizerError, shown

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def _cased(upper: str, lower: str, after: str) -> str:
    """Words split where a capital follows a small letter, each with what `after` allows."""
    front = r"[^\r\n\p{L}\p{N}]?"
    return f"{front}{upper}*{lower}+{after}|{front}{upper}+{lower}*{after}"


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_SYMBOLS}"
_QWEN2 = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_SYMBOLS}"
_QWEN35 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_TEKKEN = (
    rf"{_cased(f'[{_UPPER}]', f'[{_LOWER}]', '')}|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)
_GPT4O = (
    rf"{_cased(f'[{_UPPER}]', f'[{_LOWER}]', f'{_CONTRACTIONS}?')}|\p{{N}}{{1,3}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)
_NOT_HAN = r"&&[^\p{Han}]"
_KIMI = (
    rf"[\p{{Han}}]+|"
    rf"{_cased(f'[{_UPPER}{_NOT_HAN}]', f'[{_LOWER}{_NOT_HAN}]', f'{_CONTRACTIONS}?')}"
    rf"|\p{{N}}{{1,3}}|{_SYMBOLS}"
)


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """`ignore_merges`: a piece that is a token is taken whole, reachable by merges or not. `nfc`:
    text is normalised first. `begins`: prompts begin with BOS unless the file says otherwise."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    nfc: bool = False
    begins: bool = False


_BY_NAMES = {
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral lfm2": PreTokenizer(
        (_LLAMA3,), ignore_merges=True, begins=True
    ),
    # Converters write this for a Llama 3 whose tokenizer adds no BOS token.
    "smaug-bpe": PreTokenizer((_LLAMA3,), ignore_merges=True),
    "dbrx": PreTokenizer((_LLAMA3,)),
    "qwen2": PreTokenizer((_QWEN2,), nfc=True),
    "qwen35": PreTokenizer((_QWEN35,), nfc=True),
    "tekken": PreTokenizer((_TEKKEN,), ignore_merges=True, begins=True),
    "gpt-4o llama4": PreTokenizer((_GPT4O,), ignore_merges=True),
    "kimi-k2": PreTokenizer((_KIMI,), ignore_merges=True),
    "refact starcoder smollm": PreTokenizer((r"\p{N}", _GPT2)),
    "gpt-2": PreTokenizer((_GPT2,)),
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
}
PRE_TOKENIZERS = {name: each for names, each in _BY_NAMES.items() for name in names.split()}


def pre_tokenizer(metadata: Mapping[str, Any]) -> PreTokenizer:
    """Raises UnknownTokenizerError if the file names none that is known."""
    name = metadata.get("tokenizer.ggml.pre")
    if not isinstance(name, str):
        raise UnknownTokenizerError(
            "The GGUF file doesn't say how its tokenizer splits text (tokenizer.ggml.pre): it was "
            "made by an old converter. Choose a newer file of this model."
        )
    if name not in PRE_TOKENIZERS:
        raise UnknownTokenizerError(
            f"The tokenizer of this GGUF file splits text as {shown(name)} does, which Waymark "
            "doesn't know."
        )
    return PRE_TOKENIZERS[name]
