"""One plan serves a whole load: the model's skeleton is built once, whatever is chosen on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode

from core.api.errors import BrokenWeightsError, UnsupportedDeviceError, WrongShapeError
from core.api.params import ModelSettings
from core.engine import loaded
from core.loading import plan as planning
from core.loading.plan import ModelPlan
from core.weights.plan import plan_weights
from core.weights.published.folder import ModelFolder
from core.weights.table import FileTable, HeldTable
from kernels.dispatch import backend
from tests.bench.folders import DEMO
from tests.loads import load_model
from tests.oracle.checkpoints import Tiny
from tests.oracle.runs import CPU
from tests.oracle.tiny_experts import TinyExperts, edit_config, write_experts
from tests.oracle.tiny_gemma4 import TinyGemma4, write_gemma4
from tests.oracle.tiny_text import write_falcon_h1, write_jamba

NEXT = TinyExperts("qwen3_next", Tiny(layers="LF", tied=False))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """The types in which models were built without data."""
    types: list[torch.dtype] = []

    def noting(build: Any, dtype: torch.dtype, check: Any) -> Any:
        types.append(dtype)
        return plan_weights(build, dtype, check)

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
        wide = plan.held(torch.float32).num_bytes
        assert wide > plan.held(torch.bfloat16).num_bytes
        int8 = backend("torch", torch.bfloat16, integers="int8")
        assert plan.held(torch.bfloat16, int8).num_bytes < plan.held(torch.bfloat16).num_bytes
    assert built == [torch.float32, torch.bfloat16]


def test_a_type_nobody_computes_in_is_refused_before_anything_is_built(
    built: list[torch.dtype],
) -> None:
    with pytest.raises(UnsupportedDeviceError, match="float16"):
        ModelPlan(ModelFolder.open(DEMO)).held(torch.float16)
    assert not built


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that was made; what is seen from everywhere is one number."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.num_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.num_bytes = max(self.num_bytes, made.untyped_storage().nbytes())
        return made


@pytest.mark.parametrize(
    ("write", "key", "number"),
    [
        (write_jamba, "mamba_expand", 2**8),
        (write_falcon_h1, "mamba_d_state", 2**13),
        (lambda path: write_experts(path, NEXT), "linear_num_value_heads", 2**20),
    ],
    ids=["mamba1", "mamba2", "order"],
)
def test_sizes_that_no_file_backs_cost_no_memory(
    tmp_path: Path, write: Any, key: str, number: int
) -> None:
    """Layers work out what they keep of a tensor, and the order of rows: of the file's sizes."""
    write(tmp_path)
    edit_config(tmp_path, **{key: number})
    with Largest() as largest, pytest.raises(WrongShapeError):
        ModelPlan(ModelFolder.open(tmp_path)).held(torch.float32)
    assert largest.num_bytes < 2**17


def test_planning_stops_at_what_no_file_has(tmp_path: Path) -> None:
    """A thousand layers of so many experts each would be asked for one by one."""
    write_jamba(tmp_path)
    edit_config(tmp_path, num_experts=2**12, num_hidden_layers=1024)
    with pytest.raises(WrongShapeError, match="router"):
        ModelPlan(ModelFolder.open(tmp_path)).held(torch.float32)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_per_layer_embeddings_stay_in_their_file(tmp_path: Path, precision: torch.dtype) -> None:
    """They are more than all else of a small release, and are never in memory as a whole."""
    write_gemma4(tmp_path, TinyGemma4("SF", per_layer=64, text_only=True))
    plan = ModelPlan(ModelFolder.open(tmp_path)).held(precision)
    name, spec = next(item for item in plan.tensors.items() if "per_layer" in item[0])
    assert spec.in_file and spec.num_bytes > plan.num_bytes / 2
    model = load_model(ModelFolder.open(tmp_path), CPU, precision).model
    assert model.per_layer is not None
    table, held = model.per_layer._table, model.embedding
    assert isinstance(table, FileTable) and isinstance(held, HeldTable)
    file = tmp_path / "model.safetensors"
    ids = torch.tensor([0, 7, 679, 7])
    assert torch.equal(table(ids), load_file(file)[name][ids].to(precision))
    file.write_bytes(file.read_bytes())
    with pytest.raises(BrokenWeightsError, match="changed"):
        model.embed(ids)
