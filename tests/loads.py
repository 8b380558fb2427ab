"""Loading the model of a folder as tests do it: in one type, all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from core.loading.model import ReadModel, read_model
from core.loading.plan import ModelPlan
from core.weights.container import Container
from kernels.dispatch import REFERENCE, Backend


def load_model(
    folder: Container,
    device: torch.device,
    dtype: torch.dtype,
    progress: Callable[[int, int], None] = lambda done, total: None,
    check: Callable[[], None] = lambda: None,
    *,
    kernels: Backend = REFERENCE,
    **options: Any,
) -> ReadModel:
    """The model of `folder`, computing in `dtype`; `options` as `read_model` has them."""
    return read_model(ModelPlan(folder).held(dtype, kernels), device, progress, check, **options)


def estimate_bytes(folder: Container, dtype: torch.dtype, kernels: Backend = REFERENCE) -> int:
    return ModelPlan(folder).held(dtype, kernels).num_bytes
