"""Which weight multiplies in which norm."""

from __future__ import annotations

import torch

from core.layers.norm import GatedRMSNorm, ZeroCentredRMSNorm
from core.weights.plan import Weights
from tests.layers.sources import Drawn


def constant(value: float, dtype: torch.dtype = torch.float32) -> Weights:
    return Weights(Drawn(lambda _, spec: torch.full(spec.shape, value, dtype=spec.dtype)), dtype)


def test_norm_weights_stay_in_float32() -> None:
    weights = constant(0.1, torch.bfloat16)
    assert ZeroCentredRMSNorm(weights.scope("a"), 8, 1e-6).scale.dtype == torch.float32
    assert GatedRMSNorm(weights.scope("b"), 8, 1e-6).scale.dtype == torch.float32
    rows = torch.randn(2, 8).bfloat16()
    assert ZeroCentredRMSNorm(weights.scope("c"), 8, 1e-6)(rows).dtype == torch.bfloat16
