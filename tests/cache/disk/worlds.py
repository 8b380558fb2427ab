"""Segment stores for tests: keys, tensors, chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from core.cache.disk.segment import SegmentId, SegmentKind
from core.cache.disk.store import SegmentStore, Window
from core.storage.files import Files
from core.storage.store import DiskStore
from tests.storage.disks import PLENTY, RoomyFiles, check_whole

FINGERPRINT = bytes(range(32))
KV, STATE, EMBEDDING = SegmentKind.KV, SegmentKind.STATE, SegmentKind.EMBEDDING
WINDOW, ROWS = SegmentKind.WINDOW, 3


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
    name = SegmentId(*place(kind, number))
    return store.blobs.path(store._pool, name.file_name)


def place(kind: SegmentKind, number: int) -> tuple[SegmentKind, bytes, int]:
    return kind, key(number), ROWS if kind is WINDOW else 0


def content(kind: SegmentKind, number: int) -> dict[str, Tensor]:
    return tensors(number + {STATE: 500, WINDOW: 700}.get(kind, 0))


def windows(store: SegmentStore, *numbers: int) -> list[Window]:
    """Parts of a checkpoint's windows, with the rows of those that aren't held."""
    held = [store.enough_rows(key(number), ROWS) for number in numbers]
    assert set(held) <= {0, ROWS}
    parts = zip(numbers, held, strict=True)
    return [(key(each), ROWS, {} if there else content(WINDOW, each)) for each, there in parts]


def check_integrity(store: SegmentStore) -> None:
    """Assert that index and files agree, under the cap."""
    check_whole(store.blobs)
    assert store.num_bytes <= store.cap


def put_chain(
    store: SegmentStore,
    numbers: Sequence[int],
    owner: str,
    parent: int | None = None,
    window: Sequence[int] = (),
) -> bool:
    """Put runs one behind the other, and a state at the end of the last."""
    above = key(parent) if parent is not None else None
    for number in numbers:
        if not store.put(KV, key(number), above, tensors(number), [owner]):
            return False
        above = key(number)
    last, parts = numbers[-1], windows(store, *window)
    return store.put(STATE, key(last), above, content(STATE, last), [owner], parts)


def put_pictures(store: SegmentStore, count: int) -> None:
    """Put embeddings that need nothing, of no chat."""
    for number in range(count):
        assert store.put(EMBEDDING, key(number), None, tensors(number), [""])


def pictures(store: SegmentStore) -> set[int]:
    return {number for number in range(10) if store.has(EMBEDDING, key(number))}


def get(store: SegmentStore, kind: SegmentKind, number: int) -> bool:
    """Return True if a segment is held, and assert that it is the right one."""
    found = store.get(*place(kind, number))
    if found is None:
        return False
    assert same(found, content(kind, number))
    return True
