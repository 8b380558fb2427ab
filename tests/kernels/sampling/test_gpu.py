"""Sampling on a GPU against the engine's sampler, limit by limit and token by token."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from core.api.params import SamplingParams
from core.engine.writing.draw_choice import choose_drawing
from core.engine.writing.sampler import Drawing, Sampler, uniform
from kernels.sampling.draw import Limits
from tests.kernels.gpu import guarded_memory

gpu = pytest.importorskip("kernels.sampling.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

SEED = 7


def both(logits: Tensor, index: int, device: torch.device, **limits: float) -> tuple[int, int]:
    """The ids that the GPU and the engine's sampler draw."""
    given = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, **limits}
    params = SamplingParams.model_validate(given)
    expected = Sampler(params, (), len(logits), SEED).sample(logits, index)
    with guarded_memory():
        found = gpu.draw(logits.to(device), limits_of(given), uniform(SEED, index))
    assert found is not None
    return found, expected


def limits_of(given: dict[str, float]) -> Limits:
    limits = given["temperature"], int(given["top_k"]), given["top_p"], given["min_p"]
    return Limits(*limits)


def make_logits(vocab: int, spread: float = 2.0, dtype: torch.dtype = torch.float32) -> Tensor:
    logits = spread * torch.randn(vocab, generator=torch.Generator().manual_seed(vocab))
    return logits.to(dtype)


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"temperature": 0.3},
        {"top_k": 1},
        {"top_k": 20},
        {"top_k": 5_000},
        {"top_p": 0.9},
        {"top_p": 0.01},
        {"min_p": 0.05},
        {"min_p": 1.0},
        {"temperature": 1.7, "top_k": 40, "top_p": 0.8, "min_p": 0.02},
        {"temperature": 0.0, "top_k": 3},
        {"temperature": 1e-38},
    ],
)
@pytest.mark.parametrize("vocab", [1, 1025, 3000])
def test_the_token_is_the_sampler_s(
    vocab: int, limits: dict[str, float], device: torch.device
) -> None:
    logits = make_logits(vocab)
    for index in range(2):
        found, expected = both(logits, index, device, **limits)
        assert found == expected


@pytest.mark.parametrize("limits", [{"top_k": 4}, {"top_p": 0.7}, {"min_p": 0.5}, {}])
def test_ties_fall_as_the_sampler_has_them(limits: dict[str, float], device: torch.device) -> None:
    """Bfloat16 logits hold many equal numbers; top_p may cut between two of them."""
    logits = (make_logits(1500).round() / 2).bfloat16()
    for index in range(4):
        found, expected = both(logits, index, device, **limits)
        assert found == expected


def test_what_cannot_be_drawn_never_is(device: torch.device) -> None:
    logits = torch.full((1100,), -math.inf)
    logits[[5, 1050]] = torch.tensor([1.0, 0.5])
    drawn = {both(logits, index, device)[0] for index in range(6)}
    assert drawn == {5, 1050}


@pytest.mark.parametrize("point", [0.0, 1.0 - 2.0**-53])
def test_the_ends_of_the_draw_are_tokens_that_are_kept(point: float, device: torch.device) -> None:
    logits = make_logits(2100)
    numbers = gpu.settings(1.0, 3, 1.0, 0.0, point, device)
    kept = logits.topk(3).indices.sort().values
    assert int(gpu.sample(logits.to(device), numbers)) == int(kept[0 if point == 0 else -1])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_is_not_a_number_is_said(bad: float, temperature: float, device: torch.device) -> None:
    logits = make_logits(1030)
    logits[1027] = bad
    numbers = gpu.settings(temperature, 5, 0.9, 0.1, 0.5, device)
    assert int(gpu.sample(logits.to(device), numbers)) == gpu.NOT_A_NUMBER


def test_a_row_of_nothing_is_said(device: torch.device) -> None:
    numbers = gpu.settings(1.0, 0, 1.0, 0.0, 0.5, device)
    nothing = torch.full((9,), -math.inf, device=device)
    assert int(gpu.sample(nothing, numbers)) == gpu.NOT_A_NUMBER
    assert gpu.draw(nothing, Limits(1.0, 0, 1.0, 0.0), 0.5) is None


def test_it_passes_the_trial_before_its_first_use(device: torch.device) -> None:
    assert choose_drawing(gpu.draw, 2500, device) == Drawing(gpu.draw, device)


def test_a_reply_s_penalties_are_the_same_on_the_device(device: torch.device) -> None:
    params = SamplingParams(
        temperature=0.9, repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.2
    )
    ours, theirs = (
        Sampler(params, (3, 5, 8), 1100, SEED, drawing)
        for drawing in (None, Drawing(gpu.draw, device))
    )
    for index in range(5):
        logits = make_logits(1100 + index)[:1100]
        expected = ours.sample(logits, index)
        assert theirs.sample(logits.to(device), index) == expected
        ours.accept(expected)
        theirs.accept(expected)
