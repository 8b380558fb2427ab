"""Feed-forward layers over long runs."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from core.layers import rows as row_blocks
from core.layers.mlp import GeGLU, GeluMLP, SwiGLU
from tests.layers.sources import random_weights


def test_swiglu_is_its_equation() -> None:
    layer, hidden = SwiGLU(random_weights(), 6, 10), torch.randn(5, 6)
    inner = F.silu(hidden @ layer.gate.weight.T) * (hidden @ layer.up.weight.T)
    torch.testing.assert_close(layer(hidden), inner @ layer.down.weight.T)


def test_geglu_is_its_equation() -> None:
    layer, hidden = GeGLU(random_weights(), 6, 10, bias=True), torch.randn(5, 6)
    gate = F.linear(hidden, layer.gate.weight, layer.gate.bias)
    inner = F.gelu(gate, approximate="tanh") * F.linear(hidden, layer.up.weight, layer.up.bias)
    expected = F.linear(inner, layer.down.weight, layer.down.bias)
    torch.testing.assert_close(layer(hidden), expected)


@pytest.mark.parametrize("form", ["tanh", "none"])
def test_gelu_mlp_is_its_equation(form: str) -> None:
    layer, hidden = GeluMLP(random_weights(), 6, 10, 4, form), 9 * torch.randn(500, 6)
    assert layer.first.bias is not None
    inner = F.gelu(hidden @ layer.first.weight.T + layer.first.bias, approximate=form)
    assert layer.second.bias is not None
    expected = inner @ layer.second.weight.T + layer.second.bias
    torch.testing.assert_close(layer(hidden), expected, rtol=1e-5, atol=1e-5)


def test_rows_in_blocks_are_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, hidden = SwiGLU(random_weights(), 6, 10), torch.randn(9, 6)
    expected = layer(hidden)
    monkeypatch.setattr(row_blocks, "ROWS_PER_BLOCK", 4)
    seen: list[int] = []

    def counted(block: torch.Tensor) -> torch.Tensor:
        seen.append(block.shape[0])
        return layer._block(block)

    torch.testing.assert_close(row_blocks.in_row_blocks(counted, hidden), expected)
    assert seen == [4, 4, 1]
