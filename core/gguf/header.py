"""Parser of GGUF headers, versions 2 and 3, little-endian (ggml, docs/gguf.md). Counts are compared
with the bytes left before anything is loaded."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from core.api.errors import BrokenWeightsError, GgufError, UnsupportedQuantisationError, shown
from kernels.blocks.types import OTHER_TYPES, TYPES, GGUFType

MAGIC = b"GGUF"
VERSIONS = (2, 3)
# The largest published headers (514,000 merges) have 25 MB.
MOST_HEADER_BYTES = 64 * 2**20
# For all parts of a model. Published ones have up to 2,000, as experts are stacked.
MOST_TENSORS = 2**16
MOST_KEYS = 2**16
_LONGEST_KEY = 2**16 - 1  # the format's own limits
_LONGEST_NAME = 64
_MOST_DIMENSIONS = 4
_MOST_VALUES = 2**63 - 1
_FIRST_READ = 2**20
_OLDER_MAGIC = {b"lmgg", b"fmgg", b"tjgg", b"algg", b"ggml", b"ggmf", b"ggjt", b"ggla"}
_NOT_READ = "Waymark can't read this GGUF file"

Array = npt.NDArray[Any]
Value = bool | int | float | str | list[str] | Array

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_COUNTS = struct.Struct("<QQ")
# Kinds of values by their ids.
U32, BOOL, TEXT, ARRAY = 4, 7, 8, 9
NUMBERS: dict[int, np.dtype[Any]] = {
    0: np.dtype("<u1"), 1: np.dtype("<i1"), 2: np.dtype("<u2"), 3: np.dtype("<i2"),
    U32: np.dtype("<u4"), 5: np.dtype("<i4"), 6: np.dtype("<f4"), BOOL: np.dtype("?"),
    10: np.dtype("<u8"), 11: np.dtype("<i8"), 12: np.dtype("<f8"),
}  # fmt: skip


class Entry(NamedTuple):
    """`items` is the kind of an array's items, `size` their number."""

    kind: int
    items: int | None
    size: int
    start: int


class TensorEntry(NamedTuple):
    """`offset` counts from the start of the data."""

    name: str
    type: GGUFType
    shape: tuple[int, ...]
    offset: int


class Metadata(Mapping[str, Value]):
    """Converted on access: keep a large array rather than ask for it twice. Arrays of texts are
    lists, others numpy's, read-only. A text that isn't UTF-8 raises BrokenWeightsError."""

    def __init__(self, name: str, data: bytes, entries: Mapping[str, Entry]) -> None:
        self._name, self._data, self._entries = name, data, entries

    def __getitem__(self, key: str) -> Value:
        entry = self._entries[key]
        try:
            if entry.kind == TEXT:
                return self._texts(entry.start, 1)[0]
            if entry.items == TEXT:
                return self._texts(entry.start, entry.size)
        except UnicodeDecodeError:
            raise damaged(self._name, f"the value of {shown(key)} isn't text") from None
        kind = entry.kind if entry.items is None else entry.items
        numbers = np.frombuffer(self._data, NUMBERS[kind], entry.size, entry.start)
        if entry.items is not None:
            return numbers
        single: bool | int | float = numbers.item()
        return single

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def _texts(self, position: int, count: int) -> list[str]:
        data, length = self._data, _U64.unpack_from
        texts = []
        for _ in range(count):
            start = position + 8
            position = start + length(data, position)[0]
            texts.append(data[start:position].decode())
        return texts


def damaged(name: str, fault: str) -> BrokenWeightsError:
    return BrokenWeightsError(f"{name} is damaged or not a GGUF file: {fault}.")


