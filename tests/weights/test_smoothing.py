"""Powers of two that migrate from a norm: of its large weights, in every number format."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.weights.smoothing import InputNorm, migrating_scales, smoothed_norms

# Far from where numbers end: below, a division by two rounds.
sizes = st.tuples(
    st.floats(min_value=2.0**-60, max_value=2.0**60, width=32), st.sampled_from([-1.0, 0.0, 1.0])
).map(lambda pair: pair[0] * pair[1])


def found(*scale: float) -> list[float]:
    numbers: list[float] = migrating_scales(torch.tensor(scale)).tolist()
    return numbers


def test_what_is_large_gives_up_its_power_of_two() -> None:
    usual = (1,) * 8
    assert found(*usual, 3.9, 4, 31, -32, 1e9) == [*usual, 1, 4, 16, 32, 2**16]


def test_large_is_what_is_beyond_four_medians() -> None:
    assert found(0.5, 0.5, 0.5, 1.9, 2.0) == [1, 1, 1, 1, 4]
    assert found(1, 1, 1e-6, 0, -1) == [1] * 5


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_stays(odd: float) -> None:
    assert found(1, 1, 1, odd) == [1] * 4


def test_zeros_stay() -> None:
    assert found(0, 0, 0, 5) == [1] * 4


@given(st.lists(sizes, min_size=1))
def test_nothing_is_rounded_on_the_way(scale: list[float]) -> None:
    numbers = torch.tensor(scale)
    given_up = migrating_scales(numbers)
    assert bool((given_up >= 1).all())
    assert torch.equal(numbers / given_up * given_up, numbers)
    assert bool((torch.frexp(given_up).mantissa == 0.5).all())


def test_a_norm_hands_on_to_all_of_its_readers_or_to_none() -> None:
    one, other, third = (InputNorm(name, 1.0) for name in "abc")
    readers = [(one, True), (other, True), (None, True), (one, False), (third, False)]
    assert smoothed_norms(readers) == {"b"}
