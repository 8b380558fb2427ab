"""Checks formats before they are used, and finished replies against their format.

All that takes time or memory is done in a helper process. `check`, where a function takes one, is
called while it waits, and what it raises ends the wait.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from core.api.json_text import MAX_DEPTH, json_fault
from core.api.reply_format import ReplyFormat
from core.client.codec import Fields
from core.formats.grammar import grammar, schema_of
from core.formats.words import explained, parts_of, place
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

_MOST_REMEMBERED = 64
_remembered: dict[ReplyFormat, str] = {}
# Starting a process takes longer than most checks of replies, so this one stays.
_checks = Helper(MEMORY_BYTES)


class NotCheckedError(Exception):
    """A reply could not be checked; the message is a sentence that says why."""


def refusal(form: ReplyFormat, check: Check | None = None) -> str:
    """Why `form` can't be used, in a sentence for a person that names the keyword or the place;
    "" where it can. The first time that a format is asked about takes a tenth of a second.
    """
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
    """Why `text`, a finished reply, is not of the form; "" where it is. Nothing is of a format that
    can't be used.

    Raises NotCheckedError where that would take more than CHECK_S or MEMORY_BYTES.
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
    match answer["found"]:
        case "":
            return ""
        case "no JSON":
            return f"It isn't JSON: {answer['said']}."
        case "deep":
            raise NotCheckedError(f"It is nested more than {MAX_DEPTH} levels deep.")
        case "reference":
            return f"The schema refers to {answer['said']}, which is not in it."
        case "number":
            return "A number in it is too large to be checked."
        case "violation":
            return f"At {place(answer['path'])}: {answer['said']}."
        case _:
            raise NotCheckedError(_INVOLVED)


def _refusal(form: ReplyFormat, check: Check | None) -> str:
    """Raises HelperFailedError."""
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
        text = grammar(form).encode()
        answer, _ = helper.ask("grammar.compile", {}, text, seconds=COMPILE_S, check=check)
    finally:
        helper.close()
    broken = answer["broken"]
    return "" if broken is None else explained(broken, form)


def _obstacle(form: ReplyFormat) -> str:
    """The obstacle that is found without a helper, or ''."""
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


def _schema_obstacle(form: ReplyFormat, helper: Helper, check: Check | None) -> str:
    """Raises HelperFailedError."""
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
    match answer["found"]:
        case "no JSON":
            return f"The schema isn't JSON: {answer['said']}."
        case "involved":
            return "The schema is too involved to be looked at."
        case "invalid":
            return f"The schema is not valid at {place(answer['path'])}: {answer['said']}."
    return next(map(_needs_names, _uncountable(schema)), "")


def _uncountable(schema: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Where a number of properties is asked for that may have any name: while a reply is written
    two of one name count twice, and once when it is read."""
    if isinstance(schema, dict):
        least, required = schema.get("minProperties"), schema.get("required", ())
        any_name = schema.get("additionalProperties") is not False or "patternProperties" in schema
        if isinstance(least, int) and least > len(required) and any_name:
            yield path
    for key, part in parts_of(schema):
        yield from _uncountable(part, (*path, key))


def _needs_names(path: tuple[object, ...]) -> str:
    return (
        f"minProperties at {place(path)} can't be kept to while a reply is written, unless "
        "additionalProperties is false."
    )
