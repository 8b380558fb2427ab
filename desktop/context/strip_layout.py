"""Where each part of the context lies on a strip of so many pixels.

Pure arithmetic: true to scale, except that the smallest part stays visible, and that the free room
of a context that is almost empty is cut short. Leaves colours and words to the strip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.api.stats import ContextPart

# The free room is drawn to scale up to this many times what is used; beyond, 30 tokens of 262,144
# would be less than a pixel, and the room is cut short instead.
MOST_ROOM = 4
CUT_ROOM_SHARE = 0.12
# What is thinner than this cannot be seen or pointed at.
THINNEST = 2.0


@dataclass(frozen=True, slots=True)
class Box:
    """A part and its place on the strip, in pixels."""

    left: float
    width: float
    part: ContextPart

    @property
    def right(self) -> float:
        return self.left + self.width


@dataclass(frozen=True, slots=True)
class StripLayout:
    """The parts in order, and the free room after them.

    The room begins at `used`; `room_is_cut` says that it is not drawn to scale.
    """

    boxes: tuple[Box, ...]
    used: float
    width: float
    room_is_cut: bool

    def place_of(self, token: int) -> float:
        """Where a token lies; one past the last part lies at its end."""
        place = 0.0
        for box in self.boxes:
            if token < box.part.start:
                break
            inside = min(token, box.part.end) - box.part.start
            place = box.left + box.width * inside / (box.part.end - box.part.start)
        return place

    def box_at(self, place: float) -> Box | None:
        """The part at a place on the strip."""
        return next((box for box in self.boxes if box.left <= place < box.right), None)


def lay_out(parts: Sequence[ContextPart], context_length: int, width: float) -> StripLayout:
    """Lay the parts out over `width` pixels."""
    parts = [part for part in parts if part.end > part.start]
    tokens = sum(part.end - part.start for part in parts)
    if not parts:
        return StripLayout((), 0.0, width, room_is_cut=False)
    room = max(0, context_length - tokens)
    is_cut = room_is_cut(tokens, context_length)
    share = 1 - CUT_ROOM_SHARE if is_cut else tokens / (tokens + room)
    used = max(width * share, min(width, THINNEST * len(parts)))
    left = 0.0
    boxes = []
    for part, part_width in zip(parts, _widths(parts, used), strict=True):
        boxes.append(Box(left, part_width, part))
        left += part_width
    return StripLayout(tuple(boxes), used, width, is_cut)


def room_is_cut(tokens: int, context_length: int) -> bool:
    """Whether so few tokens are used that the strip leaves most of the free room out."""
    return context_length - tokens > MOST_ROOM * tokens > 0


def _widths(parts: Sequence[ContextPart], used: float) -> list[float]:
    """Widths to scale that sum to `used`; what would be too thin is widened at the others' cost."""
    thinnest = min(THINNEST, used / len(parts))
    sizes = [part.end - part.start for part in parts]
    thin: set[int] = set()
    while True:
        wide_tokens = sum(size for index, size in enumerate(sizes) if index not in thin)
        per_token = (used - thinnest * len(thin)) / wide_tokens if wide_tokens else 0.0
        # Widening some leaves less for the others, of which some may now be too thin.
        more = {i for i, size in enumerate(sizes) if i not in thin and size * per_token < thinnest}
        if not more:
            return [thinnest if i in thin else size * per_token for i, size in enumerate(sizes)]
        thin |= more
