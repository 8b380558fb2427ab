"""Weights in the arena are whole, separate, and freed with their last tensor."""

from __future__ import annotations

import mmap
import weakref
from unittest import mock

import torch
from torch import Tensor

from kernels.common import memory as arena
from kernels.common.memory import Arena


def tensors() -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [
        torch.randint(-128, 127, (37, 11), generator=draw, dtype=torch.int8),
        torch.randn(5, 3, generator=draw),
        torch.randn(8, 6, generator=draw).bfloat16().T,
        torch.empty(0, 4),
        torch.randn(1, generator=draw),
    ]


def test_tensors_are_the_same_and_apart() -> None:
    given, place = tensors(), Arena().place
    placed = [place(each) for each in given]
    for found, expected in zip(placed, given, strict=True):
        assert torch.equal(found, expected) and found.dtype == expected.dtype
        assert found.is_contiguous() and found.data_ptr() % 64 == 0
    for each in placed[::2]:
        each.zero_()
    assert all(map(torch.equal, placed[1::2], given[1::2]))


def test_many_fill_chunks_and_one_larger_than_a_chunk_stays_where_it_is() -> None:
    """A copy of the largest would be the most that a load takes."""
    with (
        mock.patch.object(arena, "_CHUNK", 4096),
        mock.patch.object(arena, "LARGEST_COPY", 4096),
    ):
        place = Arena().place
        given = [
            torch.full((size,), size % 251, dtype=torch.uint8) for size in (4000, 90, 7, 200, 5000)
        ]
        placed = [place(each) for each in given]
        turned = given[4].view(50, 100).T
        assert torch.equal(place(turned), turned) and place(turned).is_contiguous()
    assert all(map(torch.equal, placed, given))
    assert placed[4] is given[4]
    assert all(found is not each for found, each in zip(placed[:4], given[:4], strict=True))


def test_memory_goes_with_the_last_tensor_in_it() -> None:
    """Chunk after chunk, while others stay."""
    chunks: list[weakref.ref[mmap.mmap]] = []

    class Watched(mmap.mmap):
        def __init__(self, *arguments: object, **more: object) -> None:
            chunks.append(weakref.ref(self))

    with (
        mock.patch("kernels.common.memory.mmap.mmap", Watched),
        mock.patch.object(arena, "_CHUNK", 4096),
    ):
        place = Arena().place
        first = [place(torch.ones(3000, dtype=torch.uint8)) for _ in range(3)]
        second = place(torch.ones(900, dtype=torch.uint8))  # beside the last of them
        assert len(chunks) == 3 and all(chunk() is not None for chunk in chunks)
        first.clear()
        assert [chunk() is not None for chunk in chunks] == [False, False, True]
    assert bool((second == 1).all())


def test_a_system_without_large_pages_or_maps_has_other_memory() -> None:
    """Some kernels are built without them, and say that the wish is invalid."""

    class Refusing(mmap.mmap):
        def madvise(self, *wish: int) -> None:
            raise OSError(22, "Invalid argument")

    (given, *_) = tensors()
    with mock.patch("kernels.common.memory.mmap.mmap", Refusing):
        assert torch.equal(Arena().place(given), given)
    with mock.patch.object(arena, "mapped", side_effect=OSError(12, "Cannot allocate memory")):
        assert torch.equal(Arena().place(given), given)
