"""The context drawn to scale: its data, layout and words; `context_strip` paints it.

Tiers are known only for the running engine process, and for the chat it worked on last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.api.events import Prepared
from core.api.stats import ContextPart, HeldCheckpoint, RequestStats
from desktop.context.fills import Fill
from desktop.i18n import tr
from desktop.numbers import count_of, format_count

# The free room is drawn to scale up to this many times the used part; beyond, it is cut short, for
# 30 tokens of 262,144 would be less than a pixel.
MOST_ROOM = 4
CUT_ROOM_SHARE = 0.12
# Anything thinner can't be seen or pointed at.
THINNEST = 2.0


@dataclass(frozen=True, slots=True)
class Strip:
    """`parts` have valid tiers if `known`; `asked` are the last request's parts, by source. From
    the token `done` on, parts are still to be read; from `differs` on, `parts` and `asked` are
    other tokens."""

    parts: tuple[ContextPart, ...] = ()
    asked: tuple[ContextPart, ...] = ()
    checkpoints: tuple[HeldCheckpoint, ...] = ()
    context_length: int = 0
    done: int | None = None
    known: bool = True
    differs: int | None = None

    @property
    def num_tokens(self) -> int:
        return self.parts[-1].end if self.parts else 0

    @property
    def num_asked(self) -> int:
        """Includes its reply."""
        return self.asked[-1].end if self.asked else 0

    @classmethod
    def of_request(cls, stats: RequestStats, done: int | None = None, known: bool = True) -> Strip:
        """`done` is given during its prefill."""
        return cls(stats.parts, stats.parts, stats.checkpoints, stats.context_length, done, known)


def prepared_strip(event: Prepared, stats: RequestStats | None, context_length: int) -> Strip:
    asked = stats.parts if stats else ()
    differs = _reply_start(event, stats) if stats else None
    return Strip(event.parts, asked, event.checkpoints, context_length, differs=differs)


def _reply_start(event: Prepared, stats: RequestStats) -> int | None:
    """The start of the last reply, which isn't stored as it was generated.

    A request that ends with a reply to continue has an even number of messages.
    """
    count = len(stats.message_starts)
    place = count - 1 + count % 2
    return event.message_starts[place] if 0 < place < len(event.message_starts) else None


# Layout.


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    width: float
    part: ContextPart

    @property
    def right(self) -> float:
        return self.left + self.width


@dataclass(frozen=True, slots=True)
class StripLayout:
    """The free room begins at `used`; it isn't to scale if `room_is_cut`."""

    boxes: tuple[Box, ...]
    used: float
    width: float
    room_is_cut: bool

    def place_of(self, token: int) -> float:
        """The x of a token; the end for one past the last part."""
        place = 0.0
        for box in self.boxes:
            if token < box.part.start:
                break
            inside = min(token, box.part.end) - box.part.start
            place = box.left + box.width * inside / (box.part.end - box.part.start)
        return place

    def box_at(self, x: float) -> Box | None:
        return next((box for box in self.boxes if box.left <= x < box.right), None)


def lay_out(parts: Sequence[ContextPart], context_length: int, width: float) -> StripLayout:
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
    return context_length - tokens > MOST_ROOM * tokens > 0


def _widths(parts: Sequence[ContextPart], used: float) -> list[float]:
    """They sum to `used`; too thin ones are widened at the others' cost."""
    thinnest = min(THINNEST, used / len(parts))
    sizes = [part.end - part.start for part in parts]
    thin: set[int] = set()
    while True:
        wide_tokens = sum(size for index, size in enumerate(sizes) if index not in thin)
        per_token = (used - thinnest * len(thin)) / wide_tokens if wide_tokens else 0.0
        # Widening some leaves less for the others, some of which may now be too thin.
        more = {i for i, size in enumerate(sizes) if i not in thin and size * per_token < thinnest}
        if not more:
            return [thinnest if i in thin else size * per_token for i, size in enumerate(sizes)]
        thin |= more


# Words.


def tier_of(part: ContextPart, strip: Strip) -> Fill:
    return part.tier if strip.known else "unknown"


