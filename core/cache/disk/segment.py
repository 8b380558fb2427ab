"""A segment: the tensors of one run, checkpoint or picture as one checksummed safetensors file.

The format is safetensors (huggingface/safetensors, "Format"), so any of its readers opens a
segment. Ours writes the header in one way only and refuses any other spelling: together with the
checksum, which covers header and data, that makes every bit of a file count. Nothing is believed
before it has been checked, and no tensor is made before its bytes are known to be there.

Knows nothing of files and folders (`core.storage`), nor of what a segment is good for.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.api.json_text import parse_json
from kernels.common.memory import octets

FORMAT = "waymark-segment-1"
KEY_BYTES = 32
LENGTH_BYTES = 8
# Ours take about 100 bytes a tensor; a larger header is not ours and is not worth parsing.
MAX_HEADER_BYTES = 2**20
_METADATA = "__metadata__"
_CHECKSUM = "checksum"
_DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16,
    "I32": torch.int32, "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16,
    "F32": torch.float32, "F64": torch.float64,
}  # fmt: skip
_FILE_NAME = re.compile(r"(kv|state|embedding)-([0-9a-f]{64})\.safetensors")
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class SegmentKind(enum.Enum):
    """What a segment holds: a run's keys and values, a checkpoint, or a picture's embedding."""

    KV = "kv"
    STATE = "state"
    EMBEDDING = "embedding"


class SegmentDamagedError(Exception):
    """A stored file did not verify and is gone now; `reason` says what was wrong with it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SegmentId:
    """Names one segment of a model; `key` has 32 bytes."""

    kind: SegmentKind
    key: bytes

    def __post_init__(self) -> None:
        assert len(self.key) == KEY_BYTES

    @property
    def file_name(self) -> str:
        return f"{self.kind.value}-{self.key.hex()}.safetensors"

    @classmethod
    def of_file(cls, file_name: str) -> SegmentId | None:
        """The segment that a file claims to be by its name, None for other files."""
        found = _FILE_NAME.fullmatch(file_name)
        return cls(SegmentKind(found[1]), bytes.fromhex(found[2])) if found is not None else None


@dataclass(frozen=True, slots=True)
class Label:
    """What a file must say of itself to be the one that was asked for."""

    fingerprint: bytes
    name: SegmentId
    parent: bytes | None

    def metadata(self) -> dict[str, str]:
        return {
            "format": FORMAT,
            "fingerprint": self.fingerprint.hex(),
            "kind": self.name.kind.value,
            "key": self.name.key.hex(),
            "parent": self.parent.hex() if self.parent is not None else "",
        }


@dataclass(frozen=True, slots=True)
class PackedSegment:
    """A segment ready to be written: its header, and its tensors in file order."""

    header: bytes
    tensors: tuple[Tensor, ...]

    @property
    def num_bytes(self) -> int:
        return len(self.header) + sum(tensor.nbytes for tensor in self.tensors)

    def parts(self) -> Iterator[bytes | memoryview]:
        """The file's bytes in order, copied as by `pack`."""
        yield self.header
        yield from map(octets, self.tensors)


