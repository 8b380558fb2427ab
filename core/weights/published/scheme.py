"""`quantization_config` of config.json: the format, and the modules that were not quantised.

Older exports of ModelOpt say this in a file of their own.

Modules are listed by name or by regular expression. Python's own matcher can take for ever over
`(\\w+\\.?)+X`, and nothing can interrupt it. So repetitions and alternatives are followed here, all
ways at once, in a time bounded by the lengths of pattern and name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from re import _compiler as compiler  # type: ignore[attr-defined] # private: has no stubs
from re import _parser as parser  # type: ignore[attr-defined] # the only parser of `re` patterns
from typing import Any

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError
from core.weights.published.fields import READERS, Fields
from core.weights.published.formats import Float4Format, Format

MAX_LENGTH = 1_000
MOST = 200
# The names of layers are the families' own, and shorter.
_MOST_CHARACTERS = 200
# Nested repetitions: each level may go through the whole name for each character.
_MOST_REPEATS = 3
_MOST_LEVELS = 30
# ModelOpt's file. A folder's config has its contents under this key.
MODELOPT = "hf_quant_config.json"
# Levels of a model that lists of modules may leave out: the same layer is `layers.0.mlp` under
# `model`, `language_model`, `model.language_model` or nothing.
_ROOTS = ("model.", "language_model.")

# From a name and the places where a part of a pattern may begin to those where it may end. Places
# are bits of a number: bit 0 is before the first character.
_Step = Callable[[str, int], int]


@dataclass(frozen=True, slots=True)
class Scheme:
    format: Format | Float4Format
    names: frozenset[str] = frozenset()
    patterns: Patterns = field(default_factory=lambda: Patterns([]))
    source: str = ""
    """The place that says so, for messages."""

    def leaves_out(self, module: str) -> bool:
        levels = _from_root(module).split(".")
        ends = range(1, len(levels) + 1)
        found = (".".join(levels[start:end]) for end in ends for start in range(end))
        return not self.names.isdisjoint(found) or self.patterns.match(module)


def read_scheme(
    config: Mapping[str, Any], check: Callable[[], None] = lambda: None
) -> Scheme | None:
    """None for plain weights. Raises BrokenConfigError, UnsupportedQuantisationError."""
    fields = _find(config)
    if fields is None:
        return None
    method = fields.word("quant_method")
    reader = READERS.get(method)
    if reader is None:
        raise UnsupportedQuantisationError(
            f'The weights are quantised as "{method[:40]}". Waymark reads plain weights and: '
            f"{', '.join(READERS)}."
        )
    listed = fields.names("modules_to_not_convert", "ignored_layers")
    listed += fields.names("ignore", "exclude_modules")
    sources = [name.removeprefix("re:") for name in listed if name.startswith("re:")]
    if method == "gptq":
        dynamic = fields.section("dynamic").sections()
        sources += [key.removeprefix("-:") for key, _ in dynamic if key.startswith("-:")]
    names = (_from_root(name) for name in listed if not name.startswith("re:"))
    return Scheme(
        format=reader(fields),
        names=frozenset(name for name in names if name),
        patterns=Patterns(sources, check),
        source=fields.name,
    )


def announced(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The objects of config.json that describe quantised weights, with their keys."""
    text = config.get("text_config")
    places = [("quantization_config", config), ("compression_config", config)]
    if isinstance(text, dict):
        places.append(("quantization_config", text))
    return [(key, values[key]) for key, values in places if values.get(key) not in (None, {})]


def _find(config: Mapping[str, Any]) -> Fields | None:
    found = announced(config)
    if any(values != found[0][1] for _, values in found):
        raise BrokenConfigError('config.json has two "quantization_config" that differ.')
    if found:
        return Fields(found[0][1], found[0][0])
    if MODELOPT not in config:
        return None
    values = Fields(config[MODELOPT], MODELOPT).get("quantization")
    if isinstance(values, dict):
        values = {**values, "quant_method": "modelopt"}
    fields = Fields(values, "quantization", MODELOPT)
    # A folder whose KV cache alone is to be quantised names no algorithm for weights.
    return None if fields.get("quant_algo") is None else fields


