"""Feed-forward layers over long runs."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from core.layers import runs
from core.layers.feed_forward import GeluMLP, SquaredReluMLP, SwiGLU
from tests.layers.sources import bias_of, random_weights, weight_of


def test_swiglu_is_its_equation() -> None:
    layer, hidden = SwiGLU(random_weights(), 6, 10), torch.randn(5, 6)
    gate, up = weight_of(layer.gate_and_up).chunk(2)
    inner = F.silu(hidden @ gate.T) * (hidden @ up.T)
    torch.testing.assert_close(layer(hidden), inner @ weight_of(layer.down).T)


@pytest.mark.parametrize("names", [("a", "b", "c"), ("both", "c")])
def test_a_gate_may_be_multiplied_and_lie_in_one_matrix(names: tuple[str, ...]) -> None:
    layer = SwiGLU(random_weights(), 6, 10, gate_multiplier=0.3, names=names)
    hidden = torch.randn(5, 6)
    gate, up = weight_of(layer.gate_and_up).chunk(2)
    inner = F.silu(0.3 * (hidden @ gate.T)) * (hidden @ up.T)
    torch.testing.assert_close(layer(hidden), inner @ weight_of(layer.down).T)


def test_squared_relu_is_its_equation() -> None:
    layer, hidden = SquaredReluMLP(random_weights(), 6, 10, bias=True), torch.randn(5, 6)
    inner = F.relu(F.linear(hidden, weight_of(layer.up), bias_of(layer.up))) ** 2
    expected = F.linear(inner, weight_of(layer.down), bias_of(layer.down))
    torch.testing.assert_close(layer(hidden), expected)
    assert torch.equal(layer(hidden, True), layer(hidden))


def test_geglu_is_its_equation() -> None:
    layer, hidden = SwiGLU(random_weights(), 6, 10, gelu=True, bias=True), torch.randn(5, 6)
    gate, up = weight_of(layer.gate_and_up).chunk(2)
    gate_bias, up_bias = bias_of(layer.gate_and_up).chunk(2)
    inner = F.gelu(F.linear(hidden, gate, gate_bias), approximate="tanh")
    inner = inner * F.linear(hidden, up, up_bias)
    expected = F.linear(inner, weight_of(layer.down), bias_of(layer.down))
    torch.testing.assert_close(layer(hidden), expected)


@pytest.mark.parametrize("form", ["tanh", "none"])
def test_gelu_mlp_is_its_equation(form: str) -> None:
    layer, hidden = GeluMLP(random_weights(), 6, 10, 4, form), 9 * torch.randn(500, 6)
    inner = F.linear(hidden, weight_of(layer.first), bias_of(layer.first))
    inner = F.gelu(inner, approximate=form)
    expected = F.linear(inner, weight_of(layer.second), bias_of(layer.second))
    torch.testing.assert_close(layer(hidden), expected, rtol=1e-5, atol=1e-5)


def test_rows_in_blocks_are_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, hidden = SwiGLU(random_weights(), 6, 10), torch.randn(9, 6)
    expected = layer(hidden)
    monkeypatch.setattr(runs, "ROWS_PER_BLOCK", 4)
    seen: list[int] = []

    def counted(block: torch.Tensor) -> torch.Tensor:
        seen.append(block.shape[0])
        return layer._block(block)

    torch.testing.assert_close(runs.in_row_blocks(counted, hidden), expected)
    assert seen == [4, 4, 1]