def pack(label: Label, tensors: Mapping[str, Tensor]) -> PackedSegment:
    """Lay out tensors of any device and stride. Contiguous CPU tensors are not copied, and of the
    others only one at a time."""
    # The widest types first: then every tensor starts at a multiple of its own width.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    ordered = tuple(tensors[name].detach() for name in names)
    entries: dict[str, Any] = {}
    start = 0
    for name, tensor in zip(names, ordered, strict=True):
        assert name != _METADATA
        end = start + tensor.nbytes
        entries[name] = {
            "dtype": _DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    metadata = label.metadata()
    digest = _digest({_METADATA: metadata, **entries})
    for tensor in ordered:
        digest.update(octets(tensor))
    metadata[_CHECKSUM] = digest.hexdigest()
    text = _canonical({_METADATA: metadata, **entries})
    assert len(text) <= MAX_HEADER_BYTES
    return PackedSegment(len(text).to_bytes(LENGTH_BYTES, "little") + text, ordered)


def largest_copy(tensors: Mapping[str, Tensor]) -> int:
    """The most bytes that writing these tensors copies at a time."""
    return max((tensor.nbytes for tensor in tensors.values() if not _lies_ready(tensor)), default=0)


def unpack(label: Label, raw: bytearray) -> dict[str, Tensor]:
    """The tensors of a file that verifies, each in memory of its own; raises
    SegmentDamagedError."""
    header, start = _header(raw)
    metadata = header.get(_METADATA)
    if not isinstance(metadata, dict) or not isinstance(metadata.get(_CHECKSUM), str):
        raise SegmentDamagedError("It carries no checksum.")
    checksum = metadata.pop(_CHECKSUM)
    data = memoryview(raw)[start:]
    digest = _digest(header)
    digest.update(data)
    if digest.hexdigest() != checksum:
        raise SegmentDamagedError("Its checksum is wrong.")
    _check_label(label, metadata)
    del header[_METADATA]
    return _tensors(header, raw, start)


def _header(raw: bytearray) -> tuple[dict[str, Any], int]:
    """The header, and where the data starts."""
    length = int.from_bytes(raw[:LENGTH_BYTES], "little")
    start = LENGTH_BYTES + length
    if len(raw) < start or length > MAX_HEADER_BYTES:
        raise SegmentDamagedError(f"Its header claims {length:,} bytes of {len(raw):,}.")
    text = bytes(raw[LENGTH_BYTES:start])
    try:
        header = parse_json(text)
    except ValueError:
        raise SegmentDamagedError("Its header is not proper JSON.") from None
    if not isinstance(header, dict) or _canonical(header) != text:
        raise SegmentDamagedError("Its header is not one that Waymark writes.")
    return header, start


def _check_label(label: Label, found: Mapping[str, Any]) -> None:
    reasons = {
        "format": "It was written in another format.",
        "fingerprint": "It belongs to another model, or to other settings of it.",
        "kind": "It holds something else than its name says.",
        "key": "It holds something else than its name says.",
        "parent": "It follows another text than expected.",
    }
    for field, expected in label.metadata().items():
        if found.get(field) != expected:
            raise SegmentDamagedError(reasons[field])


def _tensors(entries: Mapping[str, Any], raw: bytearray, start: int) -> dict[str, Tensor]:
    """Make the tensors; their entries must fill the data from end to end, one after the other."""
    tensors = {}
    data = start
    try:
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
            end = start + _num_bytes(dtype, shape)
            if entry["data_offsets"] != [start - data, end - data] or end > len(raw):
                raise ValueError("an entry lies elsewhere")
            tensors[name] = _tensor(raw, start, dtype, shape)
            start = end
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise SegmentDamagedError("Its header names no proper tensors.") from None
    if start != len(raw):
        raise SegmentDamagedError("It has bytes that no tensor claims.")
    return tensors


def _num_bytes(dtype: torch.dtype, shape: tuple[Any, ...]) -> int:
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("a size is a count")
    return int(math.prod(shape)) * dtype.itemsize


def _tensor(raw: bytearray, start: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    owned = torch.empty(shape, dtype=dtype)
    if owned.numel() > 0:
        # Copied as bytes: those may start anywhere, numbers only at multiples of their width.
        source = torch.frombuffer(raw, dtype=torch.uint8, count=owned.nbytes, offset=start)
        owned.view(-1).view(torch.uint8).copy_(source)
    return owned


def _lies_ready(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.is_contiguous()


def _canonical(header: Mapping[str, Any]) -> bytes:
    """The one spelling of a header, padded with spaces so that the data starts aligned."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % LENGTH_BYTES)


def _digest(header: Mapping[str, Any]) -> hashlib.blake2b:
    """A digest that already covers the header as it is without the checksum."""
    return hashlib.blake2b(_canonical(header), digest_size=32)