def _from_root(name: str) -> str:
    name = name.strip(".").removesuffix(".weight")
    while name.startswith(_ROOTS):
        name = name.partition(".")[2]
    return name


class Patterns:
    """Match from the start of a name, like re.match.

    Raises UnsupportedQuantisationError for one that can't be read, BrokenConfigError for too many.
    """

    def __init__(self, sources: Sequence[str], check: Callable[[], None] = lambda: None) -> None:
        """`check` is called before each pattern is read and each name compared."""
        if len(sources) > MOST:
            raise BrokenConfigError(f"quantization_config has {len(sources)} patterns.")
        if any(len(source) > MAX_LENGTH for source in sources):
            raise UnsupportedQuantisationError("A pattern in quantization_config is too long.")
        self._check = check
        self._steps = [self._read(source) for source in sources]
        self._known: dict[str, bool] = {}

    def match(self, name: str) -> bool:
        if name not in self._known:
            if len(name) > _MOST_CHARACTERS:
                raise BrokenConfigError("A layer's name is too long for quantization_config.")
            self._known[name] = any(self._matches(step, name) for step in self._steps)
        return self._known[name]

    def _matches(self, step: _Step, name: str) -> bool:
        self._check()
        return bool(step(name, 1))

    def _read(self, source: str) -> _Step:
        self._check()
        try:
            parsed = parser.parse(source)
            if not parsed.state.flags & ~re.UNICODE:
                return _sequence(parsed, _MOST_REPEATS, _MOST_LEVELS)
        except (ValueError, re.error, OverflowError, RecursionError):
            pass
        raise UnsupportedQuantisationError(
            f"A pattern in quantization_config can't be read: {source[:80]}"
        )


def _sequence(nodes: Iterable[tuple[Any, Any]], repeats: int, levels: int) -> _Step:
    """Raises ValueError beyond so many nested repetitions and levels."""
    if not levels:
        raise ValueError("nested too deeply")
    steps = [_step(kind, detail, repeats, levels - 1) for kind, detail in nodes]

    def follow(name: str, places: int) -> int:
        for step in steps:
            if not places:
                break
            places = step(name, places)
        return places

    return follow


def _step(kind: Any, detail: Any, repeats: int, levels: int) -> _Step:
    """Raises ValueError for a kind that isn't followed."""
    match str(kind):
        case "LITERAL":
            character = chr(detail)
            return lambda name, places: (
                _filter(name, places, lambda at: name[at : at + 1] == character) << 1
            )
        case "NOT_LITERAL" | "ANY" | "IN" | "AT" as leaf:
            alone = parser.SubPattern(parser.State(), [(kind, detail)])
            matches, width = compiler.compile(alone, re.UNICODE).match, int(leaf != "AT")
            return lambda name, places: _filter(name, places, lambda at: matches(name, at)) << width
        case "BRANCH":
            options = [_sequence(each, repeats, levels) for each in detail[1]]
            return lambda name, places: reduce(or_, (each(name, places) for each in options))
        case "SUBPATTERN" if not detail[1] and not detail[2]:
            return _sequence(detail[3], repeats, levels)
        case "ASSERT" | "ASSERT_NOT" as ahead if detail[0] == 1:
            inner, wanted = _sequence(detail[1], repeats, levels), ahead == "ASSERT"
            return lambda name, places: _filter(
                name, places, lambda at: bool(inner(name, 1 << at)) == wanted
            )
        case "MAX_REPEAT" | "MIN_REPEAT" if repeats:
            least, most, nodes = detail
            return _repeated(least, most, _sequence(nodes, repeats - 1, levels))
    raise ValueError(f"{kind} isn't followed")


def _filter(name: str, places: int, wanted: Callable[[int], object]) -> int:
    return sum(1 << at for at in range(len(name) + 1) if places >> at & 1 and wanted(at))


def _repeated(least: int, most: int, step: _Step) -> _Step:
    def follow(name: str, places: int) -> int:
        for _ in range(least):
            before, places = places, step(name, places)
            if places in (before, 0):
                break  # further repetitions change nothing
        found = places
        for _ in range(most - least):
            places = step(name, places) & ~found
            if not places:
                break
            found |= places
        return found

    return follow
