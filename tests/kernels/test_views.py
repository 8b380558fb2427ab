"""Views that a GPU kernel would misread never reach it."""

from __future__ import annotations

import pytest
import torch

from kernels.common.memory import dense_rows
from kernels.common.shapes import DeltaInputs
from tests.kernels.poison import poisoned_memory


def test_gaps_between_rows_are_no_gaps_within_them() -> None:
    rows = torch.zeros(4, 6, 8)
    assert dense_rows(rows, rows[::2, 1:, 3:5], rows[..., :1], rows.transpose(0, 1), rows[0, 0])
    assert not dense_rows(rows, rows.transpose(1, 2))
    assert not dense_rows(rows[..., ::2])


@pytest.mark.gpu
def test_views_with_gaps_within_rows_are_refused(device: torch.device) -> None:
    import kernels.attention.gpu as attention
    import kernels.gated_delta.gpu as gated_delta
    import kernels.linear.gpu as linear
    import kernels.rope.gpu as rope

    def gapped(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, 2, device=device)[..., 0]

    heads, gates = torch.zeros(1, 2, 16, device=device), torch.zeros(1, 2, device=device)
    state, one = torch.zeros(2, 16, 16, device=device), torch.ones(1, device=device).int()
    for rule in (gated_delta.recurrent_gated_delta_step, gated_delta.chunked_gated_delta_):
        with pytest.raises(AssertionError):
            rule(DeltaInputs(heads, gapped(1, 2, 16), heads, gates, gates), state)
        with pytest.raises(AssertionError):
            rule(DeltaInputs(heads, heads, heads, gates, gates), state.transpose(1, 2))
    with pytest.raises(AssertionError):
        attention.decode_attention(heads, gapped(1, 2, 16), heads, one, 1.0)
    with pytest.raises(AssertionError):
        rope.rotate(gapped(1, 2, 16), gates, gates)
    values = torch.zeros(32, 32, dtype=torch.int8, device=device)
    weight = linear.pack_int8(values, torch.ones(32, device=device))
    with pytest.raises(AssertionError):
        linear.few_rows(gapped(1, 32), weight)
    turned = linear.GroupWeight("int8", (32, 32), (values.T, weight.tensors[1]))
    with pytest.raises(AssertionError):
        linear.few_rows(torch.zeros(1, 32, device=device), turned)


def test_empty_memory_is_poisoned_for_tests() -> None:
    with poisoned_memory():
        assert torch.empty(3).isnan().all()
        assert torch.empty_like(torch.ones(2)).isnan().all()
        assert torch.ones(2).new_empty(4).isnan().all()
