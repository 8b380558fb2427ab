"""One token's attention on a GPU against the plain one: groups, lengths, windows, poison."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.attention import reference
from tests.kernels.gpu import assert_near, guarded_memory, poison, strided

gpu = pytest.importorskip("kernels.attention.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

DTYPES = [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]
SCALE = 0.3


def make_case(
    length: int, heads: int, kv_heads: int, dim: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    shapes = ((1, heads, dim), (length, kv_heads, dim), (length, kv_heads, dim))
    queries, keys, values = (torch.randn(shape, generator=generator) for shape in shapes)
    return queries.to(dtype), keys.to(dtype), values.to(dtype)


def in_slab(rows: Tensor, device: torch.device) -> Tensor:
    """The first rows of a slab of poison, whose heads lie apart as well."""
    slab = poison((len(rows) + 40, *rows.shape[1:]), rows.dtype, device)
    slab[: len(rows)] = rows
    return strided(slab)


def attend(
    case: tuple[Tensor, Tensor, Tensor],
    device: torch.device,
    window: int | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    queries, keys, values = case
    length = torch.tensor([len(keys)], device=device)
    found: Tensor = gpu.decode_attention(
        strided(queries.to(device)),
        in_slab(keys, device),
        in_slab(values, device),
        length,
        SCALE,
        window,
        None if sinks is None else sinks.to(device),
    )
    return found


def plain(
    case: tuple[Tensor, Tensor, Tensor], window: int | None = None, sinks: Tensor | None = None
) -> Tensor:
    queries, keys, values = (each.float() for each in case)
    return reference.causal_attention(queries, keys, values, SCALE, window, sinks)


def ulps(case: tuple[Tensor, Tensor, Tensor]) -> float:
    """The bound of the result's error, in ULP of the largest value.

    A score adds up head_dim products and its error is that of the exponent, so of each probability;
    two exponentials, sums over a step, over 64 steps' splits and over the splits follow.
    """
    queries, keys, _ = case
    heads, dim = queries.shape[1:]
    copies = heads // keys.shape[1]
    keys = keys.float().repeat_interleave(copies, 1)
    added = SCALE * torch.einsum("qhd,khd->hqk", queries.float().abs(), keys.abs()).max()
    return float(added) * dim.bit_length() + 64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("length", "heads"),
    [
        *((length, (6, 2, 64)) for length in (1, 2, 63, 64, 65, 513)),
        *((70, each) for each in ((8, 2, 256), (6, 1, 128), (32, 1, 64), (3, 1, 40), (2, 2, 8))),
    ],
)
def test_all_lengths_and_heads(
    length: int, heads: tuple[int, int, int], dtype: torch.dtype, device: torch.device
) -> None:
    case = make_case(length, *heads, dtype)
    expected = plain(case)
    with guarded_memory():
        found = attend(case, device)
    assert found.dtype == dtype
    assert_near(found, expected, ulps(case), case[2].float().abs().max())


@pytest.mark.parametrize(("length", "window"), [(1, 1), (300, 1), (300, 17), (300, 299), (40, 64)])
def test_a_window_hides_what_is_older(length: int, window: int, device: torch.device) -> None:
    case = make_case(length, 4, 2, 16, torch.float32)
    expected = plain(case, window)
    with guarded_memory():
        found = attend(case, device, window)
    assert_near(found, expected, ulps(case), case[2].abs().max())


@pytest.mark.parametrize("sinks", [(-1e30, 0.5), (3.0, 80.0)])
def test_sinks_take_their_share(sinks: tuple[float, float], device: torch.device) -> None:
    case, given = make_case(300, 4, 2, 16, torch.float32), torch.tensor(sinks * 2)
    expected = plain(case, 17, given)
    assert_near(attend(case, device, 17, given), expected, ulps(case), case[2].abs().max())


def test_far_apart_scores_neither_overflow_nor_vanish(device: torch.device) -> None:
    queries, keys, values = make_case(513, 2, 1, 16, torch.float32)
    keys[100] *= 300  # one split holds nearly all the probability
    case = (queries, keys, values)
    expected = plain(case)
    assert_near(attend(case, device), expected, ulps(case), values.abs().max())


def test_the_capacity_of_the_slab_changes_no_bit(device: torch.device) -> None:
    queries, keys, values = (each.to(device) for each in make_case(77, 4, 2, 16, torch.float32))
    length = torch.tensor([50], device=device)
    whole = gpu.decode_attention(queries, keys, values, length, SCALE)
    cut = gpu.decode_attention(queries, keys[:50], values[:50], length, SCALE)
    assert torch.equal(whole, cut)
