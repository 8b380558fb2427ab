"""Placement of checkpoints, and who goes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.prompt import CutKind, Image, Prompt, Segment, TextRun
from core.cache.policy import PRECIOUS, Worth, plan, rounded_interval, victim
from tests.api.prompts import END, segments

ENDS = frozenset({END})


def named(prompt: Prompt, interval: int) -> list[int]:
    return [run.end.token.value for run in plan(prompt, interval)]


@pytest.mark.parametrize(
    ("interval", "grid", "rounded"),
    [(1, 512, 512), (512, 512, 512), (513, 512, 1024), (2048, 512, 2048), (2049, 64, 2112)],
)
def test_interval_is_rounded_up_to_the_grid(interval: int, grid: int, rounded: int) -> None:
    assert rounded_interval(interval, grid) == rounded


def test_long_text_is_named_every_interval() -> None:
    assert named(Prompt((TextRun((1,) * 50),), ENDS, 8), 16) == [16, 32, 48]


def test_message_ends_and_image_edges_are_always_named() -> None:
    image = Image(b"k" * 16, 2, 2, 2)
    made = Prompt((TextRun((1, END, 1)), image, TextRun((1, END, 1, 1))), ENDS, 8)
    assert named(made, 1000) == [2, 3, 7, 9]


def test_the_interval_counts_from_the_last_named_cut() -> None:
    made = Prompt((TextRun((1,) * 10 + (END,) + (1,) * 30),), ENDS, 8)
    # The grid cut at 8 is under 16 from the start; after the turn's end at 11 come 19, 27, 35.
    assert named(made, 16) == [11, 27]


@given(segments(), segments(), st.integers(1, 12), st.integers(1, 40))
def test_the_plan_is_prefix_stable(
    common: list[Segment], rest: list[Segment], grid: int, interval: int
) -> None:
    short = Prompt(tuple(common), ENDS, grid)
    long = Prompt((*common, *rest), ENDS, grid)
    inside = [place for place in named(short, interval) if place < short.num_tokens]
    assert inside == [place for place in named(long, interval) if place < short.num_tokens]


@given(segments(), st.integers(1, 12), st.integers(1, 40))
def test_S8_between_checkpoints_lie_less_than_interval_plus_grid(
    parts: list[Segment], grid: int, interval: int
) -> None:
    made = Prompt(tuple(parts), ENDS, grid)
    names = {0, *named(made, interval)}
    for run in made.runs:
        if run.kind is None or isinstance(run.content, Image):
            continue
        behind = max(place for place in names if place <= run.start.token.value)
        assert run.start.token.value - behind < rounded_interval(interval, grid) + grid
        if run.kind & ~CutKind.GRID:
            assert run.end.token.value in names


def worth(rank: int | None = None, seconds: float = 1, num_bytes: int = 1, age: int = 0) -> Worth:
    return Worth(rank, seconds, num_bytes, age)


def first_to_go(worths: dict[str, Worth], by_bytes: bool = False) -> list[str]:
    """The order in which everything goes."""
    left, order = dict(worths), []
    while left:
        gone = victim(left.items(), by_bytes)
        assert gone is not None
        order.append(gone)
        del left[gone]
    return order


def test_S10_the_cheapest_to_rebuild_and_longest_unused_goes_first() -> None:
    worths = {
        "anchor of a long text": worth(seconds=60, age=40),
        "short turn": worth(seconds=0.1, age=2),
        "long ago": worth(seconds=1, age=99),
    }
    assert first_to_go(worths) == ["long ago", "short turn", "anchor of a long text"]


def test_S10_where_bytes_are_short_what_frees_most_goes_first() -> None:
    worths = {"large": worth(num_bytes=100), "small": worth(num_bytes=1)}
    assert first_to_go(worths, by_bytes=True) == ["large", "small"]


def test_S10_the_precious_go_last_and_the_last_named_of_them_first() -> None:
    worths = {name: worth(rank=rank, seconds=0) for rank, name in enumerate(PRECIOUS)}
    worths["anything else"] = worth(seconds=1e9)
    assert first_to_go(worths) == ["anything else", *reversed(PRECIOUS)]


def test_nothing_to_choose_from() -> None:
    nothing: list[tuple[str, Worth]] = []
    assert victim(nothing, by_bytes=True) is None
