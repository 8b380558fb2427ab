"""The safetensors format: a header that is believed only after it has been checked.

A file is an 8-byte little-endian length, that many bytes of JSON, then the data. The header names
each tensor's type, shape and byte range in the data (huggingface/safetensors, "Format"). Nothing is
allocated for a tensor before its range is known to lie inside the file and to fit its shape.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from core.api.errors import BrokenWeightsError, MissingFileError

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
LENGTH_BYTES = 8
_MAX_DIMENSIONS = 8
_METADATA = "__metadata__"
_DTYPE_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One entry of a header; `start` and `end` count bytes from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SafetensorsFile:
    """A file whose header has been checked. `header_digest` tells whether it changed since."""

    path: Path
    num_bytes: int
    header_bytes: int
    header_digest: bytes
    tensors: Mapping[str, StoredTensor]


def read_header(path: Path) -> SafetensorsFile:
    """Check the header of `path`; raises MissingFileError or BrokenWeightsError."""
    try:
        with path.open("rb") as file:
            num_bytes = path.stat().st_size
            raw = read_raw_header(file, path, num_bytes)
    except OSError as error:
        raise MissingFileError(f"{path.name} can't be read: {error.strerror}.") from error
    data_start = LENGTH_BYTES + len(raw)
    entries = _parse(raw, path)
    tensors = {
        name: _entry(name, entry, data_start, num_bytes, path)
        for name, entry in entries.items()
        if name != _METADATA
    }
    _check_overlap(tensors, path)
    return SafetensorsFile(path, num_bytes, len(raw), hashlib.sha256(raw).digest(), tensors)


def read_raw_header(file: BinaryIO, path: Path, num_bytes: int) -> bytes:
    """The header's JSON text from an open file, after its length has been checked."""
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if num_bytes < LENGTH_BYTES or length > num_bytes - LENGTH_BYTES:
        raise _broken(path, f"its header should take {length:,} bytes, the file has {num_bytes:,}")
    if length > MAX_HEADER_BYTES:
        raise _broken(path, f"its header claims {length:,} bytes")
    raw = file.read(length)
    if len(raw) != length:
        raise _broken(path, "it ends inside its header")
    return raw


def _parse(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        entries = json.loads(raw, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _broken(path, "its header is not proper JSON") from error
    if not isinstance(entries, dict):
        raise _broken(path, "its header is not an object")
    return entries


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys all differ: with two entries of one name, readers would disagree."""
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name occurs twice")
    return unique


def _entry(name: str, entry: Any, data_start: int, num_bytes: int, path: Path) -> StoredTensor:
    dtype, shape, offsets = _fields(name, entry, path)
    start, end = (data_start + offset for offset in offsets)
    if start > end or end > num_bytes:
        raise _broken(path, f"{name} reaches from byte {start:,} to {end:,} of {num_bytes:,}")
    bits = math.prod(shape) * _DTYPE_BITS[dtype]
    if (end - start) * 8 != bits:
        needed = f"{list(shape)} in {dtype} takes {-(-bits // 8):,} bytes"
        raise _broken(path, f"{name}: {needed}, its entry has {end - start:,}")
    return StoredTensor(dtype, shape, start, end)


def _fields(name: str, entry: Any, path: Path) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    """The three fields of an entry, with the types that the format gives them."""
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _DTYPE_BITS:
        raise _broken(path, f"{name} has an unknown type ({str(dtype)[:40]})")
    sizes, place = _sizes(shape), _sizes(offsets)
    if sizes is None:
        raise _broken(path, f"{name} has no proper shape")
    if place is None or len(place) != 2:
        raise _broken(path, f"{name} has no proper place in the file")
    return dtype, sizes, (place[0], place[1])


def _sizes(values: Any) -> tuple[int, ...] | None:
    """A short list of counts as a tuple, None for anything else."""
    if not isinstance(values, list) or len(values) > _MAX_DIMENSIONS:
        return None
    # type() and not isinstance(): JSON's true would pass as the number 1.
    if all(type(size) is int and 0 <= size < 2**63 for size in values):
        return tuple(values)
    return None


def _check_overlap(tensors: Mapping[str, StoredTensor], path: Path) -> None:
    ordered = sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end))
    for (first, before), (second, after) in itertools.pairwise(ordered):
        if after.start < before.end:
            raise _broken(path, f"{first} and {second} overlap")


def _broken(path: Path, fault: str) -> BrokenWeightsError:
    return BrokenWeightsError(f"{path.name} is damaged or not a safetensors file: {fault}.")
