"""The regular expressions with which a config names layers, followed without backtracking.

Python's own matcher can be made to take for ever, by a pattern such as `(\\w+\\.?)+X`, and nothing
can interrupt it. Here all ways through a pattern are followed at once: a part of it turns the
places where it may begin into those where it may end, so the lengths of both bound the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError

MAX_LENGTH = 1_000
MOST = 200
# The names of layers are the families' own, and shorter.
_MOST_CHARACTERS = 200
# Repetitions within repetitions: each level may go through the whole name for each character.
_MOST_REPEATS = 3
_MOST_LEVELS = 30

_Node = tuple[Any, Any]


class Patterns:
    """Patterns that match from the start of a name, as Python's re.match has it.

    Raises UnsupportedQuantisationError for one that can't be read, BrokenConfigError for too many.
    """

    def __init__(self, sources: Sequence[str], check: Callable[[], None] = lambda: None) -> None:
        """`check` is asked before each pattern that a name is compared with, and may raise."""
        if len(sources) > MOST:
            raise BrokenConfigError(f"quantization_config has {len(sources)} patterns.")
        if any(len(source) > MAX_LENGTH for source in sources):
            raise UnsupportedQuantisationError("A pattern in quantization_config is too long.")
        self._parsed = [_parsed(source) for source in sources]
        self._check = check
        self._known: dict[str, bool] = {}

    def match(self, name: str) -> bool:
        """Whether any of them matches."""
        if name not in self._known:
            if len(name) > _MOST_CHARACTERS:
                raise BrokenConfigError("A layer's name is too long for quantization_config.")
            self._known[name] = any(self._matches(nodes, name) for nodes in self._parsed)
        return self._known[name]

    def _matches(self, nodes: list[_Node], name: str) -> bool:
        self._check()
        return _Matching(name).matches(nodes)


def _parsed(source: str) -> list[_Node]:
    """The parts of a pattern, checked to be of kinds that `_Matching` follows."""
    unreadable = UnsupportedQuantisationError(
        f"A pattern in quantization_config can't be read: {source[:80]}"
    )
    try:
        parsed = parser.parse(source)
    except (re.error, OverflowError, RecursionError):
        raise unreadable from None
    if parsed.state.flags & ~re.UNICODE or not _followed(parsed, _MOST_REPEATS, _MOST_LEVELS):
        raise unreadable
    return list(parsed)


def _followed(nodes: Iterable[_Node], repeats: int, levels: int) -> bool:
    """True if every part is of a kind that `_Matching` knows, no more than `levels` deep, with no
    more than `repeats` repetitions one within the other."""
    if not levels:
        return False
    for kind, detail in nodes:
        inner: Sequence[Iterable[_Node]]
        left = repeats
        match str(kind):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT":
                inner = ()
            case "BRANCH":
                inner = detail[1]
            case "MAX_REPEAT" | "MIN_REPEAT" if repeats:
                inner, left = (detail[2],), repeats - 1
            case "SUBPATTERN" if not detail[1] and not detail[2]:
                inner = (detail[3],)
            case "ASSERT" | "ASSERT_NOT" if detail[0] == 1:
                inner = (detail[1],)
            case _:
                return False
        if not all(_followed(each, left, levels - 1) for each in inner):
            return False
    return True


class _Matching:
    """One name. Places in it are bits of a number: bit 0 is before its first character."""

    def __init__(self, name: str) -> None:
        self._name = name

    def matches(self, nodes: Sequence[_Node]) -> bool:
        """True if these parts, one after the other, match from the start."""
        return bool(self._ends(nodes, 1))

    def _ends(self, nodes: Iterable[_Node], places: int) -> int:
        """The places where these parts may end, in sequence, if they begin at any of `places`."""
        for kind, detail in nodes:
            if not places:
                break
            places = self._ends_of(str(kind), detail, places)
        return places

    def _ends_of(self, kind: str, detail: Any, places: int) -> int:
        match kind:
            case "AT":
                return self._those(places, lambda place: self._is_at(str(detail), place))
            case "BRANCH":
                return reduce(or_, (self._ends(each, places) for each in detail[1]))
            case "SUBPATTERN":
                return self._ends(detail[3], places)
            case "ASSERT":
                return self._those(places, lambda place: bool(self._ends(detail[1], 1 << place)))
            case "ASSERT_NOT":
                return self._those(places, lambda place: not self._ends(detail[1], 1 << place))
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeated(detail, places)
        name = self._name
        fits = self._those(
            places, lambda place: place < len(name) and _fits(kind, detail, name[place])
        )
        return fits << 1

    def _those(self, places: int, wanted: Callable[[int], bool]) -> int:
        """The places of these that are wanted."""
        return sum(
            1 << place
            for place in range(len(self._name) + 1)
            if places >> place & 1 and wanted(place)
        )

    def _repeated(self, detail: Any, places: int) -> int:
        least, most, nodes = detail
        for _ in range(least):
            before, places = places, self._ends(nodes, places)
            if places in (before, 0):
                break  # and so it goes on
        found = places
        for _ in range(most - least):
            places = self._ends(nodes, places) & ~found
            if not places:
                break
            found |= places
        return found

    def _is_at(self, where: str, place: int) -> bool:
        before, after = self._name[max(place - 1, 0) : place], self._name[place:]
        match where:
            case "AT_BEGINNING" | "AT_BEGINNING_STRING":
                return place == 0
            case "AT_END":
                return after in ("", "\n")
            case "AT_END_STRING":
                return not after
        return (_is_word(before) != _is_word(after[:1])) == (where == "AT_BOUNDARY")


def _fits(kind: str, detail: Any, character: str) -> bool:
    """True if a part that is one character long is this one."""
    match kind:
        case "LITERAL":
            return bool(detail == ord(character))
        case "NOT_LITERAL":
            return bool(detail != ord(character))
        case "ANY":
            return character != "\n"
    negated = str(detail[0][0]) == "NEGATE"
    return any(_is_one_of(str(kind), each, character) for kind, each in detail) != negated


def _is_one_of(kind: str, detail: Any, character: str) -> bool:
    match kind:
        case "NEGATE":
            return False
        case "LITERAL":
            return bool(detail == ord(character))
        case "RANGE":
            return bool(detail[0] <= ord(character) <= detail[1])
    _, negation, category = str(detail).rpartition("NOT_")
    found = {
        "DIGIT": character.isdecimal(),
        "SPACE": character.isspace(),
        "WORD": _is_word(character),
    }[category.removeprefix("CATEGORY_")]
    return found != bool(negation)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
