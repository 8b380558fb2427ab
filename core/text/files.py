"""The text files of a model folder, also under older names, or of a GGUF file."""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from pydantic import ValidationError
from pydantic_core import to_json

from core.api.errors import BrokenConfigError, BrokenTokenizerError, MissingFileError
from core.api.params import SamplingParams
from core.gguf.models.model import GGUFModel
from core.gguf.text import read_text
from core.gguf.vocabulary import TokenType, Vocabulary, tokenizer_json
from core.helper import MAX_IDS
from core.model_files import TEMPLATE_BYTES, TOKENIZER_BYTES, JsonObject, read_object, read_small
from core.text.tokenizer import byte_alphabet


@dataclass(frozen=True)
class TextFiles:
    """tokenizer.json isn't kept: `read_tokenizer` gets it from `source` again."""

    path: Path
    source: Callable[[], bytes]
    tokenizer_digest: bytes
    tokenizer_config: JsonObject
    config: JsonObject
    generation_config: JsonObject
    template: str
    fingerprint: str

    def read_tokenizer(self) -> bytes:
        try:
            data = self.source()
        except MissingFileError as error:
            raise BrokenTokenizerError(error.message) from error
        if hashlib.sha256(data).digest() != self.tokenizer_digest:
            raise BrokenTokenizerError(
                f"The tokenizer of {self.path.name} has changed: load the model again."
            )
        return data

    @property
    def special_tokens(self) -> dict[str, str]:
        named = {
            name: _spelling(value)
            for name, value in self.tokenizer_config.items()
            if name.endswith("_token")
        }
        return {name: spelling for name, spelling in named.items() if spelling is not None}

    @property
    def vocab_size(self) -> int | None:
        for place in (self._texts, self.config):
            if isinstance(place, dict) and isinstance(place.get("vocab_size"), int):
                return cast(int, place["vocab_size"])
        return None

    @property
    def _texts(self) -> object:
        """The text model's part of config.json, under an older name in Nemotron Omni."""
        return self.config.get("text_config", self.config.get("llm_config"))

    @property
    def eos_ids(self) -> frozenset[int]:
        ids: set[int] = set()
        for place in (self.generation_config, self.config, self._texts):
            if isinstance(place, dict):
                ids.update(_as_ids(place.get("eos_token_id")))
        return frozenset(ids)

    @property
    def image_token(self) -> int | str | None:
        for name in ("image_token_id", "image_token_index", "img_context_token_id"):
            if isinstance(self.config.get(name), int):
                return cast(int, self.config[name])
        return _spelling(self.tokenizer_config.get("image_token"))


def read_text_files(folder: Path) -> TextFiles:
    tokenizer_config = _read_json(folder / "tokenizer_config.json")
    tokenizer = _tokenizer_bytes(folder, tokenizer_config)
    template = _read_template(folder, tokenizer_config)
    tokenizer_digest, fingerprint = _digests(tokenizer, template)
    return TextFiles(
        path=folder,
        source=partial(_tokenizer_bytes, folder, tokenizer_config),
        tokenizer_digest=tokenizer_digest,
        tokenizer_config=tokenizer_config,
        config=_read_json(folder / "config.json"),
        generation_config=_read_json(folder / "generation_config.json"),
        template=template,
        fingerprint=fingerprint,
    )


def gguf_text_files(path: Path, model: GGUFModel) -> TextFiles:
    """Raises the errors of `read_text`."""
    text = read_text(model.metadata)
    tokenizer_digest, fingerprint = _digests(text.tokenizer, text.template)
    made = [text.tokenizer]

    def tokenizer() -> bytes:
        """Made once for a load, and again only for another helper."""
        return made.pop() if made else read_text(model.metadata).tokenizer

    return TextFiles(
        path=path,
        source=tokenizer,
        tokenizer_digest=tokenizer_digest,
        tokenizer_config=text.tokenizer_config,
        config=model.config,
        generation_config=text.generation_config,
        template=text.template,
        fingerprint=fingerprint,
    )


