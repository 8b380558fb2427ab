"""Attention of many tokens on the compiled kernel, with AMX or without it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.attention import reference
from kernels.common.trace import NotCapturableError
from kernels.native_ops import native_ops
from kernels.ops import PLAIN_OPS
from tests.kernels.native.here import COMPILES, NEEDS_COMPILER, library
from tests.kernels.native.tiles import assert_unit_set_as_before, ended_with
from tests.kernels.poison import poisoned_memory

pytestmark = NEEDS_COMPILER
PLAIN: Any = PLAIN_OPS  # a type checker would take functions that a class holds for its methods
CHUNK = 256  # keys that are gone through at once
PARTS = (1, 2, 3)  # threads


@pytest.fixture(autouse=True, params=[False, True], ids=["pairs", "floats"])
def widened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the processor's bfloat16 instructions, if it has any, and without."""
    monkeypatch.setitem(CHOSEN, "widened", request.param)


CHOSEN = {"widened": False}


def ops() -> Any:
    return native_ops(library(), **CHOSEN)


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def among_others(rows: Tensor) -> Tensor:
    """The same rows in a tensor whose other numbers must not be used, also not those behind."""
    tokens, heads, dim = rows.shape
    wider = torch.full((tokens + 40, 3, heads, dim), float("nan"), dtype=rows.dtype)
    wider[:tokens, 1] = rows
    return wider[:tokens, 1]


def assert_close(found: Tensor, expected: Tensor, values: Tensor) -> None:
    """Weights and result have eight places each."""
    largest = float(values.float().abs().max())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected.float(), rtol=0, atol=2**-7 * largest)


@settings(max_examples=60, deadline=None)
@given(
    before=st.integers(0, 2 * CHUNK + 5),
    tokens=st.integers(2, 150),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 7),
    dim=st.sampled_from([1, 2, 15, 16, 33, 64, 72, 100]),
    window=st.one_of(st.none(), st.integers(1, 2 * CHUNK)),
    causal=st.booleans(),
    sinks=st.one_of(st.none(), st.sampled_from([-1e30, -3.0, 0.5, 80.0])),
    threads=st.sampled_from(PARTS),
)
def test_it_is_right(
    before: int,
    tokens: int,
    kv_heads: int,
    group: int,
    dim: int,
    window: int | None,
    causal: bool,
    sinks: float | None,
    threads: int,
) -> None:
    queries = drawn(1, tokens, kv_heads * group, dim)
    sink = None if sinks is None else sinks + drawn(4, kv_heads * group).float()
    keys, values = (drawn(seed, before + tokens, kv_heads, dim) for seed in (2, 3))
    name = "causal_attention" if causal else "run_attention"
    torch.set_num_threads(threads)
    with poisoned_memory():
        found = getattr(ops(), name)(*map(among_others, (queries, keys, values)), 0.3, window, sink)
    torch.set_num_threads(1)
    expected = getattr(reference, name)(queries.float(), keys, values, 0.3, window, sink)
    assert_close(found, expected, values)


@pytest.mark.parametrize(("tokens", "heads", "dim"), [(2, 1, 512), (700, 3, 72), (1030, 2, 64)])
def test_patches_see_each_other(tokens: int, heads: int, dim: int) -> None:
    """Queries, keys and values of one matrix, as in a tower."""
    queries, keys, values = drawn(1, tokens, 3, heads, dim).unbind(1)
    found = ops().full_attention(queries, keys, values, dim**-0.5)
    expected = reference.full_attention(queries.float(), keys, values, dim**-0.5)
    assert_close(found, expected, values)


def test_bits_depend_on_no_number_of_threads_and_no_other_row() -> None:
    queries, keys, values = drawn(1, 300, 6, 64), drawn(2, 900, 2, 64), drawn(3, 900, 2, 64)
    found = []
    for threads in (*PARTS, 8):
        torch.set_num_threads(threads)
        found.append(ops().causal_attention(queries, keys, values, 0.1))
        others = queries.clone()
        others[::2] = 7
        found.append(ops().causal_attention(others, keys, values, 0.1))
        found[-1][::2] = found[0][::2]
    torch.set_num_threads(1)
    assert all(torch.equal(each, found[0]) for each in found)


