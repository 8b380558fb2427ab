"""Segment stores for tests: keys, tensors and disks that fail or die at a chosen step."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from core.cache.disk.files import Files, Space
from core.cache.disk.segment import SegmentKind
from core.cache.disk.store import SegmentStore

FINGERPRINT = bytes(range(32))
KV, STATE, EMBEDDING = SegmentKind.KV, SegmentKind.STATE, SegmentKind.EMBEDDING
PLENTY = 2**40


class RoomyFiles(Files):
    """A disk whose free space and speed don't depend on the machine that runs the tests."""

    def __init__(self, free: int = PLENTY) -> None:
        self.space = Space(free, PLENTY)

    def free(self, folder: Path) -> Space:
        return self.space

    def _sync(self, handle: int) -> None:
        """Not waited for: no test cuts the power."""


class DiedError(BaseException):
    """The process was killed: no handler may run its cleaning up, as none would."""


class FailingFiles(RoomyFiles):
    """Counts the steps that change the disk; lets one of them fail or kill.

    A killed process changes nothing any more; a write in which it dies gets half of its bytes down.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_steps = 0
        self.die_at: int | None = None
        self.fail_at: int | None = None
        self.stays_broken = False
        self.room: int | None = None  # bytes until the disk is full

    def _step(self) -> bool:
        """Count one step; whether the process dies in it."""
        self.num_steps += 1
        if self.num_steps == self.fail_at or (self.stays_broken and self._is_past_failure()):
            raise OSError(errno.EIO, "Input/output error")
        if self.die_at is not None and self.num_steps > self.die_at:
            raise DiedError
        return self.num_steps == self.die_at

    def _is_past_failure(self) -> bool:
        return self.fail_at is not None and self.num_steps > self.fail_at

    def _create(self, path: Path) -> int:
        self._die_if(self._step())
        return super()._create(path)

    def _open(self, path: Path) -> int:
        self._die_if(self._step())
        return super()._open(path)

    def _write(self, handle: int, data: memoryview) -> int:
        dies = self._step()
        if self.room is not None:
            data = data[: self.room]
            self.room -= len(data)
            if not data:
                raise OSError(errno.ENOSPC, "No space left on device")
        count = super()._write(handle, data[: len(data) // 2] if dies else data)
        self._die_if(dies)
        return count

    def _sync(self, handle: int) -> None:
        self._die_if(self._step())

    def _replace(self, source: Path, target: Path) -> None:
        self._die_if(self._step())
        super()._replace(source, target)

    def delete(self, path: Path) -> None:
        self._die_if(self._step())
        super().delete(path)

    def mark_used(self, path: Path) -> None:
        self._die_if(self._step())
        super().mark_used(path)

    @staticmethod
    def _die_if(dies: bool) -> None:
        if dies:
            raise DiedError


def key(number: int) -> bytes:
    return (number + 1).to_bytes(32)


def tensors(number: int, size: int = 32) -> dict[str, Tensor]:
    """What segment `number` holds in these tests; `size` numbers, so any mix-up shows."""
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
    folder: Path, cap: int = PLENTY, files: Files | None = None, floor: int = 0
) -> SegmentStore:
    return SegmentStore(folder, FINGERPRINT, cap, floor, files or RoomyFiles())


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


def get(store: SegmentStore, kind: SegmentKind, number: int) -> bool:
    """Whether a segment is held; it must then be the right one."""
    found = store.get(kind, key(number))
    if found is None:
        return False
    assert same(found, tensors(number + 500 if kind is STATE else number))
    return True