def _digests(tokenizer: bytes, template: str) -> tuple[bytes, str]:
    both = hashlib.sha256(tokenizer)
    alone = both.digest()
    both.update(b"\0template\0" + template.encode("utf-8", "surrogatepass"))
    return alone, both.hexdigest()


def _tokenizer_bytes(folder: Path, config: JsonObject) -> bytes:
    ranks = folder / "tiktoken.model"
    try:
        return read_small(folder / "tokenizer.json", TOKENIZER_BYTES, BrokenTokenizerError)
    except MissingFileError:
        if not ranks.is_file():
            raise
    return tokenizer_of(read_small(ranks, TOKENIZER_BYTES, BrokenTokenizerError), config)


def _read_json(path: Path) -> JsonObject:
    try:
        return read_object(path, BrokenConfigError)
    except MissingFileError:
        return {}


def _read_template(folder: Path, tokenizer_config: JsonObject) -> str:
    path = folder / "chat_template.jinja"
    try:
        return read_small(path, TEMPLATE_BYTES, BrokenConfigError).decode("utf-8")
    except MissingFileError:
        pass
    except UnicodeDecodeError as error:
        raise BrokenConfigError(f"{folder.name}/{path.name} is not UTF-8 text.") from error
    for place in (_read_json(folder / "chat_template.json"), tokenizer_config):
        template = _named_template(place.get("chat_template"))
        if template is not None and len(template) > TEMPLATE_BYTES:
            raise BrokenConfigError(
                f"{folder.name}'s chat template has more than {TEMPLATE_BYTES >> 20} MiB, the most "
                "allowed."
            )
        if template is not None:
            return template
    raise MissingFileError(f"{folder.name} has no chat template, so it can't hold a conversation.")


def _named_template(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    named = {item.get("name"): item.get("template") for item in value if isinstance(item, dict)}
    chosen = named.get("default", next(iter(named.values()), None))
    return chosen if isinstance(chosen, str) else None


def _spelling(value: object) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _as_ids(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, int) and not isinstance(item, bool)]


def sampling_defaults(generation_config: JsonObject) -> SamplingParams:
    """Missing values are those of transformers' GenerationConfig: greedy (temperature 0) without
    `do_sample`, else temperature 1, top_k 50, top_p 1, no penalties. Raises BrokenConfigError."""

    def value(name: str, default: float) -> float:
        found = generation_config.get(name)
        return default if found is None else found

    stops = generation_config.get("stop_strings") or ()
    greedy = not generation_config.get("do_sample", False)
    try:
        return SamplingParams(
            temperature=0.0 if greedy else value("temperature", 1.0),
            top_k=int(value("top_k", 50)),
            top_p=value("top_p", 1.0),
            min_p=value("min_p", 0.0),
            repetition_penalty=value("repetition_penalty", 1.0),
            presence_penalty=value("presence_penalty", 0.0),
            frequency_penalty=value("frequency_penalty", 0.0),
            stop=(stops,) if isinstance(stops, str) else tuple(stops),
        )
    except (ValidationError, TypeError, ValueError, OverflowError) as error:
        raise BrokenConfigError(
            "generation_config.json holds a sampling setting that is out of range."
        ) from error


# `tiktoken.model`, which Kimi-Linear's release has in place of tokenizer.json

_CONTROLS = 256
# A token is tried at every split point. The release has 1.1 million bytes, at most 128 in a token.
_MOST_BYTES = 2**22
_LONGEST = 256


def tokenizer_of(lines: bytes, config: JsonObject) -> bytes:
    """A line is a token's bytes in base64 and its rank: its id, and the order of merges. Only the
    release's code says how text is split; llama.cpp has a name for it. `config` is
    tokenizer_config.json, which names the control tokens that follow.

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
