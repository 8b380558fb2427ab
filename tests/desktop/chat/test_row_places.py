from __future__ import annotations

import pytest

from desktop.chat.row_widgets import RowPlaces


@pytest.fixture
def places() -> RowPlaces:
    made = RowPlaces(gap=4)
    made.replace_from(0, [10, 20, 30])
    return made


def test_rows_lie_below_one_another(places: RowPlaces) -> None:
    assert [places.top(place) for place in range(3)] == [0, 14, 38]
    assert places.total() == 68
    assert len(places) == 3


@pytest.mark.parametrize(
    ("y", "place"), [(-5, 0), (0, 0), (13, 0), (14, 1), (37, 1), (38, 2), (68, 2), (900, 2)]
)
def test_the_row_at_a_height(places: RowPlaces, y: int, place: int) -> None:
    assert places.at(y) == place


def test_the_rows_between_two_heights(places: RowPlaces) -> None:
    assert places.between(12, 15) == range(2)
    assert places.between(-50, 500) == range(3)
    assert RowPlaces(4).between(0, 500) == range(0)


def test_a_row_that_is_laid_out_moves_those_below(places: RowPlaces) -> None:
    places.set_height(1, 100)
    assert (places.height(1), places.top(2), places.total()) == (100, 118, 148)


def test_rows_are_replaced(places: RowPlaces) -> None:
    places.replace_from(1, [5])
    assert (len(places), places.top(1), places.total()) == (2, 14, 19)
    places.replace_from(0, [])
    assert (len(places), places.total()) == (0, 0)
