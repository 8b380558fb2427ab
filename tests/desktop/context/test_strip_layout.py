from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.stats import ContextPart
from desktop.context.strip import THINNEST, lay_out

pytestmark = pytest.mark.usefixtures("dressed")


def parts(*sizes: int) -> list[ContextPart]:
    edges = [0]
    for size in sizes:
        edges.append(edges[-1] + size)
    return [
        ContextPart(start=start, end=end, kind="text", source="reused")
        for start, end in pairwise(edges)
    ]


def test_the_strip_is_to_scale() -> None:
    layout = lay_out(parts(100, 300), 1000, 500)
    assert [(box.left, box.width) for box in layout.boxes] == [(0, 50), (50, 150)]
    assert (layout.used, layout.room_is_cut) == (200, False)


def test_a_context_that_is_almost_empty_stays_legible() -> None:
    layout = lay_out(parts(26, 4), 262_144, 300)
    assert layout.room_is_cut
    assert [round(box.width) for box in layout.boxes] == [229, 35]


def test_the_smallest_part_stays_visible() -> None:
    layout = lay_out(parts(1, 50_000, 1), 50_002, 300)
    assert [box.width for box in layout.boxes] == [THINNEST, 300 - 2 * THINNEST, THINNEST]


def test_an_empty_context_has_no_parts() -> None:
    layout = lay_out([], 1000, 300)
    assert (layout.boxes, layout.place_of(5), layout.box_at(5)) == ((), 0.0, None)


def test_a_context_that_is_full_has_no_room() -> None:
    assert lay_out(parts(70, 30), 100, 300).used == 300
    assert lay_out(parts(70, 60), 100, 300).used == 300


def test_tokens_are_placed_within_their_part() -> None:
    layout = lay_out(parts(100, 100), 200, 400)
    assert [layout.place_of(token) for token in (0, 50, 100, 150, 200, 900)] == [
        0,
        100,
        200,
        300,
        400,
        400,
    ]
    second = layout.box_at(399.9)
    assert second is not None
    assert second.part.start == 100
    assert layout.box_at(400) is None


@given(
    st.lists(st.integers(1, 300_000), min_size=1, max_size=60),
    st.integers(1, 2_000_000),
    st.integers(40, 2_000),
)
def test_parts_fill_what_is_used_in_order(
    sizes: list[int], context_length: int, width: int
) -> None:
    layout = lay_out(parts(*sizes), context_length, width)
    least = min(THINNEST, width / len(sizes))
    assert len(layout.boxes) == len(sizes)
    assert layout.boxes[0].left == 0
    assert layout.boxes[-1].right == pytest.approx(layout.used)
    assert layout.used <= width
    for box, following in pairwise(layout.boxes):
        assert box.right == pytest.approx(following.left)
    assert min(box.width for box in layout.boxes) >= least * 0.999
    # A larger part is never narrower than a smaller one.
    by_size = sorted(zip(sizes, [box.width for box in layout.boxes], strict=True))
    for (_, narrow), (_, wide) in pairwise(by_size):
        assert wide >= narrow * 0.999
