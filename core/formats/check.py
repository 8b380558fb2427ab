"""Checks formats before use, and finished replies against them, in a helper process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from core.api.json_text import json_fault, json_pointer
from core.api.reply_format import CallFormat, ReplyFormat
from core.client.codec import Fields
from core.formats.grammar import grammar, schema_of
from core.helper.process import Helper, HelperFailedError

Check = Callable[[], None]

# Formats that people write are compiled in 10 ms and 50 MB.
COMPILE_S = 5.0
CHECK_S = 2.0
MEMORY_BYTES = 1 * 2**30
_FAILED = {
    "started": "The process that looks at formats could not be started.",
    "time": "The format is too involved: making it ready takes too long.",
    "ended": "The format is too involved: making it ready takes too much memory.",
}
_UNCHECKED = {
    "started": "The process that checks replies could not be started.",
    "time": f"It couldn't be checked in {CHECK_S:g} s.",
    "ended": "Checking it takes too much memory.",
    "memory": "Checking it takes too much memory.",
}
_INVOLVED = "It is too involved to be checked."
# In a Lark grammar what is neither quoted nor a comment may name a control token.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*')

_UNKNOWN = re.compile(r"Unimplemented keys: (\[.*?\])")
_AT = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")
_REGEX = re.compile(r"regex parse error:.*^error: ([^\n]+)", re.DOTALL | re.MULTILINE)
# The expression and a mark below the place, both indented by four spaces.
_MARKED = re.compile(r"^ {4}(.*)\n {4}( *)\^", re.MULTILINE)
_PREFIX = re.compile(r'^invalid regex ".*" \(in regex\): ')
_LONGEST = 300
_VALUES = ("const", "enum", "default", "examples")
# Parts of llguidance's messages, and the keywords that they are about.
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

_MOST_REMEMBERED = 64
_remembered: dict[ReplyFormat, str] = {}
# Starting a process takes longer than most checks of replies, so this one stays.
_checks = Helper(MEMORY_BYTES)


class NotCheckedError(Exception): ...


def refusal(form: ReplyFormat, check: Check | None = None) -> str:
    """Why `form` can't be used, a sentence with the keyword or the place; "" if it can."""
    found = _remembered.get(form)
    if found is None:
        try:
            found = _refusal(form, check)
        except HelperFailedError as failure:
            return _FAILED.get(failure.reason, _FAILED["ended"])
        _remembered[form] = found
        for oldest in list(_remembered)[:-_MOST_REMEMBERED]:
            _remembered.pop(oldest, None)
    return found


def fault(form: ReplyFormat, text: str, check: Check | None = None) -> str:
    """Why a finished reply doesn't match its format, or the format can't be used; "" if it does.

    Raises NotCheckedError beyond CHECK_S or MEMORY_BYTES.
    """
    reason = refusal(form, check)
    if reason:
        return reason
    if form.kind == "choice":
        return "" if text in form.choices else "It is none of the choices."
    try:
        if form.kind in ("json", "json_schema"):
            return _fault_of_json(form, text, check)
        fields = {"grammar": grammar(form)}
        if _checked("grammar.derives", fields, text, check)["derives"]:
            return ""
    except HelperFailedError as failure:
        raise NotCheckedError(_UNCHECKED.get(failure.reason, _INVOLVED)) from None
    named = "the regular expression" if form.kind == "regex" else "the grammar"
    return f"It doesn't match {named} as a whole."


def _checked(task: str, fields: Fields, text: str, check: Check | None) -> Fields:
    spelled = text.encode("utf-8", "replace")
    return _checks.ask(task, fields, spelled, seconds=CHECK_S, check=check)[0]


def _fault_of_json(form: ReplyFormat, text: str, check: Check | None) -> str:
    schema = form.text if form.kind == "json_schema" else "{}"
    answer = _checked("schema.violation", {"schema": schema}, text, check)
    if answer["unchecked"]:
        raise NotCheckedError(answer["unchecked"])
    return str(answer["fault"])


def _refusal(form: ReplyFormat, check: Check | None) -> str:
    reason = _obstacle(form)
    if reason:
        return reason
    # Compiling can leave a process large, so each format has one of its own.
    helper = Helper(MEMORY_BYTES)
    try:
        if form.kind == "json_schema":
            reason = _schema_obstacle(form, helper, check)
            if reason:
                return reason
        try:
            text = grammar(form).encode()
        except RecursionError:
            return _FAILED["ended"]
        answer, _ = helper.ask("grammar.compile", {}, text, seconds=COMPILE_S, check=check)
    finally:
        helper.close()
    broken = answer["broken"]
    return "" if broken is None else _explained(broken, form)


