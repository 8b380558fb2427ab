"""The text files of a model folder, made from the metadata of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pydantic_core import PydanticSerializationError, to_json

from core.api.errors import BrokenConfigError, BrokenTokenizerError, MissingFileError
from core.gguf.pre_tokenizers import pre_tokenizer
from core.gguf.vocabulary import (
    Metadata,
    Vocabulary,
    flag,
    read_vocabulary,
    special_id,
    tokenizer_json,
)
from core.model_files import TEMPLATE_BYTES, TOKENIZER_BYTES, JsonObject

# Tokens that end a turn or a text in published templates. A file names one of them as its EOS.
_ENDS = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>",
    "<turn|>", "<|tool_response>", "<end_of_utterance>", "<|endoftext|>", "<|end_of_text|>",
    "<EOT>", "[EOT]", "[EOS]", "<eos>",
)  # fmt: skip
# Harmony's format has the first between the parts of a reply, and the second at its end.
_END_OF_PART, _END_OF_REPLY = "<|end|>", "<|return|>"
_SAMPLING = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repetition_penalty",
}


@dataclass(frozen=True)
class GGUFText:
    tokenizer: bytes
    tokenizer_config: JsonObject
    generation_config: JsonObject
    template: str
    ids: Mapping[str, int]


def read_text(metadata: Metadata) -> GGUFText:
    """Raises UnknownTokenizerError, BrokenTokenizerError, BrokenConfigError, MissingFileError."""
    vocabulary = read_vocabulary(metadata)
    bos, eos, eot, eom, unknown = (
        special_id(metadata, vocabulary, name) for name in ("bos", "eos", "eot", "eom", "unknown")
    )
    ends = _ends(vocabulary) | {each for each in (eos, eot, eom) if each is not None}
    named = {"bos_token": bos, "eos_token": eos, "unk_token": unknown}
    config: JsonObject = {
        name: vocabulary.tokens[token_id]
        for name, token_id in named.items()
        if token_id is not None
    }
    begins = _begins(metadata, vocabulary)
    tokenizer = tokenizer_json(metadata, vocabulary, ends if bos is None else ends | {bos})
    return GGUFText(
        tokenizer=_encoded(tokenizer),
        tokenizer_config={**config, "add_bos_token": begins},
        generation_config={**_sampling(metadata), "eos_token_id": sorted(ends)},
        template=_with_bos(_template(metadata), config.get("bos_token") if begins else None),
        ids=vocabulary.ids,
    )


def _ends(vocabulary: Vocabulary) -> set[int]:
    """Ids of tokens that end a reply, by their spelling, as in llama.cpp."""
    ends = {vocabulary.ids[token] for token in _ENDS if token in vocabulary.ids}
    if _END_OF_REPLY in vocabulary.ids:
        ends.discard(vocabulary.ids.get(_END_OF_PART, -1))
    return ends


def _begins(metadata: Metadata, vocabulary: Vocabulary) -> bool:
    if vocabulary.model == "gemma4":
        return True  # llama.cpp does so too: early files say otherwise, and the model needs it
    usual = vocabulary.model == "llama" or pre_tokenizer(metadata).begins
    return flag(metadata, "tokenizer.ggml.add_bos_token", usual)


def _template(metadata: Metadata) -> str:
    texts = {
        key.removeprefix("tokenizer.chat_template").removeprefix("."): metadata[key]
        for key in metadata
        if key == "tokenizer.chat_template" or key.startswith("tokenizer.chat_template.")
    }
    template = texts.get("", texts.get("default", next(iter(texts.values()), None)))
    if template is None:
        raise MissingFileError(
            "The GGUF file has no chat template, so it can't hold a conversation."
        )
    if not isinstance(template, str):
        raise BrokenConfigError("The chat template of the GGUF file isn't text.")
    if len(template) > TEMPLATE_BYTES:
        raise BrokenConfigError(
            f"The chat template of the GGUF file has more than {TEMPLATE_BYTES >> 20} MiB, the "
            "most allowed."
        )
    return template


def _with_bos(template: str, bos: str | None) -> str:
    """Some converters leave the BOS token out of the template."""
    if bos is None or bos in template or "bos_token" in template:
        return template
    return "{{ bos_token }}" + template


def _sampling(metadata: Metadata) -> JsonObject:
    found = {
        theirs: _shortest(metadata[f"general.sampling.{ours}"])
        for ours, theirs in _SAMPLING.items()
        if f"general.sampling.{ours}" in metadata
    }
    return {"do_sample": True, **found} if found else {}


def _shortest(value: object) -> object:
    """The shortest number that float32 rounds to this one, as that file writes it."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _encoded(tokenizer: JsonObject) -> bytes:
    try:
        data = to_json(tokenizer)
    except (UnicodeEncodeError, PydanticSerializationError) as error:
        raise BrokenTokenizerError("A token of the vocabulary isn't UTF-8 text.") from error
    if len(data) > TOKENIZER_BYTES:
        raise BrokenTokenizerError(
            f"The tokenizer takes more than {TOKENIZER_BYTES >> 20} MiB, the most allowed."
        )
    return data