class _Bytes:
    def __init__(self, file: BinaryIO, name: str, num_bytes: int, most: int) -> None:
        self._file, self.name, self.num_bytes, self._most = file, name, num_bytes, most
        self.data, self.position = bytearray(), 0

    def damaged(self, fault: str) -> BrokenWeightsError:
        return damaged(self.name, fault)

    def need(self, count: int) -> None:
        """Raises BrokenWeightsError if the header can't have `count` more bytes."""
        wanted = self.position + count
        if wanted > self.num_bytes:
            raise self.damaged(f"it ends inside its header, at {self.num_bytes:,} bytes")
        if wanted > self._most:
            raise self.damaged(f"its header takes more than {MOST_HEADER_BYTES >> 20} MiB")
        loaded = len(self.data)
        if wanted > loaded:
            target = min(max(wanted, 2 * loaded, _FIRST_READ), self.num_bytes, self._most)
            self.data += self._file.read(target - loaded)
        if wanted > len(self.data):
            raise self.damaged("it was cut while it was read")

    def take(self, count: int) -> bytes:
        self.need(count)
        start, self.position = self.position, self.position + count
        return bytes(self.data[start : self.position])

    def u32(self) -> int:
        number: int = _U32.unpack(self.take(4))[0]
        return number

    def u64(self) -> int:
        number: int = _U64.unpack(self.take(8))[0]
        return number

    def name_of(self, what: str, longest: int) -> str:
        length = self.u64()
        if not 0 < length <= longest:
            raise self.damaged(f"the name of a {what} has {length:,} bytes")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise self.damaged(f"the name of a {what} isn't text") from None

    def skip_texts(self, count: int) -> None:
        self.need(8 * count)
        data, position, length = self.data, self.position, _U64.unpack_from
        last = len(data) - 8
        for _ in range(count):
            if position > last:
                self.position = position
                self.need(8)
                last = len(data) - 8
            position += 8 + length(data, position)[0]
        self.position = position
        self.need(0)


class Header(NamedTuple):
    data: bytes
    metadata: Metadata
    tensors: list[TensorEntry]


def parse_header(
    file: BinaryIO, name: str, num_bytes: int, most: int, check: Callable[[], None]
) -> Header:
    """Loads at most `most` bytes. Raises BrokenWeightsError, GgufError,
    UnsupportedQuantisationError, OSError."""
    source = _Bytes(file, name, num_bytes, most)
    tensor_count, key_count = _start(source)
    entries: dict[str, Entry] = {}
    for _ in range(key_count):
        check()
        key = source.name_of("key", _LONGEST_KEY)
        if key in entries:
            raise source.damaged(f"the key {shown(key)} occurs twice")
        entries[key] = _entry(source, key)
    tensors = []
    for _ in range(tensor_count):
        check()
        tensors.append(_tensor(source))
    data = bytes(source.data[: source.position])
    return Header(data, Metadata(name, data, entries), tensors)


def _start(source: _Bytes) -> tuple[int, int]:
    magic = source.take(4)
    if magic != MAGIC:
        if magic in _OLDER_MAGIC:
            fault = f"{source.name} has an older format than GGUF. Choose a newer file."
            raise GgufError(fault, _NOT_READ)
        raise source.damaged("it doesn't start with GGUF")
    version = source.u32()
    if version not in VERSIONS:
        fault = f"{source.name} is in version {version} of GGUF. Waymark reads versions 2 and 3."
        if version & 0xFFFF == 0 and version:
            fault = f"{source.name} is big-endian. Waymark reads little-endian files, the usual."
        raise GgufError(fault, _NOT_READ)
    tensors, keys = _COUNTS.unpack(source.take(_COUNTS.size))
    for count, most, what in ((tensors, MOST_TENSORS, "tensors"), (keys, MOST_KEYS, "keys")):
        if count > most:
            raise source.damaged(f"it claims to have {count:,} {what}")
    return tensors, keys


def _entry(source: _Bytes, key: str) -> Entry:
    kind, items, count = source.u32(), None, 1
    if kind == ARRAY:
        items, count = source.u32(), source.u64()
        if items == ARRAY:
            raise source.damaged(f"the value of {shown(key)} is an array of arrays")
    start = source.position
    single = kind if items is None else items
    if single == TEXT:
        source.skip_texts(count)
    elif single in NUMBERS:
        size = count * NUMBERS[single].itemsize
        source.need(size)
        source.position += size
        if single == BOOL and source.data[start : start + size].translate(None, b"\0\1"):
            raise source.damaged(f"the value of {shown(key)} is neither true nor false")
    else:
        raise source.damaged(f"the value of {shown(key)} has an unknown kind ({single})")
    return Entry(kind, items, count, start)


def _tensor(source: _Bytes) -> TensorEntry:
    name = source.name_of("tensor", _LONGEST_NAME)
    dimensions = source.u32()
    if dimensions > _MOST_DIMENSIONS:
        raise source.damaged(f"{shown(name)} has {dimensions:,} dimensions")
    shape = tuple(source.u64() for _ in range(dimensions))[::-1]
    if math.prod(shape) > _MOST_VALUES:
        raise source.damaged(f"{shown(name)} has the impossible shape {list(shape)}")
    number, offset = source.u32(), source.u64()
    if number not in TYPES:
        given = OTHER_TYPES.get(number, f"number {number}")
        raise UnsupportedQuantisationError(
            f"{shown(name)} in {source.name} has the type {given}, which Waymark can't read."
        )
    return TensorEntry(name, TYPES[number], shape, offset)
