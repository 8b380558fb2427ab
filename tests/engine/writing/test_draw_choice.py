"""Tokens are drawn on the device only where it draws what the processor would."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import Tensor

from core.engine.writing.draw_choice import choose_drawing
from core.engine.writing.sampler import draw
from kernels.sampling.draw import Draw, Limits

CPU = torch.device("cpu")


def as_the_processor(scores: Tensor, limits: Limits, point: float) -> int | None:
    return draw(scores, limits, point)


def one_too_far(scores: Tensor, limits: Limits, point: float) -> int | None:
    found = draw(scores, limits, point)
    return found if found is None or point < 0.9 else (found + 1) % len(scores)


def always_draws(scores: Tensor, limits: Limits, point: float) -> int | None:
    found = draw(scores, limits, point)
    return 0 if found is None else found


def raises(scores: Tensor, limits: Limits, point: float) -> int | None:
    raise RuntimeError("no such instruction")


def test_without_a_device_s_way_it_is_the_processor_s() -> None:
    assert choose_drawing(None, 300, CPU).draw is draw


def test_a_device_that_draws_the_same_is_used(caplog: pytest.LogCaptureFixture) -> None:
    chosen = choose_drawing(as_the_processor, 300, CPU)
    assert chosen.draw is as_the_processor and not caplog.records


@pytest.mark.parametrize(
    ("wrong", "words"),
    [(one_too_far, "it drew"), (always_draws, "no number"), (raises, "no such instruction")],
)
def test_one_that_does_not_is_not_and_the_log_says_why(
    wrong: Draw, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = choose_drawing(wrong, 300, CPU)
    assert chosen.draw is draw and chosen.device == CPU
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert words in caplog.text
