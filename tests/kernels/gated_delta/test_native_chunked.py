"""The delta rule of a run on the compiled kernel, beside the rule token by token in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.common.shapes import DeltaInputs
from kernels.gated_delta.reference import recurrent_gated_delta_step
from kernels.native_ops import native_ops
from kernels.ops import PLAIN_OPS
from tests.kernels.gated_delta.test_reference import BY_CHANNEL
from tests.kernels.native.here import COMPILES, NEEDS_COMPILER, library
from tests.kernels.native.tiles import ended_with
from tests.kernels.poison import poisoned_memory

pytestmark = NEEDS_COMPILER
# Key heads, key dimension, value heads, value dimension.
HEADS = [(1, 1, 1, 16), (2, 33, 4, 48), (1, 256, 3, 256), (4, 128, 4, 128)]
TOKENS = (1, 63, 64, 65, 200)


def drawn(
    tokens: int, heads: tuple[int, int, int, int], by_channel: bool = False
) -> tuple[list[Tensor], Tensor]:
    """Inputs of the rule, as views of a wider tensor, and a state before them."""
    key_heads, key_dim, value_heads, value_dim = heads
    draw = torch.Generator().manual_seed(tokens)
    widths = [key_heads * key_dim, key_heads * key_dim, value_heads * value_dim, 5]
    columns = torch.randn(tokens, sum(widths), generator=draw)
    columns[:, -5:] = float("nan")
    queries, keys, values, _ = columns.split(widths, dim=1)
    by_key, by_value = (tokens, key_heads, key_dim), (tokens, value_heads, value_dim)
    decays = (tokens, value_heads, key_dim)[: 3 if by_channel else 2]
    decay = -4 * torch.rand(decays, generator=draw) ** 3
    beta = torch.rand(tokens, value_heads, generator=draw)
    state = torch.randn(value_heads, key_dim, value_dim, generator=draw)
    return [queries.view(by_key), keys.view(by_key), values.view(by_value), decay, beta], state


def run(inputs: list[Tensor], state: Tensor, ops: Any = None) -> tuple[Tensor, Tensor]:
    state = state.clone()
    with poisoned_memory():
        rule = (ops or native_ops(library())).chunked_gated_delta_
        return rule(DeltaInputs(*inputs), state), state


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("tokens", TOKENS)
@BY_CHANNEL
def test_it_is_the_rule_token_by_token(
    tokens: int, heads: tuple[int, int, int, int], by_channel: bool
) -> None:
    inputs, state = drawn(tokens, heads, by_channel)
    found, after = run(inputs, state)
    expected_state, answers = state.clone(), []
    for token in range(tokens):
        one = [each[token : token + 1] for each in inputs]
        answers.append(recurrent_gated_delta_step(DeltaInputs(*one), expected_state))
    expected = torch.cat(answers)
    for mine, other in ((found, expected), (after, expected_state)):
        assert (mine - other).abs().max() <= 2e-5 * other.abs().max()


@BY_CHANNEL
def test_bits_depend_on_no_number_of_threads(by_channel: bool) -> None:
    inputs, state = drawn(200, (4, 40, 8, 48), by_channel)
    expected = run(inputs, state)
    for threads in (2, 3, 4):
        torch.set_num_threads(threads)
        found = run(inputs, state)
        torch.set_num_threads(1)
        assert all(map(torch.equal, found, expected))


@BY_CHANNEL
def test_chunks_of_a_run_are_those_of_its_beginning(by_channel: bool) -> None:
    """Parts of 64 tokens, as a layer hands them over, are the whole run to the bit."""
    inputs, state = drawn(200, (2, 40, 4, 48), by_channel)
    whole, after = run(inputs, state)
    parts = []
    for start in range(0, 200, 64):
        part, state = run([each[start : start + 64].contiguous() for each in inputs], state)
        parts.append(part)
    assert torch.equal(torch.cat(parts), whole) and torch.equal(state, after)


@pytest.mark.parametrize("heads", [(1, 257, 1, 16), (1, 8, 1, 17), (1, 8, 1, 272), (2, 8, 2, 8)])
def test_what_there_is_no_room_for_is_torchs(heads: tuple[int, int, int, int]) -> None:
    inputs, state = drawn(70, heads)
    for mine, other in zip(run(inputs, state), run(inputs, state, PLAIN_OPS), strict=True):
        assert torch.equal(mine, other)


@COMPILES
@pytest.mark.slow
def test_without_memory_it_says_so(tmp_path: Path) -> None:
    source = """
        void *aligned_alloc(size_t alignment, size_t size) {
            return 0;
        }

        int main(void) {
            static float rows[40 * 64], to[40 * 64], state[64 * 64];
            struct delta_run all = {.queries = rows, .keys = rows, .values = rows, .decay = rows,
                .beta = rows, .state = state, .to = to, .tokens = 40, .key_heads = 1,
                .value_heads = 1, .key_dim = 16, .value_dim = 16, .query_stride = 16,
                .key_stride = 16, .value_stride = 16, .threads = 1};
            return waymark_delta_run(&all);
        }
    """
    assert ended_with(source, tmp_path) == 0
