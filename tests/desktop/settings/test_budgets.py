from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.model_info import LoadFacts
from desktop.number_format import NotANumberError
from desktop.settings.budgets import (
    GB,
    MB,
    STEPS,
    at_least,
    automatic,
    exact_bytes,
    parse_size,
    stepped,
    too_small,
)
from tests.desktop.fake_engine import model_info

MODEL = model_info(
    host_budget=6_200_000_000,
    disk_budget=20 * GB,
    device_budget=3 * GB,
    smallest_host_budget=1_310_000_001,
    smallest_device_budget=2 * GB,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1.5 GB", 1_500_000_000),
        ("700mb", 700_000_000),
        (" 2 ", 2 * GB),
        ("1,024 KB", 1_024_000),
        ("1 TB", 1000 * GB),
        ("0", 0),
        ("12 B", 12),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1 GB", "1 parsec"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(NotANumberError):
        parse_size(text)


@pytest.mark.parametrize(("size", "words"), [(1_500_000_000, "1.5 GB"), (0, "0 MB"), (7, "7 B")])
def test_sizes_are_short(size: int, words: str) -> None:
    assert exact_bytes(size) == words


@given(st.integers(1, 2**45))
def test_a_size_said_to_be_enough_is_enough(size: int) -> None:
    assert parse_size(at_least(size)) >= size


@pytest.mark.parametrize(
    ("size", "steps", "wanted"),
    [
        (GB, 1, 1_500_000_000),
        (GB, -1, 768 * MB),
        (5 * GB, 1, 6 * GB),
        (5 * GB, -1, 4 * GB),
        (0, -1, STEPS[0]),
        (STEPS[0], -3, STEPS[0]),
        (STEPS[-1] * 9, 1, STEPS[-1]),
    ],
)
def test_sizes_step_sensibly_up_to_both_ends(size: int, steps: int, wanted: int) -> None:
    assert stepped(size, steps) == wanted


def test_a_budget_below_the_smallest_is_told_with_numbers() -> None:
    words = too_small("cache.host_bytes", GB, MODEL)
    assert words.startswith("1 GB of memory is too small: a context of 4,096 tokens alone takes")
    # Rounded up, so that allowing what is said is enough.
    assert "takes 1.4 GB." in words
    assert "2 GB" not in words
    assert "graphics memory" in too_small("cache.device_bytes", GB, MODEL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cache.host_bytes", 1_310_000_001),
        ("cache.host_bytes", None),
        ("cache.disk_bytes", 0),
        ("cache.count", 1),
    ],
)
def test_what_is_large_enough_is_left_alone(key: str, value: object) -> None:
    assert too_small(key, value, MODEL) == ""
    assert too_small(key, 0, None) == ""


def test_automatic_is_what_the_engine_named() -> None:
    keys = ("cache.host_bytes", "cache.disk_bytes", "cache.device_bytes", "model.weights_bytes")
    model = MODEL.model_copy(update={"load": LoadFacts(kept_budget=5 * GB)})
    assert [automatic(key, model) for key in keys] == [6_200_000_000, 20 * GB, 3 * GB, 5 * GB]
