"""From a model folder to a model: which family it is, whether it fits, and its weights in place.

Knows the families and the order of the checks; a folder is refused before anything is allocated,
and a load that fails or is cancelled leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from core.api.errors import UnknownArchitectureError, UnsupportedDeviceError
from core.loading.model import Load, LoadedModel
from core.loading.quantised.keeping import Keeping
from core.loading.reading.stream import check_plan, floats_on_the_way
from core.models import gemma3, llama, qwen3_5
from core.models.model import Model
from core.weights.folder import ModelFolder
from core.weights.memory import available_bytes, check_memory
from core.weights.plan import TensorSpec, WeightPlan, Weights, plan_weights, planned_bytes
from core.weights.published.packed import PackedPlan, find_packed, plain_names
from core.weights.published.scheme import read_scheme
from core.weights.safetensors_file import shown
from core.weights.smoothing import smoothed_norms
from kernels.dispatch import REFERENCE, Backend
from kernels.ops import PLAIN_OPS
from kernels.self_test import Recall, find_out, validated


@dataclass(frozen=True, slots=True)
class Family:
    """How one family reads its config, spells its weights and is built."""

    parse: Callable[[Mapping[str, Any]], Any]
    published_names: Callable[[Any, Collection[str]], Callable[[str], str]]
    build: Callable[[Any, Weights, torch.device], Model]


_QWEN3_5 = Family(qwen3_5.parse_config, qwen3_5.published_names, qwen3_5.Qwen3_5Model)
_LLAMA = Family(llama.parse_config, llama.published_names, llama.LlamaModel)
_GEMMA3 = Family(gemma3.parse_config, gemma3.published_names, gemma3.Gemma3Model)
# By `model_type` of config.json.
FAMILIES = {
    "qwen3_5": _QWEN3_5,
    "qwen3_5_text": _QWEN3_5,
    "llama": _LLAMA,
    "qwen3": _LLAMA,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
}
PRECISIONS = (torch.float32, torch.bfloat16)
# No format packs a number into less than a bit.
_NUMBERS_PER_BYTE = 8


def estimate_bytes(folder: ModelFolder, dtype: torch.dtype, kernels: Backend = REFERENCE) -> int:
    """Bytes that loading as `dtype` takes; raises what `load_model` raises before it reads.

    The parameters as they are held afterwards, whatever they take on disk, and what is needed
    beside them while the largest packed layer is read.
    """
    return _Builder(folder, dtype, kernels).num_bytes


def validated_kernels(
    folder: ModelFolder,
    device: torch.device,
    dtype: torch.dtype,
    kernels: Backend,
    recall: Recall = find_out,
    check: Callable[[], None] | None = None,
) -> Backend:
    """`kernels`, but plain torch for each operation that fails on `device` at the model's sizes.

    What `recall` knows is not tried again. Raises what `estimate_bytes` and `check` raise.
    """
    if kernels.ops is PLAIN_OPS:
        return kernels
    return validated(kernels, _Builder(folder, dtype, kernels).shapes, device, dtype, recall, check)


def load_model(
    folder: ModelFolder,
    device: torch.device,
    dtype: torch.dtype,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
    *,
    kernels: Backend = REFERENCE,
    available: Callable[[torch.device], int] = available_bytes,
    keeping: Keeping | None = None,
) -> LoadedModel:
    """Read the weights and build the model on `device`, its matrices as `kernels` read them.

    With `keeping` quantised matrices are kept for the next load, which reads them instead of the
    weights. Calls `progress(done, total)`, in bytes read and then packed, and `check`, which may
    raise RequestCancelled, at least every 4 MiB read and for each matrix packed. Raises
    UnknownArchitectureError, UnsupportedDeviceError, BrokenConfigError,
    UnsupportedQuantisationError, MissingTensorError, WrongShapeError, NotEnoughMemoryError,
    BrokenWeightsError, MissingFileError.
    """
    builder = _Builder(folder, dtype, kernels)
    check_memory(builder.num_bytes, available(device), device)
    load = Load(builder, folder.files, device, progress, check)
    loaded = load.from_disk(keeping) if keeping is not None else None
    return loaded if loaded is not None else load.from_weights(keeping)


class _Builder:
    """How to build the model of a folder, with every tensor checked against the headers."""

    def __init__(self, folder: ModelFolder, dtype: torch.dtype, kernels: Backend) -> None:
        self.forms, self.ops = kernels.forms, kernels.ops
        self.dtype = dtype
        self.backend = kernels.name
        self._family = _family_of(folder)
        _check_precision(dtype)
        self._config = self._family.parse(folder.config)
        self._scheme = read_scheme(folder.config)
        names = plain_names(folder.tensor_names)
        self.published = self._family.published_names(self._config, names)
        limit = _NUMBERS_PER_BYTE * sum(file.num_bytes for file in folder.files)
        asked = plan_weights(self._note, dtype, limit)
        published = {self.published(name): spec for name, spec in asked.items()}
        self.packed: PackedPlan = find_packed(published, folder.files, self._scheme)
        self.smoothed = smoothed_norms(
            (spec.input_norm, self._takes_scales(name, spec)) for name, spec in published.items()
        )
        self.plan: WeightPlan = {name: self._smoothed(spec) for name, spec in published.items()}
        plain = {name: spec for name, spec in self.plan.items() if name not in self.packed}
        check_plan(plain, folder.files)

    @property
    def num_bytes(self) -> int:
        working = (layer.working_bytes for layer in self.packed.values())
        on_the_way = max(working, default=0) + floats_on_the_way(self.plan, self.forms)
        return planned_bytes(self.plan, self.forms) + on_the_way

    @property
    def config(self) -> str:
        model = f"{self._family.build.__name__} {self._config!r}"
        return f"{model} {self._scheme.format!r}" if self._scheme else model

    def _takes_scales(self, name: str, spec: TensorSpec) -> bool:
        """Whether a matrix is quantised from floats: published integers stay what they are."""
        return name not in self.packed and self.forms.of(spec.exact).quantises

    def _smoothed(self, spec: TensorSpec) -> TensorSpec:
        """What is planned of a tensor, with the norm before it by its published name."""
        if spec.input_norm is None or spec.input_norm.name not in self.smoothed:
            return replace(spec, input_norm=None)
        norm = self.published(spec.input_norm.name)
        return replace(spec, input_norm=replace(spec.input_norm, name=norm))

    def _note(self, weights: Weights) -> None:
        self.build(weights, torch.device("cpu"))
        self.shapes = frozenset(weights.shapes)

    def build(self, weights: Weights, device: torch.device) -> Model:
        return self._family.build(self._config, weights, device)


def _family_of(folder: ModelFolder) -> Family:
    model_type = folder.config.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        named = f'"{shown(model_type)}"' if isinstance(model_type, str) else "not named"
        raise UnknownArchitectureError(
            f"The model type in config.json is {named}. Waymark runs: {', '.join(FAMILIES)}."
        )
    return family


def _check_precision(dtype: torch.dtype) -> None:
    if dtype not in PRECISIONS:
        raise UnsupportedDeviceError(f"Waymark computes in float32 or bfloat16, not in {dtype}.")
