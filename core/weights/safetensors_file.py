"""The safetensors format: a header that is believed only after it has been checked.

A file is an 8-byte little-endian length, that many bytes of JSON, then the data. The header names
each tensor's type, shape and byte range in the data (huggingface/safetensors, "Format"). Nothing is
allocated for a tensor before its range is known to lie inside the file and to fit its shape.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from core.api.errors import BrokenWeightsError, MissingFileError
from core.api.json_text import parse_json

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
LENGTH_BYTES = 8
# Of all files of a folder. The largest folders published hold 300,000 tensors, in 40 MB of headers.
FOLDER_HEADER_BYTES = 64 * 2**20
FOLDER_TENSORS = 2**19
_NESTED_EACH = 3  # objects and arrays of an entry
_MAX_DIMENSIONS = 8
_SHOWN_CHARACTERS = 120  # published names have at most about 100
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
    header_digest: bytes
    tensors: Mapping[str, StoredTensor]


class HeaderBudget:
    """How much more the headers of a folder's files may hold: each costs several times its bytes
    as it is parsed."""

    def __init__(self) -> None:
        self._bytes, self._nested = FOLDER_HEADER_BYTES, _NESTED_EACH * FOLDER_TENSORS

    def take(self, raw: bytes, path: Path) -> None:
        """Raises BrokenWeightsError for the header that is too much."""
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
) -> SafetensorsFile:
    """Check the header of `path`, which takes from the `budget` of its folder.

    Raises MissingFileError, BrokenWeightsError, and what `check` raises, which is asked for every
    entry.
    """
    try:
        with path.open("rb") as file:
            num_bytes = os.fstat(file.fileno()).st_size
            raw = read_raw_header(file, path, num_bytes)
    except OSError as error:
        raise MissingFileError(f"{path.name} can't be read: {error.strerror}.") from error
    data_start = LENGTH_BYTES + len(raw)
    (budget or HeaderBudget()).take(raw, path)
    entries = _parse(raw, path)
    tensors = {}
    for name, entry in entries.items():
        check()
        if name != _METADATA:
            tensors[name] = _entry(name, entry, data_start, num_bytes, path)
    _check_cover(tensors, data_start, num_bytes, path)
    return SafetensorsFile(path, num_bytes, hashlib.sha256(raw).digest(), tensors)


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
        # Decoded here: given bytes, `json` would take UTF-16 and a byte order mark as well.
        entries = parse_json(raw.decode(), object_pairs_hook=_unique)
    except ValueError as error:
        raise _broken(path, "its header is not proper JSON") from error
    if not isinstance(entries, dict) or not raw.startswith(b"{"):
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
        place = f"from byte {start:,} to {end:,} of {num_bytes:,}"
        raise _broken(path, f"{shown(name)} reaches {place}")
    bits = math.prod(shape) * _DTYPE_BITS[dtype]
    if (end - start) * 8 != bits:
        needed = f"{list(shape)} in {dtype} takes {-(-bits // 8):,} bytes"
        raise _broken(path, f"{shown(name)}: {needed}, its entry has {end - start:,}")
    return StoredTensor(dtype, shape, start, end)


def _fields(name: str, entry: Any, path: Path) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    """The three fields of an entry, with the types that the format gives them."""
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _DTYPE_BITS:
        given = shown(dtype) if isinstance(dtype, str) else "not a text"
        raise _broken(path, f"{shown(name)} has an unknown type ({given})")
    sizes, place = _sizes(shape), _sizes(offsets)
    if sizes is None:
        raise _broken(path, f"{shown(name)} has no proper shape")
    if place is None or len(place) != 2:
        raise _broken(path, f"{shown(name)} has no proper place in the file")
    return dtype, sizes, (place[0], place[1])


def _sizes(values: Any) -> tuple[int, ...] | None:
    """A short list of counts as a tuple, None for anything else."""
    if not isinstance(values, list) or len(values) > _MAX_DIMENSIONS:
        return None
    # type() and not isinstance(): JSON's true would pass as the number 1.
    if all(type(size) is int and 0 <= size < 2**63 for size in values):
        return tuple(values)
    return None


def _check_cover(
    tensors: Mapping[str, StoredTensor], data_start: int, num_bytes: int, path: Path
) -> None:
    """Every byte of the data belongs to one tensor: the format allows no overlaps and no holes."""
    place, before = data_start, ""
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start < place:
            raise _broken(path, f"{shown(before)} and {shown(name)} overlap")
        if entry.start > place:
            raise _broken(path, f"bytes {place:,} to {entry.start:,} belong to no tensor")
        place, before = entry.end, name
    if place != num_bytes:
        raise _broken(path, f"bytes {place:,} to {num_bytes:,} belong to no tensor")


def shown(name: str) -> str:
    """A name out of a file as it may stand in a message: short, and nothing in it unseen."""
    short = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}.."
    return short if short.isprintable() else ascii(short)


def _broken(path: Path, fault: str) -> BrokenWeightsError:
    return BrokenWeightsError(f"{path.name} is damaged or not a safetensors file: {fault}.")
