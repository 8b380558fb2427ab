"""JSON Schema: whether a schema is one, and whether a text is JSON that it allows.

What `jsonschema` would do by backtracking expressions, without end or through the network is done
here otherwise: patterns are followed as the engine follows them, references have a time limit, and
none leads out of the schema.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators
from jsonschema.exceptions import best_match
from jsonschema_specifications import REGISTRY
from llguidance import LLMatcher
from referencing.exceptions import Unresolvable

from core.formats.grammar import derives

# Without references a check ends soon by itself; with them it can double with each.
CHECK_S = 2.0
_SHOWN = 200
_DECIMAL = re.compile(r"Decimal\('([^']*)'\)")
_VALUES = ("const", "enum", "default", "examples")


class CheckTooLongError(Exception):
    """A check took longer than CHECK_S."""


def invalid(schema: Any) -> str:
    """Why `schema` is no JSON Schema; "" where it is one."""
    if not isinstance(schema, dict | bool):
        return "A schema is an object, in braces."
    draft = _draft(schema)
    try:
        draft.check_schema(schema, format_checker=None)
    except SchemaError as error:
        return f"The schema is not valid at {place(error.path)}: {_short(error.message)}."
    except RecursionError:
        return "The schema is nested too deeply."
    return ""


def violation(schema: Any, text: str) -> str:
    """Why `text` is no JSON that `schema` allows; "" where it is."""
    try:
        value = parsed(text)
        return _first_violation(schema, value)
    except json.JSONDecodeError as error:
        return f"It isn't JSON: line {error.lineno}, column {error.colno}: {error.msg}."
    except ValueError as error:
        return f"It isn't JSON: {error}."
    except Unresolvable as error:
        return f"The schema refers to {_short(error.ref)}, which is not in it."
    except ArithmeticError:
        return "A number in it is too large to be checked."
    except (RecursionError, CheckTooLongError):
        return "It is too involved to be checked against the schema."


def parsed(text: str) -> Any:
    """JSON with its numbers as they are written. Raises ValueError and RecursionError."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON number")

    return json.loads(text, parse_float=Decimal, parse_constant=refuse)


def place(path: Any) -> str:
    """A place in JSON as a pointer."""
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return "/".join(("#", *escaped))


def parts_of(schema: Any) -> Iterator[tuple[object, Any]]:
    """What stands in a schema or in a list or object of schemas, but for values."""
    if isinstance(schema, dict):
        yield from ((key, part) for key, part in schema.items() if key not in _VALUES)
    elif isinstance(schema, list):
        yield from enumerate(schema)


def _first_violation(schema: Any, value: Any) -> str:
    until = time.monotonic() + CHECK_S
    draft = _draft(schema)
    followed = draft.VALIDATORS["$ref"]

    def refers(validator: Any, ref: Any, instance: Any, within: Any) -> Iterator[Any]:
        if time.monotonic() > until:
            raise CheckTooLongError
        yield from followed(validator, ref, instance, within) or ()

    whole = draft.TYPE_CHECKER.redefine("integer", _is_whole)
    bounded = validators.extend(draft, {**_PATTERNS, "$ref": refers}, type_checker=whole)
    # With a registry of its own it fetches nothing.
    error = best_match(bounded(schema, registry=REGISTRY).iter_errors(value))
    return "" if error is None else f"At {place(error.path)}: {_short(error.message)}."


def _draft(schema: Any) -> Any:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    known = isinstance(named, str)
    return validators.validator_for(schema if known else {}, default=Draft202012Validator)


def _found(pattern: str, text: str) -> bool:
    schema = {"type": "string", "pattern": pattern}
    grammar = LLMatcher.grammar_from_json_schema(schema)
    return derives(grammar, json.dumps(text, ensure_ascii=False))


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, schema in patterns.items():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in declared or any(_found(pattern, name) for pattern in patterns):
            continue
        if allowed is False:
            yield ValidationError(f"additional property {name!r} is not allowed")
        else:
            yield from validator.descend(value, allowed, path=name)


_PATTERNS = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}


def _is_whole(_: Any, value: Any) -> bool:
    """2.0 is an integer in JSON Schema."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _short(text: str) -> str:
    text = _DECIMAL.sub(r"\1", text)
    # jsonschema begins with the value, which may be long, and says in the end what is wrong.
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"
