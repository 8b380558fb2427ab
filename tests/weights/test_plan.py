"""The plan is what the model asks for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from core.api.errors import WrongShapeError
from core.weights.plan import TensorSpec, Weights, plan_weights, planned_bytes
from tests.layers.sources import Drawn


def build(weights: Weights) -> list[Tensor]:
    inner = weights.scope("layers.0").scope("mlp")
    return [
        weights.tensor("embed.weight", (3, 4)),
        inner.tensor("weight", (5,)),
        inner.tensor("A_log", (2,), torch.float32) + 1,
    ]


def test_every_question_is_noted_with_its_full_name() -> None:
    plan = plan_weights(build, torch.bfloat16)
    assert dict(plan) == {
        "embed.weight": TensorSpec((3, 4), torch.bfloat16),
        "layers.0.mlp.weight": TensorSpec((5,), torch.bfloat16),
        "layers.0.mlp.A_log": TensorSpec((2,), torch.float32),
    }
    assert planned_bytes(plan) == 12 * 2 + 5 * 2 + 2 * 4


def test_planning_allocates_nothing() -> None:
    plan_weights(lambda weights: weights.tensor("huge", (2**40, 2**10)), torch.float32)


def test_a_model_beyond_the_limit_is_refused_at_the_tensor_that_passes_it() -> None:
    plan_weights(build, torch.float32, limit=12 + 5 + 2)
    with pytest.raises(WrongShapeError, match=r"layers\.0\.mlp\.A_log would be \[2\]"):
        plan_weights(build, torch.float32, limit=12 + 5 + 1)
    with pytest.raises(WrongShapeError, match="huge"):
        plan_weights(lambda weights: weights.tensor("huge", (2**40,) * 3), torch.float32, 10**9)


def test_parameters_are_counted_over_all_scopes() -> None:
    weights = Weights(Drawn(lambda _, spec: torch.zeros(spec.shape)), torch.float32)
    build(weights)
    assert weights.num_parameters == 12 + 5 + 2
