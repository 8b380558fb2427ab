"""The thread pool: the same bits however many there are, and however late one of them is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.common.shapes import DeltaInputs
from kernels.linear.native import NativeBfloatFormat, NativeInt4Format, NativeInt8Format
from kernels.linear.reference import WeightFormat
from kernels.native.library import Library
from kernels.native_ops import native_ops
from tests.kernels.native.here import NEEDS_COMPILER, library

pytestmark = NEEDS_COMPILER
COUNTS = (1, 2, 3, 8, 40)  # far more than cores: most are preempted in the middle of something


@pytest.fixture
def contended() -> Iterator[None]:
    """Other processes want the cores as well."""
    spin = "while True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(4)]
    yield
    for each in others:
        each.kill()
        each.wait()


def formats(found: Library) -> list[WeightFormat]:
    return [NativeBfloatFormat(found), NativeInt8Format(found), NativeInt4Format(found)]


@pytest.mark.slow
@pytest.mark.usefixtures("contended")
def test_a_product_has_the_same_bits_with_any_threads() -> None:
    """Each part that came too late was done again, and was thrown away when it came."""
    draw = torch.Generator().manual_seed(1)
    weight = torch.randn(4096, 512, generator=draw).bfloat16()
    inputs = [torch.randn(1, 512, generator=draw).bfloat16() for _ in range(8)]
    for weight_format in formats(library()):
        matrix = weight_format.prepack(weight_format.quantise(weight), None)
        torch.set_num_threads(1)
        expected = [matrix.step(each) for each in inputs]
        for _ in range(30):
            for count in COUNTS:
                torch.set_num_threads(count)
                # One after the other: a late part of one falls into the next.
                found = [matrix.step(each) for each in inputs]
                assert all(map(torch.equal, found, expected)), count
    torch.set_num_threads(1)


def test_more_parts_than_are_shared_out_are_done() -> None:
    """A part for each head here; so many heads come from a broken or hostile config."""
    heads = 4200
    ops: Any = native_ops(library())
    draw = torch.Generator().manual_seed(3)
    keys, state = torch.randn(1, heads, 8, generator=draw), torch.zeros(2, heads, 8, 1)
    values, gates = torch.randn(1, heads, 1, generator=draw), torch.ones(1, heads)
    inputs, found = (keys, keys, values, -gates, gates), []
    for count, own in zip((1, 2), state, strict=True):
        torch.set_num_threads(count)
        found.append(ops.recurrent_gated_delta_step(DeltaInputs(*inputs), own))
    torch.set_num_threads(1)
    assert torch.equal(*found) and torch.equal(*state) and found[0].any()


def test_threads_that_sit_a_job_out_change_nothing() -> None:
    """Sixteen were started; the jobs after that are for two, whichever of them sleep."""
    draw = torch.Generator().manual_seed(4)
    weight_format = NativeBfloatFormat(library())
    matrix = weight_format.prepack(
        weight_format.quantise(torch.randn(2048, 512, generator=draw).bfloat16()), None
    )
    row = torch.randn(1, 512, generator=draw).bfloat16()
    torch.set_num_threads(1)
    expected = matrix.step(row)
    for count in (16, *[2] * 200):
        torch.set_num_threads(count)
        assert torch.equal(matrix.step(row), expected)
    torch.set_num_threads(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks there")
def test_a_forked_process_has_a_team_of_its_own() -> None:
    """Its parent's threads are not there, whatever they were doing when it was forked."""
    script = """
import os, torch
from kernels.linear.native import NativeBfloatFormat
from tests.kernels.native.here import library
torch.set_num_threads(4)
weight_format = NativeBfloatFormat(library())
matrix = weight_format.prepack((torch.ones(4096, 512).bfloat16(),), None)
for _ in range(30):
    matrix.step(torch.ones(1, 512).bfloat16())
    child = os.fork()
    if child == 0:
        found = matrix.step(torch.ones(1, 512).bfloat16())
        del matrix
        os._exit(0 if bool((found == 512).all()) else 1)
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.usefixtures("contended")
def test_matrices_may_go_while_a_thread_is_late() -> None:
    """The memory of a weight is given back to the system, so reading it would end the process."""
    weight_format = NativeInt8Format(library())
    torch.set_num_threads(8)
    for size in range(60):
        weight = torch.full((8192, 1024), size + 1, dtype=torch.int8)
        matrix = weight_format.prepack((weight, torch.ones(8192, 1)), None)
        del weight
        found = matrix.step(torch.ones(1, 1024))
        del matrix
        assert torch.allclose(found, torch.full((1, 8192), 1024.0 * (size + 1)))
    torch.set_num_threads(1)


def stepping(heads: int) -> Callable[[int], list[Tensor]]:
    """A delta rule step, attention, norms and products over rows with so many threads."""
    ops: Any = native_ops(library())

    def run(count: int) -> list[Tensor]:
        draw = torch.Generator().manual_seed(2)
        torch.set_num_threads(count)
        state = torch.randn(heads, 24, 150, generator=draw)
        rows = torch.randn(200, heads, 24, generator=draw)
        values = torch.randn(1, heads, 150, generator=draw)
        gates = torch.rand(1, heads, generator=draw)
        found = ops.recurrent_gated_delta_step(
            DeltaInputs(rows[:1], rows[1:2], values, -gates, gates), state
        )
        attended = ops.causal_attention(rows[:1], rows, rows, 0.2)
        many = rows.bfloat16()
        wide = rows.flatten(1)
        angles = torch.randn(200, 8, generator=draw)
        return [
            found,
            state,
            attended,
            ops.causal_attention(many, many, many, 0.2),
            ops.rms_norm(rows, torch.ones(24), 1e-6),
            ops.gated_rms_norm(rows, torch.ones(24), rows, 1e-6, torch.float32),
            ops.rotate(rows, angles.cos(), angles.sin()),
            ops.convolve(wide, torch.randn(4, wide.shape[1], generator=draw)),
            ops.swiglu(wide, wide),
            ops.geglu(wide, wide),
            ops.open_gate(rows, rows),
            ops.add(wide, wide),
        ]

    return run


@pytest.mark.usefixtures("contended")
@pytest.mark.parametrize("heads", [1, 3, pytest.param(16, marks=pytest.mark.slow)])
def test_operations_have_the_same_bits_with_any_threads(heads: int) -> None:
    run = stepping(heads)
    expected = run(1)
    for _ in range(20):
        for count in COUNTS[1:]:
            assert all(map(torch.equal, run(count), expected)), count
    torch.set_num_threads(1)
