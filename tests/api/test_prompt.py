"""Cuts: where they lie, that they are prefix-stable, and that none falls inside an image."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.positions import PositionIndex, TokenIndex
from core.api.prompt import LEAST_PART, Cut, CutKind, Image, Prompt, Segment, TextRun
from core.cache.node import chained_key
from core.engine.debug import check_positions
from tests.api.prompts import END, segments

ENDS = frozenset({END})


def prompt(*parts: Segment, grid: int = 8) -> Prompt:
    return Prompt(parts, ENDS, grid)


def places(made: Prompt) -> list[tuple[int, int]]:
    return [(cut.token.value, cut.position.value) for cut in made.cuts]


def picture(rows: int, columns: int, key: int = 1) -> Image:
    return Image(bytes([key]) * 16, rows, columns, max(rows, columns))


def test_cuts_follow_turn_ends_and_the_grid() -> None:
    made = prompt(TextRun((1, 2, END, *range(3, 3 + 20))))
    assert places(made) == [(3, 3), (11, 11), (19, 19)]
    assert made.runs[-1].kind is None and made.num_tokens == 23


def test_an_image_is_one_run_with_cuts_at_both_edges() -> None:
    made = prompt(TextRun((1, 2)), picture(2, 3), TextRun((3,)))
    assert places(made) == [(2, 2), (8, 5)]
    assert made.runs[0].kind == CutKind.IMAGE_START
    assert made.runs[1].kind == CutKind.IMAGE_END


def test_I7_the_next_position_after_an_image_is_the_largest_plus_one() -> None:
    made = prompt(TextRun((1, 2)), picture(2, 3), TextRun((3, 4)))
    temporal, height, width = made.runs[1].position_ids()
    assert temporal == [2] * 6
    assert height == [2, 2, 2, 3, 3, 3]
    assert width == [2, 3, 4, 2, 3, 4]
    assert made.runs[2].start == Cut(TokenIndex(8), PositionIndex(5))
    assert max(temporal + height + width) + 1 == made.runs[2].start.position.value
    assert made.end == Cut(TokenIndex(10), PositionIndex(7))


def test_I7_the_positions_of_an_image_in_a_line_are_those_of_text() -> None:
    made = prompt(TextRun((1, 2)), Image(bytes(16), 2, 3, 6, in_line=True), TextRun((3,)))
    assert made.runs[1].position_ids() == ([2, 3, 4, 5, 6, 7],) * 3
    assert made.end == Cut(TokenIndex(9), PositionIndex(9))
    with pytest.raises(ValueError, match="one position a token"):
        Image(bytes(16), 2, 3, 3, in_line=True)


def test_I7_a_canvas_has_places_and_keeps_what_follows_it_at_its_start() -> None:
    places_of = ((-1, -1), (0, 0), (0, 2), (2, 1))
    image = Image(bytes(16), 1, 4, 3, canvas=places_of, kept_ids=frozenset({7}))
    made = prompt(TextRun((1, 2)), image, TextRun((7,), 3), TextRun((3,)))
    assert made.runs[1].position_ids() == ([2] * 4, [1, 2, 2, 4], [1, 2, 4, 3])
    assert made.runs[2].position_ids() == ([2],) * 3 and made.runs[2].kind == CutKind.GRID
    assert made.runs[3].position_ids() == ([5],) * 3
    assert places(made) == [(2, 2), (6, 5), (7, 5)]
    # At the very start nothing is before a canvas.
    assert prompt(image).runs[0].position_ids()[1] == [0, 0, 0, 2]
    check_positions(made)
    other = prompt(TextRun((1, 2)), image, TextRun((7,)), TextRun((3,)))
    assert chained_key(b"", other.runs[2]) != chained_key(b"", made.runs[2])
    with pytest.raises(ValueError, match="one place a token"):
        Image(bytes(16), 1, 3, 3, canvas=places_of)


@given(segments(), st.integers(1, 12))
def test_positions_are_those_of_a_walk_over_single_tokens(parts: list[Segment], grid: int) -> None:
    check_positions(Prompt(tuple(parts), ENDS, grid))


def test_I3_an_image_in_a_line_is_not_the_one_on_a_grid() -> None:
    row = (bytes(16), 1, 3, 3)
    line, on_grid = (prompt(Image(*row, in_line)).runs[0] for in_line in (True, False))
    assert chained_key(b"", line) != chained_key(b"", on_grid)


def test_a_turn_end_on_the_grid_is_one_cut_with_two_reasons() -> None:
    made = prompt(TextRun((1,) * 7 + (END,)))
    assert places(made) == [(8, 8)]
    assert made.runs[0].kind == CutKind.GRID | CutKind.MESSAGE_END


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17])
def test_S14_grid_multiples_end_in_a_cut_and_others_in_a_stop(length: int) -> None:
    made = prompt(TextRun((1,) * length))
    assert (made.runs[-1].kind is None) == (length % 8 != 0)
    assert made.end.token == TokenIndex(length)


def test_S14_an_image_may_be_the_very_last_thing() -> None:
    made = prompt(TextRun((1,)), picture(3, 3))
    assert made.cuts[-1] == made.end == Cut(TokenIndex(10), PositionIndex(4))


def test_neighbouring_text_is_one_text() -> None:
    joined = prompt(TextRun((1, 2)), TextRun(()), TextRun((3,) * 9))
    assert joined.segments == (TextRun((1, 2) + (3,) * 9),)


def test_nothing_is_no_prompt() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        prompt(TextRun(()))
    with pytest.raises(ValueError, match="grid"):
        prompt(TextRun((1,)), grid=0)


@given(segments(), st.integers(1, 12))
def test_runs_tile_the_prompt(parts: list[Segment], grid: int) -> None:
    made = Prompt(tuple(parts), ENDS, grid)
    at = Cut(TokenIndex(0), PositionIndex(0))
    for run in made.runs:
        assert run.start == at
        assert run.end.token - run.start.token == run.content.num_tokens > 0
        assert run.end.position - run.start.position == run.content.num_positions
        assert isinstance(run.content, Image) or run.num_tokens <= grid
        at = run.end
    assert at == made.end
    assert all(run.kind is not None for run in made.runs[:-1])
    assert made.num_tokens == sum(part.num_tokens for part in parts) == len(made.ids(7))


@given(segments(), segments(), segments(), st.integers(1, 12))
def test_X0_cuts_inside_a_common_prefix_are_the_same(
    common: list[Segment], one: list[Segment], other: list[Segment], grid: int
) -> None:
    first = Prompt((*common, *one), ENDS, grid)
    second = Prompt((*common, *other), ENDS, grid)
    shared = Prompt(tuple(common), ENDS, grid).num_tokens

    def inside(made: Prompt) -> list[Cut]:
        return [cut for cut in made.cuts if cut.token.value < shared]

    assert inside(first) == inside(second)


@given(segments(), segments(), st.sets(st.integers(0, 60)), st.integers(1, 12))
def test_X0_a_pause_is_a_cut_and_leaves_those_before_it_alone(
    common: list[Segment], more: list[Segment], pauses: set[int], grid: int
) -> None:
    shared = Prompt(tuple(common), ENDS, grid).num_tokens
    inside = frozenset(pause for pause in pauses if pause < shared)
    made = Prompt((*common, *more), ENDS, grid, inside | {shared})
    before = Prompt(tuple(common), ENDS, grid, inside)
    assert list(before.runs[:-1]) == list(made.runs[: len(before.runs) - 1])
    last, same = before.runs[-1], made.runs[len(before.runs) - 1]
    # What was a prompt's tail is found again as the run that ends at the pause.
    assert chained_key(b"", last) == chained_key(b"", same) or CutKind.IMAGE_START in (
        same.kind or CutKind(0)
    )
    cuts = {cut.token.value for cut in made.cuts}
    texts = {
        at
        for run in made.runs
        if isinstance(run.content, TextRun)
        for at in range(run.start.token.value + 1, run.end.token.value + 1)
    }
    assert inside & texts <= cuts


@given(segments(), segments(), st.sets(st.integers(1, 60)), st.integers(1, 12))
def test_X0_the_end_of_a_part_is_a_cut_and_leaves_those_before_it_alone(
    common: list[Segment], more: list[Segment], places: set[int], grid: int
) -> None:
    shared = Prompt(tuple(common), ENDS, grid).num_tokens
    with patch("core.api.prompt.LEAST_PART", 3):
        short, long = (
            Prompt(tuple(parts), ENDS, grid, part_ends=frozenset(places))
            for parts in (common, [*common, *more])
        )
        inside = [[cut for cut in made.cuts if cut.token.value < shared] for made in (short, long)]
    assert inside[0] == inside[1]
    begun = 0
    for run in long.runs:
        later = range(max(run.start.token.value + 1, begun + 3), run.end.token.value)
        assert isinstance(run.content, Image) or not places.intersection(later)
        on_grid = run.kind == CutKind.GRID and not getattr(run.content, "back", 0)
        begun = begun if on_grid else run.end.token.value


@pytest.mark.parametrize("before", [LEAST_PART - 1, LEAST_PART])
def test_a_short_part_ends_without_a_cut(before: int) -> None:
    ids = TextRun((1,) * (before + 9))
    made = Prompt((TextRun((END,)), ids), ENDS, 512, part_ends=frozenset({1 + before}))
    ends = [run.end.token.value for run in made.runs if run.ends(CutKind.PART_END)]
    assert ends == ([1 + before] if before == LEAST_PART else [])


@given(segments(), st.integers(1, 12))
def test_I8_no_cut_falls_inside_an_image(parts: list[Segment], grid: int) -> None:
    made = Prompt(tuple(parts), ENDS, grid)
    cuts = {cut.token.value for cut in made.cuts}
    at = 0
    for part in parts:
        if isinstance(part, Image):
            assert not cuts & set(range(at + 1, at + part.num_tokens))
            assert at + part.num_tokens in cuts
            assert at == 0 or at in cuts
        at += part.num_tokens
