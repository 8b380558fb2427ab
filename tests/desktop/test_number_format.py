from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QLocale

from desktop.number_format import (
    NotANumberError,
    UnclearNumberError,
    number,
    parse_number,
)
from desktop.numbers import format_bytes, format_count, format_seconds, format_speed
from desktop.settings.budgets import exact_bytes, parse_size

NARROW = "\N{NARROW NO-BREAK SPACE}"
LOCALES = ("de_DE", "en_US", "fr_FR", "C", "de_CH", "en_IN", "es_ES", "ar_EG", "sv_SE")


@pytest.fixture(autouse=True)
def _the_locale_before() -> Iterator[None]:
    before = QLocale()
    yield
    QLocale.setDefault(before)


def use(name: str) -> None:
    QLocale.setDefault(QLocale(name))


@pytest.mark.parametrize(
    ("name", "shown", "speed"),
    [
        ("de_DE", "262.144", "1.234 tokens/s"),
        ("en_US", "262,144", "1,234 tokens/s"),
        ("fr_FR", f"262{NARROW}144", f"1{NARROW}234 tokens/s"),
        ("C", "262,144", "1,234 tokens/s"),
    ],
)
def test_numbers_are_shown_in_the_users_locale(name: str, shown: str, speed: str) -> None:
    use(name)
    point = QLocale().decimalPoint()
    assert format_count(262_144) == shown
    assert format_speed(1234.2) == speed
    assert format_bytes(149_600_000) == f"149{point}6 MB"
    assert format_seconds(0.04) == f"0{point}04 s"
    assert exact_bytes(1_500_000_000) == f"1{point}5 GB"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("de_DE", "0,7", "0.7"),
        ("de_DE", "1.234,5", "1234.5"),
        ("de_DE", "262.144", "262144"),
        ("de_DE", "-2", "-2"),
        ("en_US", "0.7", "0.7"),
        ("en_US", "1,234.5", "1234.5"),
        ("en_US", ".5", "0.5"),
        ("fr_FR", "0,7", "0.7"),
        ("fr_FR", f"1{NARROW}234,5", "1234.5"),
        ("fr_FR", "1 234", "1234"),
        ("C", "0.7", "0.7"),
        ("C", "262,144", "262144"),
        ("de_CH", "1'234.5", "1234.5"),
        ("en_IN", "12,34,567", "1234567"),
        ("es_ES", "1.500", "1500"),
        ("en_US", "262 144", "262144"),
    ],
)
def test_numbers_are_read_in_the_users_locale(name: str, text: str, value: str) -> None:
    use(name)
    assert parse_number(text) == Decimal(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("en_US", "0,7"),
        ("C", "0,7"),
        ("en_US", "1,5"),
        ("en_US", "1.234,5"),
        ("en_US", "1.234.567"),
        ("de_DE", "0.7"),
        ("de_DE", "1.5"),
        ("de_DE", "1,234.5"),
        ("fr_FR", "0.7"),
        ("fr_FR", "1,234,567"),
        ("en_US", "1 5"),
        ("en_US", "12,34,567"),
    ],
)
def test_separators_out_of_place_are_refused(name: str, text: str) -> None:
    use(name)
    with pytest.raises(UnclearNumberError):
        parse_number(text)
    with pytest.raises(UnclearNumberError):
        parse_size(f"{text} GB")


@pytest.mark.parametrize("text", ["", ".", "-", "seven", "1e3", "nan", "inf", "0x10", "--1"])
def test_what_is_no_number_is_told_from_what_is_not_clear(text: str) -> None:
    with pytest.raises(NotANumberError) as refused:
        parse_number(text)
    assert not isinstance(refused.value, UnclearNumberError)


@given(
    st.sampled_from(LOCALES),
    st.integers(-(2**53), 2**53) | st.floats(0.0001, 10**6).map(lambda value: round(value, 4)),
)
def test_what_is_written_is_read_back(name: str, value: float) -> None:
    use(name)
    assert parse_number(number(value)) == Decimal(repr(value))


@given(st.sampled_from(LOCALES), st.integers(0, 2**48))
def test_a_size_that_is_written_is_read_back(name: str, size: int) -> None:
    use(name)
    assert parse_size(exact_bytes(size)) == size


def test_a_number_beyond_all_counts_is_still_shown() -> None:
    use("en_US")
    assert number(1e20) == "100,000,000,000,000,000,000"
    assert number(1.1e39).startswith("1,1")