def _obstacle(form: ReplyFormat) -> str:
    if form.kind == "calls":
        return _calls_obstacle(form)
    if form.kind == "choice":
        return "" if form.choices else "There is nothing to choose from: name a choice."
    if form.kind == "json":
        return ""
    if not form.text.strip():
        names = {"json_schema": "schema", "regex": "regular expression", "lark": "grammar"}
        return f"The {names[form.kind]} is empty."
    if form.kind == "lark" and "<" in _QUOTED.sub("", form.text):
        return "The grammar names control tokens (<...>), which no reply may hold."
    return ""


def _calls_obstacle(form: ReplyFormat) -> str:
    try:
        calls = CallFormat.model_validate_json(form.text)
    except ValidationError:
        return "A tool's name or parameters can't be used."
    return "" if calls.functions else "There is no tool to call."


def _schema_obstacle(form: ReplyFormat, helper: Helper, check: Check | None) -> str:
    try:
        schema = schema_of(form)
    except json.JSONDecodeError as error:
        return f"The schema isn't JSON: {json_fault(error)}."
    except ValueError as error:
        return f"The schema isn't JSON that can be read: {error}."
    if not isinstance(schema, dict | bool):
        return "A schema is an object, in braces."
    if schema is False:
        return "The schema is false: it allows no JSON at all."
    text = form.text.encode("utf-8", "replace")
    answer, _ = helper.ask("schema.invalid", {}, text, seconds=COMPILE_S, check=check)
    if answer["fault"]:
        return str(answer["fault"])
    return next(map(_needs_names, _uncountable(schema)), "")


def _uncountable(schema: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Objects with `minProperties` of any name: a repeated name counts twice when generated, once
    when read."""
    if isinstance(schema, dict):
        least, required = schema.get("minProperties"), schema.get("required", ())
        any_name = schema.get("additionalProperties") is not False or "patternProperties" in schema
        if isinstance(least, int) and least > len(required) and any_name:
            yield path
    for key, part in _parts_of(schema):
        yield from _uncountable(part, (*path, key))


def _needs_names(path: tuple[object, ...]) -> str:
    return (
        f"minProperties at {json_pointer(path)} can't be kept to while a reply is written, unless "
        "additionalProperties is false."
    )


def _explained(error: str, form: ReplyFormat) -> str:
    if form.kind == "json_schema":
        return _of_schema(error, form)
    if error.startswith("NoExtension") or not error:
        return "No text has this form."
    if form.kind == "calls":
        return f"The parameters of a tool can't be enforced: {_plain(error)}."
    found = _REGEX.search(error)
    if form.kind == "regex":
        marked = _MARKED.search(error)
        # The mark is of the expression with its line breaks and slashes escaped.
        exact = found and marked and marked[1] == form.text
        where = f" at character {len(marked[2]) + 1}" if exact and marked else ""
        return (
            f"The regular expression can't be used{where}: {found[1] if found else _plain(error)}."
        )
    at = _AT.match(error)
    where = f" at line {at[1]}, column {at[2]}" if at else ""
    return f"The grammar can't be used{where}: {found[1] if found else _plain(error)}."


def _parts_of(schema: Any) -> Iterator[tuple[object, Any]]:
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
        return f"{listed} at {json_pointer(found)} can't be enforced while a reply is written."
    pattern = _REGEX.search(error)
    if pattern:
        return f"A pattern (or patternProperties) can't be used: {pattern[1]}."
    for said, keyword, meaning in _ABOUT:
        if said in error:
            return f"{keyword} can't be used as it stands here: {meaning or _plain(error)}."
    return f"The schema can't be used: {_plain(error)}."


def _places(part: Any, name: str, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Objects with `name` as a keyword, not as a property's name."""
    if isinstance(part, dict) and name in part and path[-1:] != ("properties",):
        yield path
    for key, each in _parts_of(part):
        yield from _places(each, name, (*path, key))


def _plain(error: str) -> str:
    first = _AT.sub("", error.splitlines()[0]) if error else ""
    for opening in ("failed to compile JSON schema: ", "Unsatisfiable schema: "):
        first = first.removeprefix(opening)
    first = _PREFIX.sub("", first).removesuffix(".")
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]} ..."
