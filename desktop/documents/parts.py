"""A document as the model reads it, and the choice of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from core.api.model_info import ModelInfo
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.search.folding import fold
from desktop.store.tables.records import Document

BYTES_PER_TOKEN = 3
_NUMBERS = re.compile(r"\s*\d+(?:\s*[-\u2013]\s*\d+)?(?:\s*[,;]\s*\d+(?:\s*[-\u2013]\s*\d+)?)*\s*")
_RANGE = re.compile(r"(\d+)(?:\s*[-\u2013]\s*(\d+))?")


def prompt_text(document: Document) -> str:
    """The chosen parts are named at the end, so another choice leaves the pages before as they
    were. Any change of this form costs every document another reading."""
    parts, places, count = document.parts, document.places, len(document.parts)
    name = " ".join(document.name.split()).replace('"', "'")
    unit = "Pages" if document.paged else "Parts"
    said = f"[{unit} {ranges(places)} of {count}]\n" if document.chosen is not None else ""
    if document.paged:
        said = said or f"[Pages: {count}]\n"
        text = "\n\n".join(f"[Page {place + 1}]\n{parts[place]}" for place in places)
    else:
        text = "".join(_with_gaps(parts, places))
    return f'<document name="{name}">\n{text.strip()}\n{said}</document>'


def _with_gaps(parts: Sequence[str], places: Sequence[int]) -> Iterator[str]:
    following = 0
    for place in places:
        if place != following:
            yield "[...]\n"
        yield parts[place]
        following = place + 1
    if following < len(parts):
        yield "\n[...]"


def ranges(places: Sequence[int]) -> str:
    """Places from 0 as numbers from 1: 1, 3-7."""
    found: list[list[int]] = []
    for place in places:
        if found and place == found[-1][1] + 1:
            found[-1][1] = place
        else:
            found.append([place, place])
    return ", ".join(
        str(first + 1) if first == last else f"{first + 1}-{last + 1}" for first, last in found
    )


def numbered(query: str, count: int) -> tuple[int, ...] | None:
    """Places that a query like `3-7, 12` names; None unless it is numbers up to `count`."""
    if not _NUMBERS.fullmatch(query):
        return None
    places: set[int] = set()
    for first, last in _RANGE.findall(query):
        # Python refuses to read numbers of thousands of digits.
        if max(len(first), len(last)) > 9:
            return None
        begin, end = int(first), int(last or first)
        if not 1 <= begin <= end <= count:
            return None
        places.update(range(begin - 1, end))
    return tuple(sorted(places))


def matches(text: str, terms: Sequence[str]) -> int:
    """How often the folded terms occur; 0 unless all do."""
    folded = fold(text)
    counts = [folded.count(term) for term in terms]
    return sum(counts) if counts and all(counts) else 0


def best_that_fit(found: Mapping[int, int], sizes: Sequence[int], room: int) -> tuple[int, ...]:
    """The places with most matches whose sizes fit into `room`."""
    chosen: list[int] = []
    for place in sorted(found, key=lambda place: (-found[place], place)):
        if sizes[place] <= room:
            chosen.append(place)
            room -= sizes[place]
    return tuple(sorted(chosen))


def estimated_tokens(document: Document) -> int:
    if document.tokens is not None:
        return document.tokens
    return len(prompt_text(document).encode()) // BYTES_PER_TOKEN


def has_text(document: Document) -> bool:
    return any(document.parts[place].strip() for place in document.places)


def not_sendable(documents: Sequence[Document], model: ModelInfo | None) -> str:
    """Only a `model` of this computer has a limit."""
    for each in documents:
        if not has_text(each):
            words = tr("{name} has no text to read. Add its pages as pictures, or remove it.")
            return words.format(name=each.name)
    tokens = sum(each.tokens or 0 for each in documents)
    if model is None or tokens < model.context_length:
        return ""
    longest = max(documents, key=estimated_tokens)
    words = tr(
        "Not sent, and nothing was cut off: the documents have {tokens} tokens, and the context "
        "holds {limit}. Press {name} to choose the parts to read, or load the model with a longer "
        "context."
    )
    return words.format(
        tokens=format_count(tokens), limit=format_count(model.context_length), name=longest.name
    )
