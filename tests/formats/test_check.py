"""Formats that can't be used say why, at once and without harm; replies are held to the others."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from core.api.json_text import MAX_DEPTH
from core.api.reply_format import LONGEST_TEXT, ReplyFormat
from core.formats import check
from core.formats.check import NotCheckedError, fault, refusal
from core.helper import grammars, schemas
from core.helper.process import Helper
from core.helper.schemas import SchemaTasks


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
        (ReplyFormat(kind="json_schema", text='{"type":\n nul}'), "line 2, column 2"),
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


QUICK = ("deep", "doubling", "circles", "hours of comparing")


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(each, marks=pytest.mark.slow) for each in HOSTILE if each not in QUICK),
    ],
)
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


def objects(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def test_a_schema_as_deep_as_python_may_parse_is_refused_by_its_depth() -> None:
    """Which depth Python itself refuses, and in which words, differs between its versions."""
    form = of_schema('{"not":' * (MAX_DEPTH + 1) + "true" + "}" * (MAX_DEPTH + 1))
    assert f"more than {MAX_DEPTH} levels deep" in refusal(form)
    assert f"more than {MAX_DEPTH} levels deep" in refusal(of_schema("[" * 50_000 + "]" * 50_000))


def test_a_schema_and_a_reply_just_not_too_deep_are_checked() -> None:
    # llguidance itself takes no schema of 128 levels.
    schema = '{"properties":{"a":' * 60 + "true" + "}}" * 60
    assert refusal(of_schema(schema)) == ""
    assert fault(of_schema(schema), objects(MAX_DEPTH)) == ""
    again = of_schema({"properties": {"a": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}})
    assert fault(again, objects(MAX_DEPTH)) == ""


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 50_000])
def test_a_reply_that_is_too_deep_is_not_checked(depth: int) -> None:
    with pytest.raises(NotCheckedError, match=f"more than {MAX_DEPTH} levels deep"):
        fault(ReplyFormat(kind="json"), objects(depth))


# Each doubles the work with every member, or compiles as many patterns as there are members.
ENDLESS = {
    "references": (chain(40, "anyOf"), "1"),
    "alternatives": (
        {"items": {"anyOf": [{"required": [f"name {number}"]} for number in range(1_500)]}},
        json.dumps([{}] * 5_000),
    ),
}


@pytest.mark.parametrize(
    "name", ["references", pytest.param("alternatives", marks=pytest.mark.slow)]
)
def test_H3_a_check_without_end_is_given_up_in_the_helper(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(check, "CHECK_S", 0.5)
    schema, text = ENDLESS[name]
    form = of_schema(schema)
    assert refusal(form) == ""
    used = time.process_time()
    with pytest.raises(NotCheckedError, match="couldn't be checked in 2 s"):
        fault(form, text)
    assert time.process_time() - used < 0.5, "nothing of it is done in this process"
    assert fault(of_schema({"type": "null"}), "null") == "", "the next check has a helper"


def test_H3_a_check_that_needs_much_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Helper(400 * 2**20)
    monkeypatch.setattr(check, "_checks", small)
    try:
        with pytest.raises(NotCheckedError, match="too much memory"):
            fault(ReplyFormat(kind="json"), "[" + "{}," * 5_000_000 + "{}]")
    finally:
        small.close()


def test_a_check_is_given_up_when_nobody_waits_for_it_any_more() -> None:
    class GivenUpError(Exception):
        pass

    def give_up() -> None:
        raise GivenUpError

    form = of_schema(chain(40, "anyOf"))
    assert refusal(form) == ""
    with pytest.raises(GivenUpError):
        fault(form, "1", give_up)
    assert check._checks.pid is None, "the helper has ended"


def test_a_pattern_is_compiled_once_for_all_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    matcher = grammars.matcher

    def counted(tokens: Any, grammar: str) -> Any:
        compiled.append(grammar)
        return matcher(tokens, grammar)

    monkeypatch.setattr(schemas, "matcher", counted)
    names = {"patternProperties": {"^a": {}}, "additionalProperties": False}
    schema = json.dumps({"items": {"pattern": "^[a-z]+[0-9]$", **names}})
    ask = SchemaTasks().violation
    for text, found in (
        ([f"a{number % 10}" for number in range(2_000)], ""),
        (["a1", "b", "a2"], "#/1: 'b' does not match"),
        ([{"ab": 1}] * 1_000, ""),
        ([{"ab": 1}, {"b": 1}], "#/1: additional property 'b'"),
    ):
        compiled.clear()
        answer, _ = ask({"schema": schema}, json.dumps(text).encode())
        assert found in answer["fault"] and bool(answer["fault"]) == bool(found)
        assert len(compiled) == 1


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something went to the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    form = of_schema({"$schema": "https://example.com/s", "$ref": "https://example.com/x"})
    assert "only the schema itself is read" in refusal(form)
    ask = SchemaTasks().violation
    assert "which is not in it" in ask({"schema": form.text}, b"1")[0]["fault"]
