"""A prompt as segments, and the only places where it may be split.

Cuts are a pure function of token ids, image spans and marked places (docs/architecture.md, idea 1).
Later tokens never move a cut, and none is inside an image.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from core.api.positions import PositionIndex, TokenIndex

# A shorter part has no cut at its end: a checkpoint of it isn't worth its memory.
LEAST_PART = 64


@dataclass(frozen=True, slots=True)
class TextRun:
    """Never a picture's placeholder, whatever the ids are.

    With `back` all ids share one position, that many before the next, and none advances it: after a
    picture on a canvas, the line break stays at its start.
    """

    ids: tuple[int, ...]
    back: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.ids)

    @property
    def num_positions(self) -> int:
        return 0 if self.back else len(self.ids)


@dataclass(frozen=True, slots=True)
class Image:
    """`rows` x `columns` tokens after merging, advancing RoPE by `num_positions`.

    `key` is a digest of the processed pixels, their grid and the processor's settings. If
    `in_line`, each token advances one position; otherwise they span a grid, or a `canvas` of each
    one's row and column. `kept_ids` stay at the picture's start where they follow it.
    """

    key: bytes
    rows: int
    columns: int
    num_positions: int
    in_line: bool = False
    canvas: tuple[tuple[int, int], ...] = ()
    kept_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if len(self.key) < 16:
            raise ValueError("an image key needs at least 128 bits")
        if min(self.rows, self.columns, self.num_positions) < 1:
            raise ValueError("an image has at least one token and one position")
        if self.in_line and self.num_positions != self.num_tokens:
            raise ValueError("an image in a line has one position a token")
        if self.canvas and len(self.canvas) != self.num_tokens:
            raise ValueError("a canvas has one place a token")

    @property
    def num_tokens(self) -> int:
        return self.rows * self.columns

    def places(self) -> Sequence[tuple[int, int]]:
        """Row and column of each token of a grid or canvas."""
        return self.canvas or [
            (row, column) for row in range(self.rows) for column in range(self.columns)
        ]


Segment = TextRun | Image


class CutKind(enum.Flag):
    GRID = enum.auto()
    MESSAGE_END = enum.auto()
    IMAGE_START = enum.auto()
    IMAGE_END = enum.auto()
    CALL = enum.auto()
    """A tool call begins here, or a result ends."""
    PAUSE = enum.auto()
    """An earlier prompt ended here: before a reply, or where the reply was stopped or cut off."""
    PART_END = enum.auto()
    """A document, or another text that is followed by one of the same message, ends here."""


# People edit next to these, rather than inside.
EDGES = CutKind.IMAGE_START | CutKind.IMAGE_END | CutKind.PART_END


@dataclass(frozen=True, order=True, slots=True)
class Cut:
    """The next token's index and its RoPE position."""

    token: TokenIndex
    position: PositionIndex


ORIGIN = Cut(TokenIndex(0), PositionIndex(0))


@dataclass(frozen=True, slots=True)
class Run:
    """The tokens between two cuts. `kind` is None for a tail without a cut."""

    start: Cut
    end: Cut
    content: Segment
    kind: CutKind | None

    @property
    def num_tokens(self) -> int:
        return self.content.num_tokens

    @property
    def is_stop(self) -> bool:
        return self.kind is None or self.kind == CutKind.PAUSE

    def ends(self, kind: CutKind) -> bool:
        return self.kind is not None and bool(self.kind & kind)

    def position_ids(self) -> tuple[list[int], list[int], list[int]]:
        first = self.start.position.value
        content, count = self.content, self.num_tokens
        if isinstance(content, TextRun) and content.back:
            line = [first - content.back] * count
            return line, line, line
        if isinstance(content, TextRun) or content.in_line:
            line = list(range(first, first + count))
            return line, line, line
        rows, columns = zip(*content.places(), strict=True)
        # A canvas begins one place before its first row and column.
        height, width = ([max(0, first + place) for place in axis] for axis in (rows, columns))
        return [first] * count, height, width

    @property
    def last_position(self) -> tuple[int, int, int]:
        temporal, height, width = self.position_ids()
        return temporal[-1], height[-1], width[-1]