def test_large_scores_and_their_opposites_overflow_nowhere() -> None:
    """The weights of all but one key are nothing; it comes first, or last."""
    for best in (0, 299):
        keys, values = torch.full((300, 1, 16), -3e18), drawn(3, 300, 1, 16)
        keys[best] = 3e18
        queries = torch.full((300, 1, 16), 3e18).bfloat16()
        found = ops().full_attention(queries, keys.bfloat16(), values, 1.0)
        assert torch.equal(found, values[best].expand(300, 1, 16))


@pytest.mark.parametrize("place", [0, 100, CHUNK + 3])
def test_what_is_not_a_number_stays_so(place: int) -> None:
    """For those that see the key: a broken weight must show."""
    queries, keys, values = (torch.ones(400, 2, 16).bfloat16() for _ in range(3))
    keys[place, 1, 3] = float("nan")
    found = ops().full_attention(queries, keys, values, 1.0)
    assert bool(found[:, 1].isnan().all()) and bool((found[:, 0] == 1).all())


@pytest.mark.parametrize("sink", [float("nan"), float("inf")])
def test_a_sink_that_is_not_a_number_shows(sink: float) -> None:
    queries, keys, values = (torch.ones(300, 2, 16).bfloat16() for _ in range(3))
    found = ops().causal_attention(queries, keys, values, 1.0, 17, torch.tensor([sink, -1e30]))
    assert bool(found[:, 0].isnan().all()) and bool((found[:, 1] == 1).all())


def test_no_keys_and_no_queries_have_no_result() -> None:
    none = torch.empty(0, 2, 16).bfloat16()
    assert ops().full_attention(none, none, none, 1.0).shape == (0, 2, 16)
    some = drawn(1, 3, 2, 16)
    assert ops().full_attention(none, some, some, 1.0).shape == (0, 2, 16)


def test_what_it_has_no_room_for_goes_through_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other types, heads of more numbers, numbers that lie apart, a scale that turns the order."""
    monkeypatch.setattr(library(), "attend_many", None)
    for rows, scale in (
        (drawn(1, 5, 2, 8).float(), 0.5),
        (drawn(1, 3, 1, 577), 0.5),
        (drawn(1, 5, 8, 2).transpose(1, 2), 0.5),
        (drawn(1, 5, 2, 8), -0.3),
    ):
        found = ops().full_attention(rows, rows, rows, scale)
        assert torch.equal(found, PLAIN.full_attention(rows, rows, rows, scale))


def test_other_shapes_are_for_torch_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel would read what lies behind the values."""
    for name in ("attend", "attend_many"):
        monkeypatch.setattr(library(), name, None)
    queries, keys = drawn(1, 6, 4, 32), drawn(2, 6, 2, 32)
    for count in (1, 6):
        for values in (drawn(3, 6, 2, 16), drawn(3, 6, 1, 32), drawn(3, 4, 2, 32)):
            with contextlib.suppress(RuntimeError):
                ops().causal_attention(queries[-count:], keys, values, 1.0)
        with contextlib.suppress(RuntimeError):
            ops().causal_attention(drawn(3, count, 3, 32), keys, keys, 1.0)


def test_others_find_the_matrix_unit_set_as_they_left_it(tmp_path: Path) -> None:
    assert_unit_set_as_before(ATTEND, tmp_path)


@COMPILES
@pytest.mark.slow
def test_without_memory_it_says_so(tmp_path: Path) -> None:
    """A part that can't begin leaves rows that nobody wrote."""
    source = """
        static int refuses;
        void *aligned_alloc(size_t alignment, size_t size) {
            void *some = 0;
            return refuses || posix_memalign(&some, alignment, size) ? 0 : some;
        }

        int main(void) {
            if (!compute()) return 1;
            refuses = 1;
            return compute();
        }
    """
    assert ended_with(ATTEND + source, tmp_path) == 0


ATTEND = """
    static int compute(void) {
        static unsigned short rows[40 * 64];
        struct attend_many all = {.queries = rows, .keys = rows, .values = rows, .to = rows,
            .num_queries = 40, .num_keys = 40, .kv_heads = 1, .group = 1, .dim = 64,
            .query_stride = 64, .key_stride = 64, .value_stride = 64, .scale = 1, .threads = 1};
        return waymark_attend_many(&all);
    }
"""


def test_it_is_no_part_of_a_recorded_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of keys would stay the same."""
    monkeypatch.setattr(library(), "stored", {})
    rows = drawn(1, 4, 1, 8)
    with pytest.raises(NotCapturableError, match="many tokens"):
        ops().causal_attention(rows, rows, rows, 1.0)
