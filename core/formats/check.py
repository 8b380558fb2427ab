"""Whether a reply's format can be used, and whether a finished reply has it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

from core.api.reply_format import ReplyFormat
from core.formats.grammar import derives, grammar, schema_of
from core.formats.schema import invalid, parsed, parts_of, place, violation
from core.formats.words import explained
from core.helper.process import Helper, HelperFailedError

# Formats that people write are compiled in 10 ms and 50 MB.
COMPILE_S = 5.0
MEMORY_BYTES = 1 * 2**30
_FAILED = {
    "started": "The process that looks at formats could not be started.",
    "time": "The format is too involved: making it ready takes too long.",
    "ended": "The format is too involved: making it ready takes too much memory.",
}
# In a Lark grammar what is neither quoted nor a comment may name a control token.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*')


def refusal(form: ReplyFormat) -> str:
    """Why `form` can't be used, in a sentence for a person that names the keyword or the place;
    "" where it can. The first time that a format is asked about takes a tenth of a second.
    """
    reason = _obstacle(form)
    if reason:
        return reason
    try:
        broken = _broken(grammar(form))
    except HelperFailedError as failure:
        return _FAILED.get(failure.reason, _FAILED["ended"])
    return "" if broken is None else explained(broken, form)


@lru_cache(maxsize=64)
def _broken(text: str) -> str | None:
    """What is wrong with a grammar, found where it can do no harm."""
    helper = Helper(MEMORY_BYTES)
    try:
        return cast(
            "str | None",
            helper.ask("grammar.compile", {}, text.encode(), seconds=COMPILE_S)[0]["broken"],
        )
    finally:
        helper.close()


def fault(form: ReplyFormat, text: str) -> str:
    """Why `text`, a finished reply, is not of the form; "" where it is. Long replies and involved
    schemas take up to two seconds, and a format that can't be used nothing is of.
    """
    reason = refusal(form)
    if reason:
        return reason
    if form.kind == "choice":
        return "" if text in form.choices else "It is none of the choices."
    if form.kind in ("json", "json_schema"):
        return violation(parsed(form.text) if form.kind == "json_schema" else {}, text)
    if derives(grammar(form), text):
        return ""
    named = "the regular expression" if form.kind == "regex" else "the grammar"
    return f"It doesn't match {named} as a whole."


def _obstacle(form: ReplyFormat) -> str:
    """What can be said without building a grammar."""
    if form.kind == "choice":
        return "" if form.choices else "There is nothing to choose from: name a choice."
    if form.kind == "json":
        return ""
    if not form.text.strip():
        names = {"json_schema": "schema", "regex": "regular expression", "lark": "grammar"}
        return f"The {names[form.kind]} is empty."
    if form.kind == "lark" and "<" in _QUOTED.sub("", form.text):
        return "The grammar names control tokens (<...>), which no reply may hold."
    return _schema_obstacle(form) if form.kind == "json_schema" else ""


def _schema_obstacle(form: ReplyFormat) -> str:
    try:
        schema = schema_of(form)
    except json.JSONDecodeError as error:
        return f"The schema isn't JSON: line {error.lineno}, column {error.colno}: {error.msg}."
    except (ValueError, RecursionError):
        return "The schema isn't JSON that can be read: it is nested too deeply."
    if schema is False:
        return "The schema is false: it allows no JSON at all."
    return invalid(schema) or next(map(_needs_names, _uncountable(schema)), "")


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
