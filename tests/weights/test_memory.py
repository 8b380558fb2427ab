"""Whether a model fits."""

from __future__ import annotations

import pytest
import torch

from core.api.errors import NotEnoughMemoryError
from core.weights import memory
from core.weights.memory import HEADROOM_BYTES, available_bytes, check_memory

CPU = torch.device("cpu")


def test_what_fits_passes() -> None:
    check_memory(10**9, 10**9 + HEADROOM_BYTES, CPU)


def test_what_does_not_fit_is_told_in_numbers() -> None:
    with pytest.raises(NotEnoughMemoryError, match=r"needs 8\.3 GB of memory, 4\.0 GB is free"):
        check_memory(8 * 10**9, 4 * 10**9, CPU)


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
