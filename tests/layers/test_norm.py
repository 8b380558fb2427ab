"""Which weight multiplies in which norm."""

from __future__ import annotations

import torch

from core.layers.norm import GatedRMSNorm, LayerNorm, RMSNorm, ZeroCentredRMSNorm
from core.weights.plan import Weights
from tests.layers.sources import Drawn


def constant(value: float, dtype: torch.dtype = torch.float32) -> Weights:
    return Weights(Drawn(lambda _, spec: torch.full(spec.shape, value, dtype=spec.dtype)), dtype)


def test_zero_weight_means_scale_one() -> None:
    rows = torch.randn(3, 8)
    scaled = ZeroCentredRMSNorm(constant(0.0), 8, 1e-6)(rows)
    torch.testing.assert_close(scaled.square().mean(-1), torch.ones(3), rtol=1e-4, atol=1e-4)


def test_the_plain_norm_multiplies_by_its_weight() -> None:
    rows = torch.randn(3, 8)
    scaled = RMSNorm(constant(3.0), 8, 1e-6)(rows)
    torch.testing.assert_close(scaled.square().mean(-1), torch.full((3,), 9.0), rtol=1e-4, atol=0)


def test_the_gated_norm_multiplies_by_its_plain_weight() -> None:
    rows, gate = torch.randn(3, 8), torch.randn(3, 8)
    assert GatedRMSNorm(constant(0.0), 8, 1e-6)(rows, gate).eq(0).all()


def test_norm_weights_stay_in_float32() -> None:
    weights = constant(0.1, torch.bfloat16)
    assert ZeroCentredRMSNorm(weights.scope("a"), 8, 1e-6).scale.dtype == torch.float32
    assert GatedRMSNorm(weights.scope("b"), 8, 1e-6).scale.dtype == torch.float32
    rows = torch.randn(2, 8).bfloat16()
    assert ZeroCentredRMSNorm(weights.scope("c"), 8, 1e-6)(rows).dtype == torch.bfloat16


def test_layer_norm_takes_the_mean_away() -> None:
    rows = torch.randn(3, 8) + 50
    found = LayerNorm(constant(1.0), 8, 1e-6)(rows)
    torch.testing.assert_close(found.mean(-1), torch.ones(3), rtol=0, atol=1e-3)


def test_a_norm_may_be_multiplied_and_so_may_what_it_adds() -> None:
    rows, residual = torch.randn(3, 8), torch.randn(3, 8)
    norm = RMSNorm(constant(3.0), 8, 1e-6)
    torch.testing.assert_close(norm.times(0.5)(rows), 0.5 * norm(rows))
    torch.testing.assert_close(norm(rows), RMSNorm(constant(3.0), 8, 1e-6)(rows), rtol=0, atol=0)
    normed, total = norm.of_sum(rows, residual, 0.25)
    torch.testing.assert_close(total, residual + 0.25 * rows)
    torch.testing.assert_close(normed, norm(total))
