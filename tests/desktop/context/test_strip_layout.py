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


@pytest.mark.parametrize(
    ("sizes", "length", "width", "widths", "room_is_cut"),
    [
        ((100, 300), 1000, 500, [50, 150], False),
        # A nearly empty context stays legible.
        ((26, 4), 262_144, 300, [229, 35], True),
        ((1, 50_000, 1), 50_002, 300, [THINNEST, 300 - 2 * THINNEST, THINNEST], False),
        ((70, 30), 100, 300, [210, 90], False),
        # Fuller than full.
        ((70, 60), 100, 300, [162, 138], False),
        ((), 1000, 300, [], False),
    ],
)
def test_the_strip_is_to_scale(
    sizes: tuple[int, ...], length: int, width: int, widths: list[float], room_is_cut: bool
) -> None:
    layout = lay_out(parts(*sizes), length, width)
    assert [round(box.width) for box in layout.boxes] == widths
    assert layout.used == pytest.approx(sum(widths), abs=1)
    assert layout.room_is_cut == room_is_cut


def test_tokens_are_placed_within_their_part() -> None:
    layout = lay_out(parts(100, 100), 200, 400)
    places = [layout.place_of(token) for token in (0, 50, 100, 150, 200, 900)]
    assert places == [0, 100, 200, 300, 400, 400]
    second = layout.box_at(399.9)
    assert second is not None and second.part.start == 100
    assert layout.box_at(400) is None
    empty = lay_out([], 1000, 300)
    assert (empty.place_of(5), empty.box_at(5)) == (0.0, None)


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
