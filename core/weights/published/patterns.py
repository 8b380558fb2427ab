"""Regular expressions from a model folder, matched in bounded time.

Python's own matcher goes back over every way a pattern could fit, and one such as `(\\w+\\.?)+X`
would hold up the engine for ever. This one walks all ways at once: each construct maps the places
where a match may stand to the places where it may stand afterwards. It knows what lists of layers
are written in: literals, classes, groups, alternatives, repeats, anchors and looks ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError

MAX_LENGTH = 1_000
MAX_REPEATS = 256
MAX_DEPTH = 20
# Places looked at by one pattern, over all layers: about a second. Ordinary ones take a hundredth.
MAX_STEPS = 2_000_000
_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACE = frozenset(" \t\n\r\f\v")
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_SPECIAL = frozenset(".^$*+?{}[]\\|()")

Places = Set[int]
Step = Callable[[str, Places], Places]
Test = Callable[[str], bool]


@dataclass(slots=True)
class Pattern:
    """A pattern that `matches` from the start of a text, and not necessarily to its end.

    Raises UnsupportedQuantisationError for one that can't be read.
    """

    source: str
    _steps: int = field(default=0, init=False)
    _start: Step = field(init=False)

    def __post_init__(self) -> None:
        if len(self.source) > MAX_LENGTH:
            raise UnsupportedQuantisationError("A pattern in quantization_config is too long.")
        self._start = _Parser(self.source, self._count).whole()

    def matches(self, text: str) -> bool:
        """Whether `text` begins with what the pattern describes, as Python's re.match has it.

        Raises BrokenConfigError for a pattern that takes too long.
        """
        return bool(self._start(text, {0}))

    def _count(self, places: Places) -> None:
        self._steps += 1 + len(places)
        if self._steps > MAX_STEPS:
            raise BrokenConfigError(
                f"A pattern in quantization_config takes too long: {self.source[:80]}"
            )


class _Parser:
    """Recursive descent over a pattern; every method leaves `at` behind what it has read."""

    def __init__(self, source: str, count: Callable[[Places], None]) -> None:
        self.source, self.at, self.depth, self.count = source, 0, 0, count

    def whole(self) -> Step:
        step = self.alternatives()
        if self.at < len(self.source):
            raise self.unreadable()
        return step

    def alternatives(self) -> Step:
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else _any_of(branches)

    def sequence(self) -> Step:
        steps = []
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            steps.append(self.repeated())
        return _one_after_another(steps)

    def repeated(self) -> Step:
        start = self.at
        step = self.single()
        looks = self.source[start] in "^$" or self.source.startswith(("(?=", "(?!"), start)
        low, high = self.repeats()
        if (low, high) == (1, 1):
            return step
        self.take("?")  # how greedy it is decides which match is found, not whether there is one
        if looks or (self.at < len(self.source) and self.source[self.at] in "*+?{"):
            raise self.unreadable()
        return _repeat(step, low, high, self.count)

    def repeats(self) -> tuple[int, int | None]:
        for mark, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.take(mark):
                return low, high
        return self.counted() if self.take("{") else (1, 1)

    def counted(self) -> tuple[int, int | None]:
        """`{2}`, `{2,}` or `{2,4}`, after its first brace."""
        end = self.source.find("}", self.at)
        least, comma, most = self.source[self.at : max(end, self.at)].partition(",")
        self.at = end + 1
        numbers = (least, most or least)
        if end < 0 or not all(each.isascii() and each.isdigit() for each in numbers):
            raise self.unreadable()
        low, high = (int(each[:9]) for each in numbers)
        if high < low or high > MAX_REPEATS:
            raise self.unreadable()
        return low, None if comma and not most else high

    def single(self) -> Step:
        character = self.source[self.at]
        self.at += 1
        if character == "(":
            return self.group()
        if character == "[":
            return self.step(self.character_class())
        if character == "\\":
            return self.step(_among(self.escaped()))
        if character == ".":
            return self.step(lambda found: found != "\n")
        if character == "^":
            return lambda text, places: {0} & places
        if character == "$":
            return lambda text, places: {len(text)} & places
        if character in _SPECIAL:
            raise self.unreadable()
        return self.step(_among(frozenset(character)))

    def group(self) -> Step:
        kind = next((each for each in ("?:", "?=", "?!") if self.take(each)), "")
        if not kind and self.take("?"):
            raise self.unreadable()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.unreadable()
        step = self.alternatives()
        self.depth -= 1
        if not self.take(")"):
            raise self.unreadable()
        if kind in ("?=", "?!"):
            return _look_ahead(step, wanted=kind == "?=")
        return step

    def escaped(self) -> frozenset[str]:
        """The characters that the escape at `at` stands for."""
        letter = self.source[self.at : self.at + 1]
        self.at += 1
        if letter in _CLASSES:
            return _CLASSES[letter]
        if not letter or letter.isalnum() or not letter.isascii():
            raise self.unreadable()
        return frozenset(letter)

    def character_class(self) -> Test:
        negated = self.take("^")
        members: set[str] = set()
        first = True
        while first or not self.take("]"):
            if self.at >= len(self.source):
                raise self.unreadable()
            low = self.member()
            if self.source[self.at : self.at + 1] == "-" and self.source[self.at + 1 :][:1] != "]":
                self.at += 1
                members |= self.span(low, self.member())
            else:
                members |= low
            first = False
        return _outside(frozenset(members)) if negated else _among(frozenset(members))

    def member(self) -> frozenset[str]:
        if self.take("\\"):
            return self.escaped()
        letter = self.source[self.at : self.at + 1]
        self.at += 1
        if not letter or letter == "[":
            raise self.unreadable()
        return frozenset(letter)

    def span(self, low: frozenset[str], high: frozenset[str]) -> set[str]:
        """Every character from `low` to `high`."""
        if len(low) != 1 or len(high) != 1:
            raise self.unreadable()
        first, last = ord(min(low)), ord(min(high))
        if not first <= last < 128:
            raise self.unreadable()
        return {chr(code) for code in range(first, last + 1)}

    def take(self, text: str) -> bool:
        """Go past `text` if it comes next."""
        found = self.source.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def step(self, test: Test) -> Step:
        """One character that passes `test`."""

        def step(text: str, places: Places) -> Places:
            self.count(places)
            return {place + 1 for place in places if place < len(text) and test(text[place])}

        return step

    def unreadable(self) -> UnsupportedQuantisationError:
        return UnsupportedQuantisationError(
            f"Waymark can't read the pattern {self.source[:80]!r} in quantization_config."
        )


def _among(members: frozenset[str]) -> Test:
    return lambda found: found in members


def _outside(members: frozenset[str]) -> Test:
    return lambda found: found not in members


def _one_after_another(steps: list[Step]) -> Step:
    def step(text: str, places: Places) -> Places:
        for each in steps:
            if not places:
                break
            places = each(text, places)
        return places

    return step


def _any_of(branches: list[Step]) -> Step:
    def step(text: str, places: Places) -> Places:
        return set[int]().union(*(each(text, places) for each in branches))

    return step


def _repeat(inner: Step, low: int, high: int | None, count: Callable[[Places], None]) -> Step:
    def step(text: str, places: Places) -> Places:
        for _ in range(low):
            count(places)
            if not places:
                return places
            places = inner(text, places)
        seen, edge, left = set(places), places, high
        # Ends at the latest when every place of the text has been seen.
        while edge and (left is None or left > low):
            count(edge)
            edge = inner(text, edge) - seen
            seen |= edge
            left = None if left is None else left - 1
        return seen

    return step


def _look_ahead(inner: Step, *, wanted: bool) -> Step:
    def step(text: str, places: Places) -> Places:
        return {place for place in places if bool(inner(text, {place})) is wanted}

    return step
