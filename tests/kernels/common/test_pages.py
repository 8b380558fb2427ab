"""Memory that goes back to the system when its tensor goes."""

from __future__ import annotations

import mmap
import weakref
from unittest import mock

import pytest
import torch

from kernels.common import memory as pages
from kernels.common.memory import room
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import WeightFormat


class Maps:
    """Inside, everything from 256 bytes on is worth a map; `there` are those not gone."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[mmap.mmap]] = []

    def __enter__(self) -> Maps:
        made = self._made

        class Watched(mmap.mmap):
            def __init__(self, *arguments: object, **more: object) -> None:
                made.append(weakref.ref(self))

        self._patches = (
            mock.patch("kernels.common.memory.mmap.mmap", Watched),
            mock.patch.object(pages, "_WORTH_MAPPING", 256),
        )
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()

    @property
    def there(self) -> int:
        return sum(made() is not None for made in self._made)


@pytest.mark.parametrize("shape", [(), (0, 3), (7, 5), (40, 30)])
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32])
def test_only_what_is_large_has_memory_of_its_own(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    with Maps() as maps:
        tensor = room(shape, dtype, torch.device("cpu"))
        assert (tuple(tensor.shape), tensor.dtype) == (shape, dtype)
        tensor.fill_(3)
        assert bool((tensor == 3).all())
        assert maps.there == (tensor.nbytes >= 256)
        del tensor
        assert maps.there == 0


@pytest.mark.parametrize(
    "weight_format", [Int8Format(None), Int4Format(False)], ids=["int8", "int4"]
)
def test_what_is_kept_of_a_weight_leaves_no_holes(weight_format: WeightFormat) -> None:
    """Otherwise a load would leave as much unused memory as the model takes."""
    weight = torch.randn(60, 256)  # one scale a row is little
    expected = weight_format.quantise(weight)
    with Maps() as maps:
        kept = weight_format.quantise(weight)
        assert all(map(torch.equal, kept, expected))
        assert maps.there == sum(tensor.nbytes >= 256 for tensor in kept) > 0
        del kept
        assert maps.there == 0
