"""Writing safetensors files by hand, proper and improper, and sparse ones of any size."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.weights.spec import Shape

BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F64": 8, "I32": 4, "U8": 1, "F8_E4M3": 1}


def entry(dtype: str, shape: Shape, start: int) -> dict[str, Any]:
    """One header entry whose data begins at `start`."""
    end = start + math.prod(shape) * BYTES[dtype]
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def write_raw(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    """A file with this header, as JSON unless it is bytes; `length` may lie about it."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    stated = len(raw) if length is None else length
    path.write_bytes(stated.to_bytes(8, "little") + raw + data)
    return path


def write_sparse(path: Path, tensors: Mapping[str, tuple[str, Shape]]) -> int:
    """A proper file full of zeros that takes no room on disk; returns its size in bytes."""
    header, start = {}, 0
    for name, (dtype, shape) in tensors.items():
        header[name] = entry(dtype, shape, start)
        start = header[name]["data_offsets"][1]
    write_raw(path, header)
    size = path.stat().st_size + start
    with path.open("r+b") as file:
        file.truncate(size)
    return size
