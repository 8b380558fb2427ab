"""Writer of GGUF files for tests, proper or not: every number of a header can be given."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernels.blocks.types import TYPES

_ORDER = "u8 i8 u16 i16 u32 i32 f32 bool text array u64 i64 f64".split()
KINDS = {name: number for number, name in enumerate(_ORDER)}
FORMATS = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f",
           "bool": "B", "u64": "Q", "i64": "q", "f64": "d"}  # fmt: skip


class Tensor(NamedTuple):
    """A tensor to be written; its data are zeros unless `data` has other bytes."""

    name: str
    shape: tuple[int, ...]
    type: int = 0
    offset: int | None = None
    data: bytes | None = None


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def plain(kind: str, value: Any) -> bytes:
    return text(value) if kind == "text" else struct.pack("<" + FORMATS[kind], value)


def key(name: str, kind: str, value: Any) -> bytes:
    """One key with its value; `[u32]` is an array."""
    start = text(name)
    if not kind.startswith("["):
        return start + struct.pack("<I", KINDS[kind]) + plain(kind, value)
    items = kind[1:-1]
    counts = struct.pack("<IIQ", KINDS["array"], KINDS[items], len(value))
    return start + counts + b"".join(plain(items, each) for each in value)


def gguf(
    keys: Mapping[str, tuple[str, Any]] | None = None,
    tensors: Sequence[Tensor] = (),
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    start = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys or {}))
    start += b"".join(key(name, *value) for name, value in (keys or {}).items())
    data = b""
    for name, shape, type, offset, given in tensors:
        place = len(data) if offset is None else offset
        start += text(name) + struct.pack("<I", len(shape))
        start += b"".join(struct.pack("<Q", size) for size in reversed(shape))
        start += struct.pack("<IQ", type, place)
        data += bytes(num_bytes(type, shape)) if given is None else given
        data += bytes(-len(data) % alignment)
    return start + bytes(-len(start) % alignment) + data


def num_bytes(type: int, shape: tuple[int, ...]) -> int:
    if type not in TYPES:
        return 0
    return math.prod(shape) // TYPES[type].block_values * TYPES[type].block_bytes


def write(path: Path, *given: Any, **named: Any) -> Path:
    path.write_bytes(gguf(*given, **named))
    return path
