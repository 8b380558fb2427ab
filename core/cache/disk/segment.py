"""A segment: the tensors of a run, checkpoint, window's part or picture as one safetensors file.
The header has a single spelling, and a checksum covers header and data."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from core.weights.safetensors_file import (
    DTYPES,
    LENGTH_BYTES,
    HeaderError,
    StoredTensor,
    parse_header,
    write_header,
)
from kernels.common.memory import octets

FORMAT = "waymark-segment-1"
KEY_BYTES = 32
# Headers take about 100 bytes a tensor.
MAX_HEADER_BYTES = 2**20
_CHECKSUM = "checksum"
_FILE_NAME = re.compile(r"(kv|state|window|embedding)-([0-9a-f]{64})(?:-(\d+))?\.safetensors")
Layout = list[tuple[str, torch.dtype, tuple[int, ...]]]


class SegmentKind(enum.Enum):
    KV = "kv"
    STATE = "state"
    WINDOW = "window"
    EMBEDDING = "embedding"


class SegmentDamagedError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SegmentId:
    """Of rows in sliding windows, a segment has the run's last `num_rows`."""

    kind: SegmentKind
    key: bytes
    num_rows: int = 0

    def __post_init__(self) -> None:
        assert len(self.key) == KEY_BYTES

    @property
    def file_name(self) -> str:
        rows = f"-{self.num_rows}" if self.num_rows else ""
        return f"{self.kind.value}-{self.key.hex()}{rows}.safetensors"

    @classmethod
    def of_file(cls, file_name: str) -> SegmentId | None:
        found = _FILE_NAME.fullmatch(file_name)
        if found is None:
            return None
        return cls(SegmentKind(found[1]), bytes.fromhex(found[2]), int(found[3] or 0))


@dataclass(frozen=True, slots=True)
class Label:
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
    header: bytes
    tensors: tuple[Tensor, ...]

    @property
    def num_bytes(self) -> int:
        return len(self.header) + sum(tensor.nbytes for tensor in self.tensors)

    def parts(self) -> Iterator[bytes | memoryview]:
        yield self.header
        yield from map(octets, self.tensors)


def pack(label: Label, tensors: Mapping[str, Tensor]) -> PackedSegment:
    """Contiguous CPU tensors are not copied, others one at a time."""
    # The widest types first: then every tensor starts at a multiple of its own width.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    ordered = tuple(tensors[name].detach() for name in names)
    layout: Layout = [(name, tensors[name].dtype, tuple(tensors[name].shape)) for name in names]
    metadata = label.metadata()
    metadata[_CHECKSUM] = _checksum(metadata, layout, map(octets, ordered))
    header = write_header(metadata, layout)
    assert len(header) <= MAX_HEADER_BYTES
    return PackedSegment(header, ordered)


def largest_copy(tensors: Mapping[str, Tensor]) -> int:
    copied = (
        tensor.nbytes
        for tensor in tensors.values()
        if tensor.device.type != "cpu" or not tensor.is_contiguous()
    )
    return max(copied, default=0)


def unpack(label: Label, raw: bytearray) -> dict[str, Tensor]:
    """Verified tensors, each in its own memory. Raises SegmentDamagedError."""
    length = int.from_bytes(raw[:LENGTH_BYTES], "little")
    start = LENGTH_BYTES + length
    if len(raw) < start or length > MAX_HEADER_BYTES:
        raise SegmentDamagedError(f"Its header claims {length:,} bytes of {len(raw):,}.")
    try:
        metadata, entries = parse_header(bytes(raw[LENGTH_BYTES:start]), len(raw))
        ordered = sorted(entries.items(), key=lambda item: (item[1].start, item[1].end))
        layout = [(name, DTYPES[entry.dtype], entry.shape) for name, entry in ordered]
    except (HeaderError, KeyError):
        raise SegmentDamagedError("Its header is not a proper one.") from None
    if not isinstance(metadata, dict) or not isinstance(metadata.get(_CHECKSUM), str):
        raise SegmentDamagedError("It carries no checksum.")
    if write_header(metadata, layout) != raw[:start]:
        raise SegmentDamagedError("Its header is not one that Waymark writes.")
    checksum = metadata.pop(_CHECKSUM)
    if _checksum(metadata, layout, [memoryview(raw)[start:]]) != checksum:
        raise SegmentDamagedError("Its checksum is wrong.")
    _check_label(label, metadata)
    return {name: _tensor(raw, entry) for name, entry in ordered}


def _check_label(label: Label, found: Mapping[str, str]) -> None:
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


def _tensor(raw: bytearray, entry: StoredTensor) -> Tensor:
    owned = torch.empty(entry.shape, dtype=DTYPES[entry.dtype])
    if owned.numel() > 0:
        # Copied as bytes, which may start anywhere; numbers must be aligned to their width.
        source = torch.frombuffer(raw, dtype=torch.uint8, count=owned.nbytes, offset=entry.start)
        owned.view(-1).view(torch.uint8).copy_(source)
    return owned


def _checksum(
    metadata: Mapping[str, str], layout: Layout, data: Iterable[bytes | memoryview]
) -> str:
    digest = hashlib.blake2b(write_header(metadata, layout)[LENGTH_BYTES:], digest_size=32)
    for part in data:
        digest.update(part)
    return digest.hexdigest()
