"""Sparse experts as a layer: its equation, and what of it is never quantised."""

from __future__ import annotations

import pytest
import torch

from core.layers import runs
from core.layers.feed_forward import SparseExperts
from core.weights.plan import Weights, plan_weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, Routing
from kernels.dispatch import backend
from kernels.linear.native import NativeBfloatMatrix
from kernels.linear.reference import Integers
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.layers.sources import Drawn, Quantising, drawn

SHARED = ExpertShape(6, inner=5, count=7, routing=Routing(2, normalise=False), shared=True)


def test_rows_in_blocks_are_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, hidden = Weights(Drawn(drawn), torch.float32), torch.randn(9, 6)
    layer = SparseExperts(weights, 6, SHARED, shared=4)
    expected = layer(hidden)
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", 4)
    torch.testing.assert_close(layer(hidden), expected)


@pytest.mark.parametrize("fused", [True, False])
def test_what_decides_is_exact_and_reads_what_the_experts_read(fused: bool) -> None:
    norm = InputNorm("norm", 1.0)

    def build(weights: Weights) -> None:
        weights.stored = lambda name: () if fused else None
        SparseExperts(weights, 6, SHARED, input_norm=norm, shared=4)

    plan = plan_weights(build, torch.bfloat16)
    exact = {name for name, spec in plan.items() if spec.exact}
    assert exact == {"gate.weight", "shared_expert_gate.weight"}
    after_norm = {name for name, spec in plan.items() if spec.input_norm == norm}
    assert {name for name in plan if "down_proj" not in name} == after_norm
    shapes = {name: spec.stored_shape for name, spec in plan.items() if ".experts." in f".{name}"}
    if fused:
        assert shapes == {"experts.gate_up_proj": (7, 10, 6), "experts.down_proj": (7, 6, 5)}
    else:
        assert len(shapes) == 21 and shapes["experts.6.up_proj.weight"] == (5, 6)


@NEEDS_COMPILER
@pytest.mark.parametrize("integers", ["int8", "int4"])
def test_a_token_takes_its_way_whatever_is_beside_it(integers: Integers) -> None:
    """Also where matrices that are never quantised are torch's, whose rows depend on each other."""
    kernels = backend("cpu", torch.bfloat16, integers=integers, library=library(), product="torch")

    weights = Weights(
        Quantising(drawn, kernels.formats), torch.bfloat16, kernels.formats, kernels.ops
    )
    shape = ExpertShape(64, inner=32, count=12, routing=Routing(3), shared=True)
    layer = SparseExperts(weights, 64, shape, shared=32)
    assert isinstance(layer.router.matrix, NativeBfloatMatrix) and layer.router.matrix.compiled
    hidden = torch.randn(80, 64).bfloat16()
    together = layer(hidden)
    for count in (1, 3, 40):
        assert torch.equal(layer(hidden[:count]), together[:count])
