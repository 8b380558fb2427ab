"""Which precision is taken: the wish, or the most exact one that fits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core.api.params import Device, ModelSettings, Precision
from core.loading.backend import choose_backend
from core.loading.plan import ModelPlan
from core.loading.precision import (
    BFLOAT16,
    FLOAT32,
    INT4,
    INT8,
    PRECISIONS,
    choose_precision,
    wished,
)
from core.weights.folder import ModelFolder
from core.weights.memory import HEADROOM_BYTES

CPU, GPU = torch.device("cpu"), torch.device("cuda")
DEMO = Path(__file__).parents[2] / "resources" / "models" / "demo"


def settings(precision: Precision = "auto", device: Device = "auto") -> ModelSettings:
    return ModelSettings(path=str(DEMO), precision=precision, device=device)


def in_bfloat16(_: ModelSettings) -> torch.dtype:
    return torch.bfloat16


def in_float32(_: ModelSettings) -> torch.dtype:
    return torch.float32


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8", "int4"])
def test_a_wish_is_a_wish(name: Precision, device: torch.device) -> None:
    assert wished(settings(name), device) == (PRECISIONS[name],)


def test_automatic_goes_from_exact_to_small() -> None:
    assert wished(settings(), CPU, in_bfloat16) == (BFLOAT16, INT8, INT4)
    assert wished(settings(), CPU, in_float32) == (FLOAT32, BFLOAT16, INT8, INT4)


def test_a_graphics_card_computes_in_bfloat16_unless_told_otherwise() -> None:
    assert wished(settings(), GPU, in_float32) == (BFLOAT16, INT8, INT4)


def test_automatic_takes_the_first_that_fits_and_else_the_smallest() -> None:
    plan = ModelPlan(ModelFolder.open(DEMO))
    needs = {}
    for each in (BFLOAT16, INT8, INT4):
        kernels = choose_backend(settings(), CPU, each.dtype, each.integers)
        needs[each] = plan.num_bytes(each.dtype, kernels)
    assert needs[BFLOAT16] > needs[INT8] > needs[INT4] > 0
    frees = [2**40, *(HEADROOM_BYTES + needs[each] * 6 // 5 for each in needs), HEADROOM_BYTES, 0]
    chosen = [choose_precision(settings(), plan, CPU, free, in_bfloat16) for free in frees]
    assert [each for each, _, _ in chosen] == [BFLOAT16, BFLOAT16, INT8, INT4, INT4, INT4]
    assert [needed for _, _, needed in chosen] == [needs[each] for each, _, _ in chosen]


def test_what_is_wished_for_is_taken_even_where_it_does_not_fit() -> None:
    """Loading refuses it then, with numbers; nobody gets coarser answers than they asked for."""
    plan = ModelPlan(ModelFolder.open(DEMO))
    precision, kernels, needed = choose_precision(settings("bfloat16"), plan, CPU, 0)
    assert precision == BFLOAT16 and needed == plan.num_bytes(torch.bfloat16, kernels)
