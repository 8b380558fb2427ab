"""Segment stores for tests: keys, tensors, chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from core.cache.disk.segment import SegmentId, SegmentKind
from core.cache.disk.store import SegmentStore
from core.storage.files import Files
from core.storage.store import DiskStore
from tests.storage.disks import PLENTY, RoomyFiles, check_whole

FINGERPRINT = bytes(range(32))
KV, STATE, EMBEDDING = SegmentKind.KV, SegmentKind.STATE, SegmentKind.EMBEDDING


def key(number: int) -> bytes:
    return (number + 1).to_bytes(32)


def tensors(number: int, size: int = 32) -> dict[str, Tensor]:
    """The content of segment `number`: `size` numbers, different in each segment."""
    rows = torch.arange(size, dtype=torch.float32) + 1_000 * number
    return {"layer.3.keys": rows, "layer.3.values": -rows}


def same(found: Mapping[str, Tensor] | None, expected: Mapping[str, Tensor]) -> bool:
    """Equal to the bit: same names, types, shapes and bytes."""
    return (
        found is not None
        and found.keys() == expected.keys()
        and all(
            found[name].dtype == tensor.dtype
            and found[name].shape == tensor.shape
            and bits(found[name]) == bits(tensor)
            for name, tensor in expected.items()
        )
    )


def bits(tensor: Tensor) -> list[int]:
    flat = tensor.contiguous().view(-1)
    return flat.view(torch.uint8).tolist() if flat.numel() else []


def open_store(
    folder: Path,
    cap: int = PLENTY,
    files: Files | None = None,
    floor: int = 0,
    fingerprint: bytes = FINGERPRINT,
) -> SegmentStore:
    return SegmentStore(DiskStore(folder, floor, files or RoomyFiles()), fingerprint, cap)


def file_of(store: SegmentStore, kind: SegmentKind, number: int) -> Path:
    return store.blobs.path(store._pool, SegmentId(kind, key(number)).file_name)


def check_integrity(store: SegmentStore) -> None:
    """Assert that index and files agree, under the cap."""
    check_whole(store.blobs)
    assert store.num_bytes <= store.cap


def put_chain(
    store: SegmentStore, numbers: Sequence[int], owner: str, parent: int | None = None
) -> bool:
    """Put runs one behind the other, and a state at the end of the last."""
    above = key(parent) if parent is not None else None
    for number in numbers:
        if not store.put(KV, key(number), above, tensors(number), [owner]):
            return False
        above = key(number)
    return store.put(STATE, key(numbers[-1]), above, tensors(numbers[-1] + 500), [owner])


def put_pictures(store: SegmentStore, count: int) -> None:
    """Put embeddings that need nothing, of no chat."""
    for number in range(count):
        assert store.put(EMBEDDING, key(number), None, tensors(number), [""])


def pictures(store: SegmentStore) -> set[int]:
    return {number for number in range(10) if store.has(EMBEDDING, key(number))}


def get(store: SegmentStore, kind: SegmentKind, number: int) -> bool:
    """Return True if a segment is held, and assert that it is the right one."""
    found = store.get(kind, key(number))
    if found is None:
        return False
    assert same(found, tensors(number + 500 if kind is STATE else number))
    return True
