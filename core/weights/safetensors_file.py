"""Safetensors headers: an 8-byte little-endian length, then JSON with each tensor's type, shape and
byte range (huggingface/safetensors, "Format"), checked before anything is allocated."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from core.api.errors import BrokenWeightsError, shown
from core.api.json_text import parse_json
from core.weights.container import TensorHeader, unreadable

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
LENGTH_BYTES = 8
# For all files of a folder. The largest published folders have 300,000 tensors, 40 MB of headers.
FOLDER_HEADER_BYTES = 64 * 2**20
FOLDER_TENSORS = 2**19
_NESTED_PER_ENTRY = 3  # objects and arrays
_MAX_DIMENSIONS = 8
_METADATA = "__metadata__"
DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "I16": torch.int16, "F16": torch.float16, "BF16": torch.bfloat16,
    "I32": torch.int32, "F32": torch.float32, "I64": torch.int64, "F64": torch.float64,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Other types that a proper file may have, though no model here reads them.
_BITS = {name: 8 * dtype.itemsize for name, dtype in DTYPES.items()} | {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "U32": 32, "U64": 64, "C64": 64,
}  # fmt: skip


class HeaderError(ValueError):
    """The message says what is wrong."""


@dataclass(frozen=True, slots=True)
class StoredTensor(TensorHeader):
    """`start` and `end` count bytes from the start of the file."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """The digest of the header tells later if it changed."""

    path: Path
    num_bytes: int
    header_digest: bytes
    tensors: Mapping[str, StoredTensor]


class HeaderBudget:
    """Limits the headers of a folder together: parsing takes several times their bytes."""

    def __init__(self) -> None:
        self._bytes, self._nested = FOLDER_HEADER_BYTES, _NESTED_PER_ENTRY * FOLDER_TENSORS

    def take(self, raw: bytes, path: Path) -> None:
        self._bytes -= len(raw)
        self._nested -= raw.count(b"{") + raw.count(b"[")
        if self._bytes < 0 or self._nested < 0:
            raise BrokenWeightsError(
                f"The headers of the weights files up to {path.name} describe more than any model "
                "has."
            )


def read_header(
    path: Path,
    check: Callable[[], None] = lambda: None,
    budget: HeaderBudget | None = None,
) -> WeightsFile:
    """`check` is called for every entry. Raises MissingFileError, BrokenWeightsError."""
    try:
        with path.open("rb") as file:
            num_bytes = os.fstat(file.fileno()).st_size
            raw = read_raw_header(file, num_bytes)
        (budget or HeaderBudget()).take(raw, path)
        _, tensors = parse_header(raw, num_bytes, check)
    except OSError as error:
        raise unreadable(path, error) from error
    except HeaderError as error:
        fault = f"{path.name} is damaged or not a safetensors file: {error}."
        raise BrokenWeightsError(fault) from error
    return WeightsFile(path, num_bytes, hashlib.sha256(raw).digest(), tensors)


def read_raw_header(file: BinaryIO, num_bytes: int) -> bytes:
    """Raises HeaderError, OSError."""
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if num_bytes < LENGTH_BYTES or length > num_bytes - LENGTH_BYTES:
        raise HeaderError(f"its header should take {length:,} bytes, the file has {num_bytes:,}")
    if length > MAX_HEADER_BYTES:
        raise HeaderError(f"its header claims {length:,} bytes")
    raw = file.read(length)
    if len(raw) != length:
        raise HeaderError("it ends inside its header")
    return raw


def parse_header(
    raw: bytes, num_bytes: int, check: Callable[[], None] = lambda: None
) -> tuple[Any, dict[str, StoredTensor]]:
    """Metadata, unchecked, and tensors of a file of `num_bytes` with this JSON text. Raises
    HeaderError unless they cover the data without gaps."""
    try:
        # Decoded here because `json` would accept UTF-16 and a byte order mark in bytes.
        entries = parse_json(raw.decode(), object_pairs_hook=_unique)
    except ValueError as error:
        raise HeaderError("its header is not proper JSON") from error
    if not isinstance(entries, dict) or not raw.startswith(b"{"):
        raise HeaderError("its header is not an object")
    data_start = LENGTH_BYTES + len(raw)
    metadata = entries.pop(_METADATA, {})
    tensors = {}
    for name, entry in entries.items():
        check()
        tensors[name] = _entry(name, entry, data_start, num_bytes)
    _check_cover(tensors, data_start, num_bytes)
    return metadata, tensors


def write_header(
    metadata: Mapping[str, str], tensors: Iterable[tuple[str, torch.dtype, tuple[int, ...]]]
) -> bytes:
    """There is one spelling: keys are sorted, and spaces align the data, which follows in this
    order."""
    header: dict[str, Any] = {_METADATA: metadata}
    start = 0
    for name, dtype, shape in tensors:
        assert name not in header
        end = start + math.prod(shape) * dtype.itemsize
        header[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name occurs twice")
    return unique


def _entry(name: str, entry: Any, data_start: int, num_bytes: int) -> StoredTensor:
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _BITS:
        given = shown(dtype) if isinstance(dtype, str) else "not a text"
        raise HeaderError(f"{shown(name)} has an unknown type ({given})")
    sizes, place = _sizes(shape), _sizes(offsets)
    if sizes is None:
        raise HeaderError(f"{shown(name)} has no proper shape")
    if place is None or len(place) != 2:
        raise HeaderError(f"{shown(name)} has no proper place in the file")
    start, end = (data_start + offset for offset in place)
    if start > end or end > num_bytes:
        raise HeaderError(f"{shown(name)} reaches from byte {start:,} to {end:,} of {num_bytes:,}")
    bits = math.prod(sizes) * _BITS[dtype]
    if (end - start) * 8 != bits:
        needed = f"{list(sizes)} in {dtype} takes {-(-bits // 8):,} bytes"
        raise HeaderError(f"{shown(name)}: {needed}, its entry has {end - start:,}")
    return StoredTensor(dtype, sizes, start, end)


def _sizes(values: Any) -> tuple[int, ...] | None:
    if not isinstance(values, list) or len(values) > _MAX_DIMENSIONS:
        return None
    # type() and not isinstance(): JSON's true would pass as the number 1.
    if all(type(size) is int and 0 <= size < 2**63 for size in values):
        return tuple(values)
    return None


def _check_cover(tensors: Mapping[str, StoredTensor], data_start: int, num_bytes: int) -> None:
    place, before = data_start, ""
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start < place:
            raise HeaderError(f"{shown(before)} and {shown(name)} overlap")
        if entry.start > place:
            raise HeaderError(f"bytes {place:,} to {entry.start:,} belong to no tensor")
        place, before = entry.end, name
    if place != num_bytes:
        raise HeaderError(f"bytes {place:,} to {num_bytes:,} belong to no tensor")
