"""Fused attention against the plain one: groups, blocks, growing keys, poisoned memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.attention import fused, reference
from tests.kernels.poison import poisoned_memory


def make_case(
    count: int, before: int, heads: int, kv_heads: int, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of the last `count` tokens, keys and values of all `before + count`."""
    generator = torch.Generator().manual_seed(count + before)
    total = before + count
    shapes = ((count, heads, dim), (total, kv_heads, dim), (total, kv_heads, dim))
    queries, keys, values = (torch.randn(shape, generator=generator) for shape in shapes)
    return queries, keys, values


KINDS = ("causal_attention", "run_attention")
COUNTS = [(1, 0), (1, 1), (1, 700), (2, 5), (9, 3), (129, 64), (300, 31), (513, 0)]
HEADS = [(1, 1, 8), (4, 2, 16), (6, 2, 9), (8, 1, 4)]


@pytest.mark.parametrize(("count", "before"), COUNTS)
@pytest.mark.parametrize(
    ("kind", "window", "heads"),
    [
        *(("causal_attention", None, heads) for heads in HEADS),
        *((kind, window, HEADS[1]) for kind in KINDS for window in (1, 2, 17, 512)),
        ("run_attention", None, HEADS[1]),
    ],
)
def test_it_is_the_plain_one(
    kind: str, window: int | None, heads: tuple[int, int, int], count: int, before: int
) -> None:
    case = make_case(count, before, *heads)
    expected = getattr(reference, kind)(*case, 0.3, window)
    with poisoned_memory():
        found = getattr(fused, kind)(*case, 0.3, window)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("count", "before"), COUNTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [None, 17])
def test_sinks_are_the_plain_ones(kind: str, window: int | None, count: int, before: int) -> None:
    case, sinks = make_case(count, before, 4, 2, 16), torch.tensor([-1e30, 0.5, 3.0, 80.0])
    expected = getattr(reference, kind)(*case, 0.3, window, sinks)
    found = getattr(fused, kind)(*case, 0.3, window, sinks)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_window_that_hides_nothing_changes_no_bit() -> None:
    case = make_case(300, 31, 4, 2, 16)
    plain = fused.causal_attention(*case, 0.3)
    assert torch.equal(fused.causal_attention(*case, 0.3, 331), plain)


def test_rows_after_the_last_key_are_never_read() -> None:
    """Keys are views into a slab whose unwritten rows may hold anything."""
    queries, keys, values = make_case(5, 6, 4, 2, 8)
    slab_keys, slab_values = (torch.full((64, 2, 8), float("nan")) for _ in range(2))
    slab_keys[:11], slab_values[:11] = keys, values
    found = fused.causal_attention(queries, slab_keys[:11], slab_values[:11], 0.3)
    assert torch.equal(found, fused.causal_attention(queries, keys, values, 0.3))


def test_no_mask_grows_with_the_number_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture has up to 16,384 tokens; a mask over all of them at once would take gigabytes."""
    rows: list[int] = []
    attend = F.scaled_dot_product_attention

    def counted(
        queries: Tensor, keys: Tensor, values: Tensor, attn_mask: Tensor, scale: float
    ) -> Tensor:
        rows.append(attn_mask.shape[0])
        return attend(queries, keys, values, attn_mask=attn_mask, scale=scale)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    queries, keys, values = make_case(2000, 10, 4, 1, 4)
    fused.causal_attention(queries, keys, values, 0.3)
    assert sum(rows) == 4 * 2000
    assert max(rows) <= 512


@pytest.mark.parametrize(("count", "heads", "dim"), [(1, 1, 4), (4, 3, 9), (130, 2, 16)])
def test_full_attention_is_the_plain_one(count: int, heads: int, dim: int) -> None:
    queries, keys, values = make_case(count, 0, heads, heads, dim)
    expected = reference.full_attention(queries, keys, values, 0.3)
    with poisoned_memory():
        found = fused.full_attention(queries, keys, values, 0.3)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_bfloat16_stays_near_float32() -> None:
    queries, keys, values = (each.bfloat16() for each in make_case(100, 30, 4, 2, 32))
    found = fused.causal_attention(queries, keys, values, 0.2)
    wide = queries.float(), keys.float(), values.float()
    expected = reference.causal_attention(*wide, 0.2)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=2e-2, atol=2e-2)