@dataclass(frozen=True)
class Prompt:
    """`end_of_turn_ids` close a message; `call_ids` begin a tool call or end a result; `grid` is
    the spacing of cuts; `pauses` are the token indices where replies paused, `part_ends` those of
    texts that another one follows. Raises ValueError without tokens."""

    segments: tuple[Segment, ...]
    end_of_turn_ids: frozenset[int]
    grid: int
    pauses: frozenset[int] = frozenset()
    call_ids: frozenset[int] = frozenset()
    part_ends: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.grid < 1:
            raise ValueError("the grid is at least one token")
        object.__setattr__(self, "segments", tuple(_joined(self.segments)))
        if not self.segments:
            raise ValueError("a prompt has at least one token")

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        return tuple(_split(self))

    @property
    def cuts(self) -> tuple[Cut, ...]:
        return tuple(run.end for run in self.runs if run.kind is not None)

    @property
    def end(self) -> Cut:
        return self.runs[-1].end

    @property
    def num_tokens(self) -> int:
        return self.end.token.value

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(segment for segment in self.segments if isinstance(segment, Image))

    def ids(self, image_token_id: int) -> list[int]:
        flat: list[int] = []
        for segment in self.segments:
            if isinstance(segment, TextRun):
                flat.extend(segment.ids)
            else:
                flat.extend([image_token_id] * segment.num_tokens)
        return flat


def _joined(segments: Iterable[Segment]) -> Iterator[Segment]:
    pending: list[int] = []
    for segment in segments:
        if isinstance(segment, TextRun) and not segment.back:
            pending.extend(segment.ids)
            continue
        if pending:
            yield TextRun(tuple(pending))
            pending = []
        yield segment
    if pending:
        yield TextRun(tuple(pending))


def _split(prompt: Prompt) -> Iterator[Run]:
    start, segments = ORIGIN, prompt.segments
    for index, segment in enumerate(segments):
        before_image = index + 1 < len(segments)
        first = start.token.value
        last = first + segment.num_tokens - (0 if before_image else 1)
        paused = sorted(pause - first for pause in prompt.pauses if first < pause <= last)
        parted = sorted(place - first for place in prompt.part_ends if first < place)
        for content, kind in _pieces(segment, before_image, prompt, paused, parted):
            end = Cut(start.token + content.num_tokens, start.position + content.num_positions)
            yield Run(start, end, content, kind)
            start = end


def _pieces(
    segment: Segment,
    before_image: bool,
    prompt: Prompt,
    paused: Sequence[int],
    parted: Sequence[int],
) -> Iterator[tuple[Segment, CutKind | None]]:
    if isinstance(segment, Image) or segment.back:
        yield segment, CutKind.IMAGE_END if isinstance(segment, Image) else CutKind.GRID
        return
    ids, first, grid = segment.ids, 0, prompt.grid
    begun = 0  # the last cut that isn't the grid's
    closing_ids = prompt.end_of_turn_ids | prompt.call_ids
    while first < len(ids):
        # Kinds are made at cuts only: one a token takes 4 us each, 150 ms for 39,000 tokens.
        furthest = min(first + grid, len(ids))
        closing = (index + 1 for index in range(first, furthest) if ids[index] in closing_ids)
        end = next(closing, furthest)
        kind = CutKind(0)
        for places, least, mark in (
            (parted, max(first + 1, begun + LEAST_PART), CutKind.PART_END),
            (paused, first + 1, CutKind.PAUSE),
        ):
            after = bisect_left(places, least)
            if after < len(places) and places[after] <= end:
                kind = mark | (kind if places[after] == end else CutKind(0))
                end = places[after]
        if ids[end - 1] in prompt.end_of_turn_ids:
            kind |= CutKind.MESSAGE_END
        if ids[end - 1] in prompt.call_ids:
            kind |= CutKind.CALL
        if end - first == grid:
            kind |= CutKind.GRID
        if end == len(ids) and before_image:
            kind |= CutKind.IMAGE_START
        yield TextRun(ids[first:end]), kind or None
        first = end
        if kind != CutKind.GRID:
            begun = end
