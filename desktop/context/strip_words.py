"""The strip in words: its legend, the hover text of a part, and all of it for a screen reader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from core.api.stats import ContextPart
from desktop.context.context_view import Strip
from desktop.numbers import count_of, format_count
from desktop.words import context as words

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
    "slab": words.IN_USE,
    "memory": words.IN_MEMORY,
    "disk": words.ON_DISK,
    "unknown": words.NOT_LOADED,
}
_SOURCES: dict[LegendKind, str] = {
    "reused": words.REUSED,
    "evaluated": words.READ,
    "reply": words.REPLY,
}


def tier_of(part: ContextPart, strip: Strip) -> LegendKind:
    """Where a part lives."""
    return part.tier if strip.known else "unknown"


def where_legend(strip: Strip) -> dict[LegendKind, str]:
    """The legend of the upper band; only of what it shows."""
    sums = _sums((tier_of(part, strip), part) for part in strip.parts)
    said = {kind: f"{name} {_count(sums, kind)}" for kind, name in _TIERS.items() if kind in sums}
    free = strip.context_length - strip.num_tokens
    images = sum(part.kind == "image" for part in strip.parts)
    if strip.parts and free > 0:
        said["room"] = words.free_words(free)
    if images:
        said["image"] = count_of(images, "image").capitalize()
    if strip.checkpoints:
        said["checkpoint"] = count_of(len(strip.checkpoints), "checkpoint")
    if strip.known and any(part.on_disk for part in strip.parts):
        said["kept"] = words.KEPT_TOO
    return said


def asked_legend(strip: Strip) -> dict[LegendKind, str]:
    """The legend of the lower band; only of what it shows, and of what is read already."""
    read = strip.num_asked if strip.done is None else strip.done
    done = [
        part.model_copy(update={"end": max(part.start, min(part.end, read))})
        if part.source == "evaluated"
        else part
        for part in strip.asked
    ]
    sums = _sums((part.source, part) for part in done)
    return {kind: f"{name} {_count(sums, kind)}" for kind, name in _SOURCES.items() if kind in sums}


def part_words(part: ContextPart, strip: Strip) -> str:
    """What a part is, where it lives and whether a restart keeps it, and what became of it."""
    lines = [words.part_words(part.kind == "image", part.start, part.end)]
    if strip.done is not None and part.source == "evaluated" and part.end > strip.done:
        return "\n".join([*lines, words.TO_BE_READ])
    where = words.PLACES[tier_of(part, strip)]
    if strip.known:
        where += f"; {words.RESTART_KEEPS if part.on_disk else words.RESTART_LOSES}"
    lines.append(f"{where}.")
    deed = _deed(part, strip)
    return "\n".join([*lines, deed] if deed else lines)


def describe_strip(strip: Strip) -> str:
    """The whole strip in a few sentences."""
    if not strip.parts:
        return words.EMPTY
    where = ", ".join(where_legend(strip).values()).lower()
    asked = ", ".join(asked_legend(strip).values()).lower()
    return words.strip_words(strip.num_tokens, strip.context_length, where, asked)


def _deed(part: ContextPart, strip: Strip) -> str:
    """What became of a part in the last request; '' where that was about other tokens."""
    most = part.end if strip.differs is None else min(part.end, strip.differs)
    sums: dict[str, int] = {}
    for asked in strip.asked:
        shared = min(most, asked.end) - max(part.start, asked.start)
        if shared > 0:
            sums[asked.source] = sums.get(asked.source, 0) + shared
    if list(sums.values()) == [part.end - part.start]:
        return words.DEEDS[next(iter(sums))]
    return words.partly_words(sums)


def _sums(named: Iterable[tuple[LegendKind, ContextPart]]) -> dict[LegendKind, int]:
    """Tokens by kind."""
    sums: dict[LegendKind, int] = {}
    for kind, part in named:
        sums[kind] = sums.get(kind, 0) + part.end - part.start
    return sums


def _count(sums: dict[LegendKind, int], kind: LegendKind) -> str:
    return format_count(sums[kind])
