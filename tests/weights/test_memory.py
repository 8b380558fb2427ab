"""Free memory, and memory that is returned to the system."""

from __future__ import annotations

import pytest
import torch

from core.weights import memory
from core.weights.memory import available_bytes

CPU = torch.device("cpu")


def test_the_machine_has_some_memory() -> None:
    assert available_bytes(CPU) > 10**8


def test_what_is_freed_bit_by_bit_goes_back_in_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of sparse experts hold ten thousand matrices; a look takes as long as the heap is
    cut up."""
    looks: list[str] = []
    monkeypatch.setattr(memory, "release_to_system", lambda: looks.append("look"))
    freed = memory.FreedBlocks()
    for _ in range(1_000):
        freed.add(2**20)
    assert len(looks) == 1_000 // 16
    freed.add(2**30)
    assert len(looks) == 1_000 // 16 + 1
