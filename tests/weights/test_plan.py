"""The plan is what the model asks for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from core.api.errors import WrongShapeError
from core.weights.plan import Weights, plan_weights
from core.weights.spec import TensorSpec, planned_bytes
from kernels.linear.reference import Matrix, PlainMatrix
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


def test_a_tensor_is_checked_before_it_is_answered() -> None:
    def check(name: str, spec: TensorSpec) -> None:
        asked[name] = spec
        if name == "huge":
            raise WrongShapeError(name)

    asked: dict[str, TensorSpec] = {}
    assert plan_weights(build, torch.float32, check) == asked
    with pytest.raises(WrongShapeError, match="huge"):
        plan_weights(lambda weights: weights.tensor("huge", (2**40,) * 3), torch.float32, check)


def _drawn(name: str, spec: TensorSpec) -> Tensor:
    return torch.randn(spec.shape, generator=torch.Generator().manual_seed(len(name)))


def _weights_of(matrices: list[Matrix]) -> list[Tensor]:
    assert all(isinstance(each, PlainMatrix) for each in matrices)
    return [each.weight for each in matrices if isinstance(each, PlainMatrix)]


@pytest.mark.parametrize(
    ("up", "down", "expected"),
    [
        ((3, 8, 5), (3, 5, 4), False),
        ((3, 5, 8), (3, 4, 5), True),
        ((3, 2, 10), (3, 5, 4), False),  # neither: compared with the file later
        ((), (), False),  # in a published format
        (None, None, False),
    ],
)
def test_which_way_tensors_of_all_are_stored_shows_in_their_shapes(
    up: tuple[int, ...] | None, down: tuple[int, ...] | None, expected: bool
) -> None:
    weights = Weights(Drawn(_drawn), torch.float32)
    weights.stored = {"up": up, "down": down}.get
    assert weights.transposed({"up": (8, 5), "down": (5, 4)}) == expected


@pytest.mark.parametrize("shapes", [{"up": (8, 8), "down": (8, 4)}, {"up": (8, 4), "down": (4, 4)}])
def test_a_square_matrix_is_stored_as_the_other_of_its_layer(
    shapes: dict[str, tuple[int, int]],
) -> None:
    weights = Weights(Drawn(_drawn), torch.float32)
    weights.stored = lambda name: (3, *shapes[name][::-1])
    assert weights.transposed(shapes)
    for name, (outputs, inputs) in shapes.items():
        weights.matrices(3, [("each", outputs)], inputs, name, transposed=True)
        assert weights.asked[name].stored_shape == (3, inputs, outputs)
    weights.stored = lambda name: (3, *shapes[name])
    assert not weights.transposed(shapes)
