"""GGUF files: metadata and a checked directory of tensors, over all parts of a split model.

A file is known by its magic, so a blob of Ollama's opens too. Other parts are looked for next to a
link, not its target: the Hugging Face cache keeps files under other names.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.api.errors import BrokenWeightsError, MissingFileError, NotRegularFileError, shown
from core.client.blobs import open_regular
from core.gguf.header import (
    BOOL,
    MOST_HEADER_BYTES,
    MOST_TENSORS,
    NUMBERS,
    TEXT,
    U32,
    Entry,
    Header,
    Metadata,
    damaged,
    parse_header,
)
from core.gguf.library import PART_NAME
from kernels.blocks.types import GGUFType

_FLOATS = {6, 12}
_INTEGERS = NUMBERS.keys() - _FLOATS - {BOOL}
_SINGLE = {"text": {TEXT}, "flag": {BOOL}, "integer": _INTEGERS}
_MANY = {"texts": {TEXT}, "numbers": _INTEGERS | _FLOATS, "integers": _INTEGERS}
# Kinds of values that the code after this relies on.
_KINDS = {
    "general.architecture": "text", "general.name": "text", "general.type": "text",
    "general.file_type": "integer", "split.no": "integer", "split.count": "integer",
    "split.tensors.count": "integer", "tokenizer.ggml.model": "text", "tokenizer.ggml.pre": "text",
    "tokenizer.ggml.tokens": "texts", "tokenizer.ggml.merges": "texts",
    "tokenizer.ggml.scores": "numbers", "tokenizer.ggml.token_type": "integers",
    "tokenizer.chat_template": "text", "tokenizer.chat_templates": "texts",
    "tokenizer.huggingface.json": "text",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """A tensor of shape [..., rows, columns], whose rows are whole blocks and follow each other
    from byte `offset` of the file `path`."""

    name: str
    type: GGUFType
    shape: tuple[int, ...]
    offset: int
    num_bytes: int
    path: Path

    @property
    def row_bytes(self) -> int:
        columns = self.shape[-1] if self.shape else 1
        return columns // self.type.block_values * self.type.block_bytes

    @property
    def end(self) -> int:
        return self.offset + self.num_bytes


@dataclass(frozen=True, slots=True)
class GGUFPart:
    """The digest of its first bytes tells later whether the header changed."""

    path: Path
    num_bytes: int
    header_bytes: int
    header_digest: bytes


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """The metadata is that of the first part."""

    parts: tuple[GGUFPart, ...]
    metadata: Metadata
    tensors: Mapping[str, GGUFTensor]

    @staticmethod
    def open(path: Path, check: Callable[[], None] = lambda: None) -> GGUFFile:
        """Any part of a split model opens all. `check` is called for every key and tensor. Raises a
        WaymarkError."""
        opened = _read(path, MOST_HEADER_BYTES, check)
        number, count = _place_in_split(opened)
        if count == 1:
            return _joined([opened])
        paths = _part_paths(path, number, count)
        parts, left = [], MOST_HEADER_BYTES - len(opened.header.data)
        for each in paths:
            part = opened if each == path else _read(each, left, check)
            left -= 0 if each == path else len(part.header.data)
            parts.append(part)
        _check_split(parts)
        return _joined(parts)


@dataclass(frozen=True, slots=True)
class _Opened:
    path: Path
    num_bytes: int
    header: Header
    tensors: list[GGUFTensor]

    def integer(self, key: str, missing: int) -> int:
        value = self.header.metadata.get(key, missing)
        return value if isinstance(value, int) else missing


def _read(path: Path, most: int, check: Callable[[], None]) -> _Opened:
    try:
        with open_regular(path) as file:
            num_bytes = os.fstat(file.fileno()).st_size
            header = parse_header(file, path.name, num_bytes, most, check)
    except NotRegularFileError as error:
        raise MissingFileError(f"{path} can't be read. {error.message}") from error
    except OSError as error:
        raise MissingFileError(f"{path} can't be read: {error.strerror}.") from error
    _check_kinds(path.name, header.metadata)
    tensors = _placed(header, path)
    _check_places(tensors, path.name, num_bytes)
    return _Opened(path, num_bytes, header, tensors)


def _check_kinds(name: str, metadata: Metadata) -> None:
    for key in metadata:
        wanted = _KINDS.get(key)
        if wanted is None and key.startswith("tokenizer.ggml."):
            if key.endswith("_token_id"):
                wanted = "integer"
            elif key.startswith("tokenizer.ggml.add_"):
                wanted = "flag"
        if wanted is not None and not _is_kind(metadata.entry(key), wanted):
            raise damaged(name, f"the value of {shown(key)} must be of type {wanted}")


def _is_kind(entry: Entry | None, wanted: str) -> bool:
    if entry is None:
        return False
    return entry.items in _MANY[wanted] if wanted in _MANY else entry.kind in _SINGLE[wanted]


def _placed(header: Header, path: Path) -> list[GGUFTensor]:
    alignment = _alignment(header.metadata, path.name)
    data_start = -(-len(header.data) // alignment) * alignment
    tensors = []
    for name, type, shape, offset in header.tensors:
        row = shape[-1] if shape else 1
        if row % type.block_values:
            fault = f"{row:,} values, no whole blocks of {type.block_values} ({type.name})"
            raise damaged(path.name, f"a row of {shown(name)} has {fault}")
        if offset % alignment:
            raise damaged(path.name, f"{shown(name)} isn't aligned to {alignment:,} bytes")
        num_bytes = math.prod(shape) // type.block_values * type.block_bytes
        tensors.append(GGUFTensor(name, type, shape, data_start + offset, num_bytes, path))
    return tensors


def _alignment(metadata: Metadata, name: str) -> int:
    entry = metadata.entry("general.alignment")
    given = metadata.get("general.alignment", 32)
    if (entry and entry.kind != U32) or not isinstance(given, int) or given.bit_count() != 1:
        raise damaged(name, "general.alignment isn't a power of two")
    return given


def _check_places(tensors: list[GGUFTensor], name: str, num_bytes: int) -> None:
    end, before = 0, ""
    for each in sorted(tensors, key=lambda each: (each.offset, each.end)):
        if each.offset < end:
            raise damaged(name, f"{shown(before)} and {shown(each.name)} overlap")
        end, before = each.end, each.name
    if end > num_bytes:
        raise BrokenWeightsError(
            f"{name} has {num_bytes:,} bytes, and its tensors need {end:,}. It was not downloaded "
            "completely, or is damaged."
        )


def _place_in_split(opened: _Opened) -> tuple[int, int]:
    number, count = opened.integer("split.no", 0), max(opened.integer("split.count", 1), 1)
    if not 0 <= number < count:
        raise damaged(opened.path.name, f"it is part {number + 1:,} of {count:,}")
    return number, count


def _part_paths(path: Path, number: int, count: int) -> list[Path]:
    found = PART_NAME.fullmatch(path.name)
    if not found or (int(found[2]), int(found[4])) != (number + 1, count):
        raise MissingFileError(
            f"{path.name} is part {number + 1} of a model of {count} files. Their names should end "
            f"with -{number + 1:05}-of-{count:05}.gguf and so on, in one folder."
        )
    start, _, of, total, suffix = found.groups()
    return [path.with_name(f"{start}{each + 1:05}{of}{total}{suffix}") for each in range(count)]


def _check_split(parts: list[_Opened]) -> None:
    total = sum(len(part.header.tensors) for part in parts)
    for number, part in enumerate(parts):
        if _place_in_split(part) != (number, len(parts)):
            raise damaged(part.path.name, f"its name says part {number + 1}, its header another")
        claimed = part.integer("split.tensors.count", total)
        if claimed != total:
            raise BrokenWeightsError(
                f"The parts of {parts[0].path.name} have {total:,} tensors, and {part.path.name} "
                f"says {claimed:,}: a part is of another model, or damaged."
            )


def _joined(parts: list[_Opened]) -> GGUFFile:
    tensors: dict[str, GGUFTensor] = {}
    for part in parts:
        for each in part.tensors:
            if each.name in tensors:
                raise damaged(part.path.name, f"the tensor {shown(each.name)} occurs twice")
            tensors[each.name] = each
    if len(tensors) > MOST_TENSORS:
        raise damaged(parts[0].path.name, f"its parts have {len(tensors):,} tensors")
    files = tuple(
        GGUFPart(part.path, part.num_bytes, len(header), hashlib.sha256(header).digest())
        for part in parts
        for header in (part.header.data,)
    )
    return GGUFFile(files, parts[0].header.metadata, tensors)
