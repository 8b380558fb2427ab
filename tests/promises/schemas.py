"""Schemas of every kind that a reply can be kept to, and some of every kind that it can't."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

PATTERNS = ("^[a-c]{1,4}$", "^(on|off)$", "^[0-9]{3}-[0-9]{2}$", "^x+$", "[yz]$", "^#[0-9a-f]{6}$")
FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "ipv6", "email")
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -7,
    2.5,
    "",
    "a b",
    'quote " and \\',
    "é",
    [1, "x"],
    {"k": [None]},
)
NAMES = ("a", "b", "name", "two words", "é", 'q"')

REFUSED: list[tuple[Any, str]] = [
    (False, "false"),
    ([1], "object"),
    ({"type": "text"}, "type"),
    ({"type": "string", "minLength": -1}, "minLength"),
    ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"properties": {"a": {"contains": {"type": "null"}}}}, "contains at #/properties/a"),
    ({"not": {"type": "null"}}, "not at #"),
    ({"if": {"type": "null"}, "then": {"const": None}}, "if and then"),
    ({"dependentRequired": {"a": ["b"]}}, "dependentRequired"),
    ({"propertyNames": {"maxLength": 2}}, "propertyNames"),
    ({"unevaluatedProperties": False}, "unevaluatedProperties"),
    ({"$dynamicRef": "#a"}, "$dynamicRef"),
    ({"type": "object", "minProperties": 2}, "minProperties"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
    ({"type": "string", "format": "colour"}, "colour"),
    ({"type": "string", "pattern": "a(?=b)"}, "look-ahead"),
    ({"type": "string", "pattern": "(a"}, "pattern"),
    ({"patternProperties": {"^a": {}, "^ab": {}}}, "patternProperties"),
    ({"$ref": "https://example.com/schema.json"}, "$ref"),
    ({"$ref": "#/$defs/nothing"}, "$ref"),
    ({"$ref": "#"}, "$ref"),
    ({"$schema": "https://example.com/own"}, "$schema"),
    ({"type": "integer", "minimum": 5, "maximum": 3}, "minimum"),
    ({"type": "string", "minLength": 5, "maxLength": 3}, "minLength"),
    ({"type": "array", "minItems": 2, "maxItems": 1}, "minItems"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "required"),
    ({"type": "integer", "enum": ["a"]}, "type"),
    ({"allOf": [{"type": "null"}, {"type": "string"}]}, "type"),
    ({"enum": []}, "enum"),
    ({"type": "number", "multipleOf": 1e-20}, "multipleOf"),
]


def schemas(count: int) -> list[Schema]:
    """So many, the same every time, each kind at the root in turn."""
    chance = random.Random(20)
    kinds = [*_LEAVES, *_NESTS, *_ROOTS]
    return [_made(kinds[index % len(kinds)], chance, 2) for index in range(count)]


def _made(
    kind: Callable[[random.Random, int], Schema], chance: random.Random, depth: int
) -> Schema:
    made = kind(chance, depth)
    if chance.random() < 0.2:
        made |= {"title": "T", "description": "What it is.", "$comment": "c", "default": 1}
    return made


def _any(chance: random.Random, depth: int) -> Schema:
    nests = _NESTS if depth > 0 and chance.random() < 0.5 else _LEAVES
    return _made(chance.choice(nests), chance, depth - 1)


def _plain(chance: random.Random, _: int) -> Schema:
    return {"type": chance.choice(["null", "boolean", ["null", "boolean"], ["integer", "null"]])}


def _integer(chance: random.Random, _: int) -> Schema:
    low = chance.randrange(-200, 50)
    bounds: Schema = {chance.choice(["minimum", "exclusiveMinimum"]): low}
    bounds |= {chance.choice(["maximum", "exclusiveMaximum"]): low + chance.randrange(20, 900)}
    if chance.random() < 0.3:
        return {"type": "integer", "multipleOf": chance.choice([2, 3, 10]), "minimum": 0}
    return {"type": "integer", **bounds}


def _number(chance: random.Random, _: int) -> Schema:
    if chance.random() < 0.3:
        return {"type": "number", "multipleOf": chance.choice([0.5, 0.25, 0.1]), "minimum": 0}
    low = chance.choice([-1.5, 0, 0.25])
    return {"type": "number", "minimum": low, "exclusiveMaximum": low + chance.choice([1, 7.5])}


def _string(chance: random.Random, _: int) -> Schema:
    least = chance.randrange(3)
    return {"type": "string", "minLength": least, "maxLength": least + chance.randrange(1, 4)}


def _pattern(chance: random.Random, _: int) -> Schema:
    return {"type": "string", "pattern": chance.choice(PATTERNS)}


def _format(chance: random.Random, _: int) -> Schema:
    return {"type": "string", "format": chance.choice(FORMATS)}


def _enum(chance: random.Random, _: int) -> Schema:
    return {"enum": chance.sample(VALUES, chance.randrange(1, 5))}


def _const(chance: random.Random, _: int) -> Schema:
    return {"const": chance.choice(VALUES)}


def _object(chance: random.Random, depth: int) -> Schema:
    names = chance.sample(NAMES, chance.randrange(1, 4))
    made: Schema = {
        "type": "object",
        "properties": {name: _any(chance, depth) for name in names},
        "required": [name for name in names if chance.random() < 0.6],
        "additionalProperties": False,
    }
    if chance.random() < 0.3:
        made |= {"additionalProperties": _any(chance, 0), "maxProperties": len(names) + 1}
        made["required"] = names
    return made


def _pattern_properties(chance: random.Random, depth: int) -> Schema:
    matched = {"^x[0-9]$": _any(chance, depth), "^y$": {"type": "null"}}
    return {
        "type": "object",
        "patternProperties": matched,
        "additionalProperties": False,
        "maxProperties": 2,
    }


def _array(chance: random.Random, depth: int) -> Schema:
    least = chance.randrange(2)
    most = least + chance.randrange(1, 3)
    return {"type": "array", "items": _any(chance, depth), "minItems": least, "maxItems": most}


def _tuple(chance: random.Random, depth: int) -> Schema:
    parts = [_any(chance, depth) for _ in range(chance.randrange(1, 4))]
    made: Schema = {"type": "array", "prefixItems": parts, "minItems": len(parts)}
    return made | {"items": chance.choice([False, {"type": "null"}]), "maxItems": len(parts) + 1}


def _any_of(chance: random.Random, depth: int) -> Schema:
    return {"anyOf": [_any(chance, depth) for _ in range(chance.randrange(1, 4))]}


def _one_of(chance: random.Random, depth: int) -> Schema:
    tagged = [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, "value": _any(chance, depth)},
            "required": ["kind", "value"],
            "additionalProperties": False,
        }
        for kind in ("one", "other")
    ]
    return {"oneOf": chance.choice([tagged, [{"type": "null"}, {"type": "boolean"}, tagged[0]]])}


def _all_of(chance: random.Random, depth: int) -> Schema:
    if chance.random() < 0.5:
        return {"allOf": [{"type": "string", "minLength": 1}, {"maxLength": 4}]}
    parts = [{"properties": {name: _any(chance, depth)}, "required": [name]} for name in ("a", "b")]
    return {"type": "object", "allOf": parts, "maxProperties": 2}


def _ref(chance: random.Random, depth: int) -> Schema:
    shared = {"shared/part": _any(chance, depth)}
    return {
        "$defs": shared,
        "type": "array",
        "items": {"$ref": "#/$defs/shared~1part"},
        "minItems": 1,
        "maxItems": 2,
    }


def _recursive(chance: random.Random, _: int) -> Schema:
    rest: Schema = {"anyOf": [{"type": "null"}, {"type": "null"}, {"$ref": "#"}]}
    return {
        "type": "object",
        "properties": {"head": _any(chance, 0), "rest": rest},
        "required": ["head", "rest"],
        "additionalProperties": False,
    }


_LEAVES = (_plain, _integer, _number, _string, _pattern, _format, _enum, _const)
_NESTS = (_object, _pattern_properties, _array, _tuple, _any_of, _one_of, _all_of)
# What refers to a place of the whole schema.
_ROOTS = (_ref, _recursive)
