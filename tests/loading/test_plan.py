"""One plan serves a whole load: the model's skeleton is built once, whatever is chosen on it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from core.api.errors import UnsupportedDeviceError
from core.api.params import ModelSettings
from core.engine import loaded
from core.loading import plan as planning
from core.loading.plan import ModelPlan
from core.weights.folder import ModelFolder
from core.weights.plan import plan_weights
from kernels.dispatch import backend
from tests.bench.folders import DEMO


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """The types in which models were built without data."""
    types: list[torch.dtype] = []

    def noting(build: Any, dtype: torch.dtype, limit: float) -> Any:
        types.append(dtype)
        return plan_weights(build, dtype, limit)

    monkeypatch.setattr(planning, "plan_weights", noting)
    return types


@pytest.mark.parametrize("precision", ["auto", "int4"])
def test_a_load_builds_the_skeleton_once(built: list[torch.dtype], precision: Any) -> None:
    settings = ModelSettings(path=str(DEMO), precision=precision, measure_kernels=False)
    loaded.load(settings, lambda done, total: None, lambda: None)
    assert built == [torch.bfloat16]


def test_each_type_has_its_own(built: list[torch.dtype]) -> None:
    plan = ModelPlan(ModelFolder.open(DEMO))
    for _ in range(2):
        wide = plan.num_bytes(torch.float32)
        assert wide > plan.num_bytes(torch.bfloat16)
        int8 = backend("torch", torch.bfloat16, integers="int8")
        assert plan.num_bytes(torch.bfloat16, int8) < plan.num_bytes(torch.bfloat16)
    assert built == [torch.float32, torch.bfloat16]


def test_a_type_nobody_computes_in_is_refused_before_anything_is_built(
    built: list[torch.dtype],
) -> None:
    with pytest.raises(UnsupportedDeviceError, match="float16"):
        ModelPlan(ModelFolder.open(DEMO)).held(torch.float16)
    assert not built
