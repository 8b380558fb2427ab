"""Tasks on JSON Schemas: is a schema valid, and does a text match it?

Patterns match as in the engine, without backtracking, and references are never fetched.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators
from jsonschema.exceptions import best_match
from jsonschema_specifications import REGISTRY
from llguidance import LLMatcher
from referencing.exceptions import Unresolvable

from core.api.json_text import JsonTooDeepError, json_fault, json_pointer, parse_json
from core.client.codec import Fields
from core.helper.grammars import GrammarLimitError, byte_tokens, derives, matcher, with_deep_stack

# A level of a schema takes ten to fifteen frames of jsonschema.
DEEPEST_RECURSION = 10_000
_SHOWN = 200
_DECIMAL = re.compile(r"Decimal\('([^']*)'\)")


class SchemaTasks:
    """Answers hold `fault`, a sentence or "", and `unchecked`, why a text could not be checked."""

    def invalid(self, _: Fields, schema: bytes) -> tuple[Fields, bytes]:
        return {"fault": _recursively(lambda: fault_of_schema(schema.decode()))}, b""

    def violation(self, fields: Fields, text: bytes) -> tuple[Fields, bytes]:
        fault = unchecked = ""
        try:
            fault = _recursively(lambda: fault_of_text(parsed(fields["schema"]), text.decode()))
        except JsonTooDeepError as error:
            unchecked = f"{str(error).capitalize()}."
        except (RecursionError, GrammarLimitError):
            unchecked = "It is too involved to be checked."
        return {"fault": fault, "unchecked": unchecked}, b""


def fault_of_schema(text: str) -> str:
    try:
        schema = parsed(text)
        _draft(schema).check_schema(schema, format_checker=None)
    except ValueError as error:
        return f"The schema isn't JSON: {_short(str(error))}."
    except SchemaError as error:
        place = json_pointer(error.path)
        return f"The schema is not valid at {place}: {_short(error.message)}."
    except RecursionError:
        return "The schema is too involved to be looked at."
    return ""


def fault_of_text(schema: Any, text: str) -> str:
    """Raises JsonTooDeepError, and for an endless check RecursionError or GrammarLimitError."""
    try:
        error = _first_violation(schema, parsed(text))
    except JsonTooDeepError:
        raise
    except json.JSONDecodeError as error:
        return f"It isn't JSON: {_short(json_fault(error))}."
    except ValueError as error:
        return f"It isn't JSON: {_short(str(error))}."
    except Unresolvable as error:
        return f"The schema refers to {_short(error.ref)}, which is not in it."
    except ArithmeticError:
        return "A number in it is too large to be checked."
    return "" if error is None else f"At {json_pointer(error.path)}: {_short(error.message)}."


def parsed(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} isn't a JSON number")

    return parse_json(text, parse_float=Decimal, parse_constant=refuse)


def _recursively(check: Callable[[], str]) -> str:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(DEEPEST_RECURSION)
    try:
        return with_deep_stack(check)
    finally:
        sys.setrecursionlimit(before)


def _first_violation(schema: Any, value: Any) -> ValidationError | None:
    draft, patterns = _draft(schema), _Patterns()
    whole = draft.TYPE_CHECKER.redefine("integer", _is_whole)
    ours = validators.extend(draft, patterns.keywords(), type_checker=whole)
    # With a registry passed in, jsonschema fetches nothing.
    found: ValidationError | None = best_match(ours(schema, registry=REGISTRY).iter_errors(value))
    return found


def _draft(schema: Any) -> Any:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    known = isinstance(named, str)
    return validators.validator_for(schema if known else {}, default=Draft202012Validator)


class _Patterns:
    def __init__(self) -> None:
        self._compiled: dict[str, LLMatcher] = {}

    def keywords(self) -> dict[str, Any]:
        return {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
        }

    def _found(self, pattern: str, text: str) -> bool:
        compiled = self._compiled.get(pattern)
        if compiled is None:
            schema = {"type": "string", "pattern": pattern}
            grammar = LLMatcher.grammar_from_json_schema(schema)
            compiled = self._compiled[pattern] = matcher(byte_tokens(), grammar)
        return derives(compiled, json.dumps(text, ensure_ascii=False))

    def _pattern(self, _: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not self._found(pattern, instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    def _pattern_properties(
        self, validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        for pattern, schema in patterns.items():
            for name, value in instance.items():
                if self._found(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)

    def _additional_properties(
        self, validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, value in instance.items():
            if name in declared or any(self._found(pattern, name) for pattern in patterns):
                continue
            if allowed is False:
                yield ValidationError(f"additional property {name!r} is not allowed")
            else:
                yield from validator.descend(value, allowed, path=name)


def _is_whole(_: Any, value: Any) -> bool:
    """2.0 is an integer in JSON Schema."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _short(text: str) -> str:
    text = _DECIMAL.sub(r"\1", text)
    # jsonschema's message begins with the value, which may be long, and ends with the fault.
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"
