"""Messages of llguidance and jsonschema as sentences for a person."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from core.api.reply_format import ReplyFormat

_UNKNOWN = re.compile(r"Unimplemented keys: (\[.*?\])")
_PLACE = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")
_REGEX = re.compile(r"regex parse error:.*^error: ([^\n]+)", re.DOTALL | re.MULTILINE)
_LONGEST = 300
_VALUES = ("const", "enum", "default", "examples")
# What llguidance says, and which keywords that is about.
_ABOUT = (
    ("oneOf constraints", "oneOf", "its alternatives can't be told apart"),
    ("Unknown format: ", "format", ""),
    ("not present in a registry", "$ref or $schema", "only the schema itself is read"),
    ("Pointer ", "$ref", ""),
    ("circular references", "$ref", ""),
    ("Anchor ", "$ref", ""),
    ("patternProperty regexes", "patternProperties", ""),
    ("Failed to generate regex for", "minimum or maximum", ""),
    ("required property", "required", ""),
    ("Regex is empty", "pattern or format", "no string has what is asked for"),
    ("anyOf is empty", "anyOf or enum", ""),
    ("incompatible types", "type", ""),
    ("integer interval", "minimum or maximum", ""),
    ("required item", "items or minItems", ""),
)


def explained(error: str, form: ReplyFormat) -> str:
    """A sentence with the keyword, or the place, that is to blame."""
    if form.kind == "json_schema":
        return _of_schema(error, form)
    if error.startswith("NoExtension") or not error:
        return "No text has this form."
    found = _REGEX.search(error)
    if form.kind == "regex":
        return f"The regular expression can't be used: {found[1] if found else _plain(error)}."
    at = _PLACE.match(error)
    where = f" at line {at[1]}, column {at[2]}" if at else ""
    return f"The grammar can't be used{where}: {found[1] if found else _plain(error)}."


def place(path: Iterable[object]) -> str:
    """A place in JSON as a pointer."""
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return "/".join(("#", *escaped))


def parts_of(schema: Any) -> Iterator[tuple[object, Any]]:
    """The members of a schema, or of a list or object of schemas; values that it names are none."""
    if isinstance(schema, dict):
        yield from ((key, part) for key, part in schema.items() if key not in _VALUES)
    elif isinstance(schema, list):
        yield from enumerate(schema)


def _of_schema(error: str, form: ReplyFormat) -> str:
    if error.startswith("NoExtension") or not error:
        return "No JSON fits the schema: a $ref in it leads back to itself, or nothing is left."
    unknown = _UNKNOWN.search(error)
    if unknown:
        names = json.loads(unknown[1])
        found = next(_places(json.loads(form.text), names[0]), ())
        listed = " and ".join(names)
        return f"{listed} at {place(found)} can't be enforced while a reply is written."
    pattern = _REGEX.search(error)
    if pattern:
        return f"A pattern (or patternProperties) can't be used: {pattern[1]}."
    for said, keyword, meaning in _ABOUT:
        if said in error:
            return f"{keyword} can't be used as it stands here: {meaning or _plain(error)}."
    return f"The schema can't be used: {_plain(error)}."


def _places(part: Any, name: str, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Where objects have `name` as a keyword; as a property's name it is none."""
    if isinstance(part, dict) and name in part and path[-1:] != ("properties",):
        yield path
    for key, each in parts_of(part):
        yield from _places(each, name, (*path, key))


def _plain(error: str) -> str:
    """llguidance's first line, without the place in a grammar that nobody wrote."""
    first = _PLACE.sub("", error.splitlines()[0]) if error else ""
    for opening in ("failed to compile JSON schema: ", "Unsatisfiable schema: "):
        first = first.removeprefix(opening)
    first = first.removesuffix(".")
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]} ..."