def where_legend(strip: Strip) -> dict[Fill, str]:
    said = _counted_words(
        ((tier_of(part, strip), part) for part in strip.parts),
        {
            "slab": tr("In use now {}"),
            "memory": tr("In memory {}"),
            "disk": tr("On disk {}"),
            "unknown": tr("Not loaded {}"),
        },
    )
    free = strip.context_length - strip.num_tokens
    images = sum(part.kind == "image" for part in strip.parts)
    if strip.parts and free > 0:
        said["room"] = tr("Free {count}").format(count=format_count(free))
    if images:
        said["image"] = count_of(images, "image")
    if strip.checkpoints:
        said["checkpoint"] = count_of(len(strip.checkpoints), "checkpoint")
    if strip.known and any(part.on_disk for part in strip.parts):
        said["kept"] = tr("Also on disk")
    return said


def asked_legend(strip: Strip) -> dict[Fill, str]:
    """Counts only what is read already."""
    read = strip.num_asked if strip.done is None else strip.done
    done = (
        part.model_copy(update={"end": max(part.start, min(part.end, read))})
        if part.source == "evaluated"
        else part
        for part in strip.asked
    )
    names: dict[Fill, str] = {
        "reused": tr("Reused {}"),
        "evaluated": tr("Read {}"),
        "reply": tr("Reply {}"),
    }
    return _counted_words(((part.source, part) for part in done), names)


def part_words(part: ContextPart, strip: Strip) -> str:
    first, last = format_count(part.start), format_count(part.end - 1)
    place = tr("token {first}") if first == last else tr("{first} to {last}")
    tokens = count_of(part.end - part.start, "token")
    kind = tr("Image") if part.kind == "image" else tr("Text")
    lines = [f"{kind}: {tokens} ({place.format(first=first, last=last)})"]
    if strip.done is not None and part.source == "evaluated" and part.end > strip.done:
        return "\n".join([*lines, tr("Still to be read.")])
    where = {
        "slab": tr("In use now."),
        "memory": tr("In memory, ready to be reused."),
        "disk": tr("On disk, loaded when needed."),
        "unknown": tr("Not loaded: the next message loads what is saved and reads the rest."),
    }[tier_of(part, strip)]
    kept = ""
    if strip.known:
        kept = tr("Kept after a restart.") if part.on_disk else tr("Lost at a restart.")
    lines += [f"{where} {kept}".strip(), _use_words(part, strip)]
    return "\n".join(line for line in lines if line)


def describe_strip(strip: Strip) -> str:
    """Sentences for a screen reader."""
    if not strip.parts:
        return tr("The context is empty.")
    words = tr("The context holds {used} of {limit}: {where}.").format(
        used=count_of(strip.num_tokens, "token"),
        limit=format_count(strip.context_length),
        where=", ".join(where_legend(strip).values()),
    )
    asked = ", ".join(asked_legend(strip).values())
    return f"{words} {tr('The last reply: {asked}.').format(asked=asked)}" if asked else words


def _use_words(part: ContextPart, strip: Strip) -> str:
    most = part.end if strip.differs is None else min(part.end, strip.differs)
    sums: dict[str, int] = {}
    for asked in strip.asked:
        shared = min(most, asked.end) - max(part.start, asked.start)
        if shared > 0:
            sums[asked.source] = sums.get(asked.source, 0) + shared
    if list(sums.values()) == [part.end - part.start]:
        return {
            "reused": tr("Reused for the last reply."),
            "evaluated": tr("Read for the last reply."),
            "reply": tr("The last reply itself."),
        }[next(iter(sums))]
    names = {"reused": tr("{} reused"), "evaluated": tr("{} read"), "reply": tr("{} written")}
    counts = ", ".join(names[source].format(format_count(count)) for source, count in sums.items())
    return tr("For the last reply: {counts}.").format(counts=counts) if counts else ""


def _counted_words(
    kinds: Iterable[tuple[Fill, ContextPart]], names: dict[Fill, str]
) -> dict[Fill, str]:
    sums: dict[Fill, int] = {}
    for kind, part in kinds:
        sums[kind] = sums.get(kind, 0) + part.end - part.start
    return {k: name.format(format_count(sums[k])) for k, name in names.items() if k in sums}
