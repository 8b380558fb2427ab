"""Arguments in Gemma 4's form as rules of a grammar that llguidance reads.

Names stand in the order of its template, which sorts them. Patterns of texts are not enforced.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

# A space, or a line end with an indent. Models often repeat unlimited blanks for ever.
BLANKS = r" |\n( {0,20}|\t{1,10})"
JSON_OPTIONS = {
    "whitespace_flexible": True,
    "whitespace_pattern": BLANKS,
    "lenient": False,
    "coerce_one_of": False,
}
_BARE = ("number", "integer", "boolean", "null")
_ALL = ("string", "object", "array", "number", "boolean", "null")

_ANY = "any"  # among the names of rules that are used more than once


def members(
    rule: str, written: Mapping[str, str], required: Collection[str], comma: str
) -> Iterator[str]:
    """The lines of `{rule}_f0`: members in this order, without those that are left out."""
    for at, (name, member) in enumerate(written.items()):
        rest = f"{rule}_r{at + 1}"
        yield f"{rule}_a{at}: {member}"
        left_out = (f" | {rule}_f{at + 1}", f" | {rest}") if name not in required else ("", "")
        yield f"{rule}_f{at}: {rule}_a{at} {rest}{left_out[0]}"
        yield f"{rule}_r{at}: {comma} {rule}_a{at} {rest}{left_out[1]}"
    yield f'{rule}_f{len(written)}: ""'
    yield f'{rule}_r{len(written)}: ""'


class MarkedValues:
    """`whole` is the rule of values of a schema, among `lines`. `mark` stands around texts: the
    spelling of a token, or a quoted text."""

    def __init__(self, rule: str, schema: Mapping[str, Any], mark: str) -> None:
        self._rule, self._schema = rule, schema
        self._mark, self._quoted = mark, mark.startswith('"')
        self.lines: list[str] = []
        self._named: dict[str, str] = {}
        self._number = 0
        self.whole = self._value({**schema, "type": "object"})

    def _value(self, schema: object) -> str:
        given: dict[str, Any] = schema if isinstance(schema, dict) else {}
        reference = given.get("$ref")
        if isinstance(reference, str):
            return self._referred(reference)
        rule = self._new()
        self.lines.append(f"{rule}: {self._choices(given)}")
        return rule

    def _choices(self, schema: dict[str, Any]) -> str:
        among = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(among, list) and among:
            return " | ".join(map(self._value, among))
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return " | ".join(map(self._constant, values))
        kinds = schema.get("type", _ALL)
        listed = [kinds] if isinstance(kinds, str) else kinds
        return " | ".join(self._kind(each, schema) for each in listed if each in (*_ALL, *_BARE))

    def _kind(self, kind: str, schema: dict[str, Any]) -> str:
        if kind in _BARE:
            only = {key: each for key, each in schema.items() if key not in ("enum", "const")}
            return f"%json {json.dumps({**only, 'type': kind, 'x-guidance': JSON_OPTIONS})}"
        if kind == "string":
            return self._text(schema.get("minLength"), schema.get("maxLength"))
        if kind == "array":
            item = self._items(schema.get("items"))
            return f'"[" ({item} ("," {item})*)? "]"'
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            member = (
                f'/[^:{{}}\\[\\],<>\\s]+/ ":" {self._items(schema.get("additionalProperties"))}'
            )
            return f'"{{" ({member} ("," {member})*)? "}}"'
        rule, required = self._new(), schema.get("required")
        written = {
            name: f"{json.dumps(f'{name}:')} {self._value(properties[name])}"
            for name in sorted(properties, key=str.lower)
        }
        self.lines += members(rule, written, required if isinstance(required, list) else (), '","')
        return f'"{{" {rule}_f0 "}}"'

    def _items(self, schema: object) -> str:
        return self._value(schema) if isinstance(schema, dict) and schema else self._any()

    def _any(self) -> str:
        if _ANY not in self._named:
            self._named[_ANY] = rule = self._new()
            self.lines.append(f"{rule}: {self._choices({})}")
        return self._named[_ANY]

    def _referred(self, reference: str) -> str:
        """The rule of a definition, which may refer to itself."""
        if reference not in self._named:
            self._named[reference] = rule = self._new()
            found: Any = self._schema
            for name in reference.removeprefix("#/").split("/"):
                found = found.get(name) if isinstance(found, dict) else None
            # llguidance says what is wrong with a reference that leads nowhere.
            missing = f"%json {json.dumps({'$ref': reference})}"
            self.lines.append(f"{rule}: {missing if found is None else self._value(found)}")
        return self._named[reference]

    def _text(self, least: object, most: object) -> str:
        low = least if isinstance(least, int) else 0
        length = f"{{{low},{most}}}" if isinstance(most, int) else f"{{{low},}}"
        # A quoted mark may begin with any character of the text before it.
        suffix, end = (f"[suffix={self._mark}]", "") if self._quoted else ("", f" {self._mark}")
        if length not in self._named:
            self._named[length] = rule = self._new()
            self.lines.append(f"{rule}{suffix}: /(?s:.{length})/")
        return f"{self._mark} {self._named[length]}{end}"

    def _constant(self, value: object) -> str:
        if isinstance(value, str):
            return " ".join((self._mark, json.dumps(value), self._mark))
        return self._any() if isinstance(value, list | dict) else json.dumps(json.dumps(value))

    def _new(self) -> str:
        self._number += 1
        return f"{self._rule}{self._number}"
