"""The strip in words: its two legends, the hover text of a part, and all of it for a screen reader.

Says slab, memory and disk as a newcomer would: in use now, in memory, on disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from core.api.events import ContextPart
from desktop.item_models.context_view import Strip
from desktop.words.numbers import count_of, format_count

LegendKind = Literal[
    "slab",
    "memory",
    "disk",
    "unknown",
    "room",
    "image",
    "checkpoint",
    "kept",
    "reused",
    "evaluated",
    "reply",
]
_TIERS: dict[LegendKind, str] = {
    "slab": "In use now",
    "memory": "In memory",
    "disk": "On disk",
    "unknown": "Not known yet",
}
_SOURCES: dict[LegendKind, str] = {"reused": "Reused", "evaluated": "Read", "reply": "Reply"}
_PLACES = {
    "slab": "In use now",
    "memory": "In memory, ready to go on from",
    "disk": "On disk, to be fetched when it is needed",
    "unknown": "Where it lies is known once the engine has worked on this chat",
}
_DEEDS = {
    "reused": "Reused for the last reply, not read again.",
    "evaluated": "Read for the last reply.",
    "reply": "The last reply itself.",
}

_DONE = {"reused": "reused", "evaluated": "read", "reply": "written"}


def tier_of(part: ContextPart, strip: Strip) -> LegendKind:
    """Where a part lives."""
    return part.tier if strip.known else "unknown"


def where_legend(strip: Strip) -> dict[LegendKind, str]:
    """The legend of the upper band; only of what it shows."""
    sums = _sums((tier_of(part, strip), part) for part in strip.parts)
    words = {kind: f"{name} {_count(sums, kind)}" for kind, name in _TIERS.items() if kind in sums}
    free = strip.context_length - strip.num_tokens
    images = sum(part.kind == "image" for part in strip.parts)
    if strip.parts and free > 0:
        words["room"] = f"Free {format_count(free)}"
    if images:
        words["image"] = count_of(images, "image").capitalize()
    if strip.checkpoints:
        words["checkpoint"] = count_of(len(strip.checkpoints), "checkpoint")
    if strip.known and any(part.on_disk for part in strip.parts):
        words["kept"] = "Kept on disk too"
    return words


def asked_legend(strip: Strip) -> dict[LegendKind, str]:
    """The legend of the lower band; only of what it shows."""
    sums = _sums((part.source, part) for part in strip.asked)
    return {kind: f"{name} {_count(sums, kind)}" for kind, name in _SOURCES.items() if kind in sums}


def part_words(part: ContextPart, strip: Strip) -> str:
    """What a part is, where it lives and whether a restart keeps it, and what became of it."""
    kind = "Image" if part.kind == "image" else "Text"
    size = count_of(part.end - part.start, "token")
    first, last = format_count(part.start), format_count(part.end - 1)
    place = f"token {first}" if first == last else f"{first} to {last}"
    lines = [f"{kind}: {size} ({place})"]
    if strip.done is not None and part.source == "evaluated" and part.end > strip.done:
        return "\n".join([*lines, "Still to be read."])
    where = _PLACES[tier_of(part, strip)]
    if strip.known:
        where += "; a restart keeps it" if part.on_disk else "; a restart would lose it"
    lines.append(f"{where}.")
    deed = _deed(part, strip)
    return "\n".join([*lines, deed] if deed else lines)


def room_words(strip: Strip, to_scale: bool) -> str:
    """What the strip says where nothing lies."""
    if not strip.parts:
        return "The context is empty."
    free = max(0, strip.context_length - strip.num_tokens)
    return f"Room for {count_of(free, 'more token')}{'' if to_scale else ' (not to scale)'}"


def describe_strip(strip: Strip) -> str:
    """The whole strip in a few sentences."""
    if not strip.parts:
        return "The context is empty."
    used = count_of(strip.num_tokens, "token")
    where = ", ".join(where_legend(strip).values()).lower()
    words = f"The context holds {used} of {format_count(strip.context_length)}: {where}."
    asked = ", ".join(asked_legend(strip).values()).lower()
    return f"{words} The last reply: {asked}." if asked else words


def _deed(part: ContextPart, strip: Strip) -> str:
    """What became of a part in the last request; '' where that was about other tokens."""
    most = part.end if strip.differs is None else min(part.end, strip.differs)
    sums: dict[str, int] = {}
    for asked in strip.asked:
        shared = min(most, asked.end) - max(part.start, asked.start)
        if shared > 0:
            sums[asked.source] = sums.get(asked.source, 0) + shared
    if list(sums.values()) == [part.end - part.start]:
        return _DEEDS[next(iter(sums))]
    words = ", ".join(f"{format_count(count)} {_DONE[source]}" for source, count in sums.items())
    return f"Of these, for the last reply: {words}." if words else ""


def _sums(named: Iterable[tuple[LegendKind, ContextPart]]) -> dict[LegendKind, int]:
    """Tokens by kind."""
    sums: dict[LegendKind, int] = {}
    for kind, part in named:
        sums[kind] = sums.get(kind, 0) + part.end - part.start
    return sums


def _count(sums: dict[LegendKind, int], kind: LegendKind) -> str:
    return format_count(sums[kind])
