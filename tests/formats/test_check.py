"""Formats that can't be used say why, at once and without harm; replies are held to the others."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from core.api.reply_format import LONGEST_TEXT, ReplyFormat
from core.formats import check
from core.formats.check import fault, refusal
from core.formats.schema import CHECK_S, violation


def of_schema(schema: Any) -> ReplyFormat:
    text = schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))
    return ReplyFormat(kind="json_schema", text=text)


def chain(length: int, link: str) -> dict[str, Any]:
    """A schema that refers to the next one, and so on."""
    parts: dict[str, Any] = {
        f"a{number}": {link: [{"$ref": f"#/$defs/a{number + 1}"}] * 2} for number in range(length)
    }
    return {"$defs": {**parts, f"a{length}": {"type": "null"}}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (ReplyFormat(kind="json_schema", text='{"type":\n "null",}'), "line 2, column 9"),
        (ReplyFormat(kind="json_schema", text=""), "schema is empty"),
        (of_schema({"properties": {"a": {"type": 3}}}), "#/properties/a/type"),
        (ReplyFormat(kind="regex", text="(a"), "unclosed group"),
        (ReplyFormat(kind="regex", text="a(?!b)"), "look-ahead"),
        (ReplyFormat(kind="regex", text=r"(a)\1"), "backreferences"),
        (ReplyFormat(kind="regex", text=r"[^\s\S]"), "No text"),
        (ReplyFormat(kind="regex"), "is empty"),
        (ReplyFormat(kind="choice"), "nothing to choose"),
        (ReplyFormat(kind="lark", text="start: word"), 'unknown name: "word"'),
        (ReplyFormat(kind="lark", text='word: "a"'), "no start rule"),
        (ReplyFormat(kind="lark", text='start: "a"\nb: "'), "line 2, column"),
        (ReplyFormat(kind="lark", text='start: %json {"uniqueItems": true}'), "uniqueItems"),
        (ReplyFormat(kind="lark", text="start: A\nA: /(a/"), "unclosed group"),
    ],
)
def test_what_cannot_be_used_says_where_and_why(form: ReplyFormat, words: str) -> None:
    assert words in refusal(form)


@pytest.mark.parametrize(
    "form",
    [
        ReplyFormat(kind="json"),
        ReplyFormat(kind="choice", choices=("a", 'b"\n')),
        ReplyFormat(kind="regex", text="a<b>|/[/]"),
        ReplyFormat(kind="lark", text='start: "<a>" /<|b|>/ // <c>\n'),
        of_schema(True),
        of_schema({"properties": {"uniqueItems": {"type": "null"}}}),
        of_schema({"const": {"minProperties": 3}}),
        of_schema({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]}),
    ],
)
def test_what_can_be_used_is_not_refused(form: ReplyFormat) -> None:
    assert refusal(form) == ""


HOSTILE: dict[str, Any] = {
    "deep": '{"items":' * 20_000 + "true" + "}" * 20_000,
    "a chain": chain(3_000, "allOf"),
    "doubling": chain(60, "anyOf"),
    "circles": {"allOf": [{"$ref": "#"}], "type": "object"},
    "a long list": {"enum": [f"value {number}" for number in range(15_000)]},
    "hours of comparing": {"patternProperties": {f"^x{number}$": {} for number in range(900)}},
    "gigabytes": {"allOf": [{"pattern": f"x{number}.*y{number}"} for number in range(300)]},
    "a table of remainders": {"type": "integer", "multipleOf": 99_999_989},
    "many names": {"properties": {f"name {number}": {} for number in range(9_000)}},
    "long strings": {"type": "string", "pattern": "^(a{1000}){1000}$"},
    "products": {
        "allOf": [
            {"anyOf": [{"required": [f"{one}-{other}"]} for other in range(4)]} for one in range(14)
        ]
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_P3_a_hostile_schema_costs_seconds_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(check, "COMPILE_S", 1.0)
    form = of_schema(HOSTILE[name])
    assert len(form.text) <= LONGEST_TEXT
    began = time.monotonic()
    words = refusal(form)
    assert time.monotonic() - began < 30
    # What can be followed after all is no mistake.
    assert words.endswith(".") or words == ""
    if name in ("hours of comparing", "gigabytes", "a table of remainders", "many names"):
        assert "too involved" in words


def test_a_format_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    form = ReplyFormat(kind="choice", choices=("only here",))
    assert refusal(form) == ""
    monkeypatch.delattr(check, "Helper")
    assert refusal(form) == ""


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        (ReplyFormat(kind="json"), "{", "line 1, column 2"),
        (ReplyFormat(kind="json"), "[NaN]", "NaN"),
        (ReplyFormat(kind="json"), "[" * 9_000, "too involved"),
        (of_schema({"required": ["a"]}), "{}", "'a' is a required property"),
        (of_schema({"properties": {"a/b": {"maximum": 2}}}), '{"a/b": 2.5}', "#/a~1b: 2.5 is"),
        (of_schema({"pattern": "^(a+)+$"}), f'"{"a" * 5_000}b"', "does not match"),
        (of_schema({"type": "integer"}), "2.5", "integer"),
        (of_schema({"multipleOf": 3}), "1e999999999", "too large"),
        (of_schema({"$ref": "https://example.com/x"}), "1", "only the schema itself is read"),
        (ReplyFormat(kind="json_schema", text="{"), "1", "The schema isn't JSON"),
        (of_schema({"additionalProperties": False, "patternProperties": {"^a": {}}}),
         '{"ab": 1, "b": 1}', "'b' is not allowed"),
        (of_schema({"patternProperties": {"^a": {"type": "null"}}}), '{"ab": 1}', "#/ab"),
        (of_schema({"properties": {"a": {}}, "additionalProperties": {"type": "null"}}),
         '{"a": 1, "b": 1}', "#/b"),
        (ReplyFormat(kind="choice", choices=("a", "ab")), "abc", "none of the choices"),
        (ReplyFormat(kind="regex", text="(a+)+b"), "a" * 5_000, "regular expression"),
        (ReplyFormat(kind="regex", text="a"), "ab", "as a whole"),
        (ReplyFormat(kind="lark", text='start: "a"+'), "aab", "grammar"),
        (ReplyFormat(kind="lark", text='start: "ab"'), "a", "grammar"),
    ],
)  # fmt: skip
def test_a_reply_of_another_form_has_a_fault(form: ReplyFormat, text: str, words: str) -> None:
    assert words in fault(form, text)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (ReplyFormat(kind="json"), ' {"a": [1, null]}\n'),
        (of_schema({"multipleOf": 0.1}), "0.3"),
        (of_schema({"type": "integer", "enum": [2.0]}), "2"),
        (of_schema({"type": "integer"}), "2.0"),
        (of_schema({"pattern": r"^\d\n\w$"}), r'"1\nb"'),
        (of_schema({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]}), "[1]"),
        (ReplyFormat(kind="choice", choices=("a", "ab")), "ab"),
        (ReplyFormat(kind="regex", text="(a|b)*"), ""),
        (ReplyFormat(kind="lark", text='start: "a" start "b" | "x"'), "aaxbb"),
    ],
)
def test_a_reply_of_the_form_has_none(form: ReplyFormat, text: str) -> None:
    assert fault(form, text) == ""


def test_a_check_that_doubles_with_every_reference_ends() -> None:
    began = time.monotonic()
    assert "too involved" in fault(of_schema(chain(40, "anyOf")), "1")
    assert time.monotonic() - began < 3 * CHECK_S


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something went to the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    form = of_schema({"$schema": "https://example.com/s", "$ref": "https://example.com/x"})
    assert "only the schema itself is read" in refusal(form)
    assert "not in it" in violation(json.loads(form.text), "1")
