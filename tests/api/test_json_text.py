"""JSON from strangers: how deep it may be nested."""

from __future__ import annotations

import json

import pytest

from core.api.json_text import MAX_DEPTH, JsonTooDeepError, json_fault, parse_json


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    return '{"a": ["]", ' * (depth // 2) + "0" + "]}" * (depth // 2)


@pytest.mark.parametrize("text", ["7", '"[[["', "[]", lists(MAX_DEPTH), objects(MAX_DEPTH)])
def test_what_is_not_too_deep_is_parsed_as_ever(text: str) -> None:
    assert parse_json(text) == json.loads(text)
    assert parse_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        lists(MAX_DEPTH + 1),
        objects(MAX_DEPTH + 2),
        lists(5_000),
        objects(100_000),
        f"[{lists(MAX_DEPTH - 1)}, {{}}, {lists(MAX_DEPTH)}]",
    ],
)
def test_what_is_nested_deeper_is_refused_on_every_version_of_python(text: str) -> None:
    with pytest.raises(JsonTooDeepError, match="more than 200 levels"):
        parse_json(text)


def test_what_is_no_json_is_a_value_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json('{"a": ')


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a":\n  "b', "the string at line 2, column 3 isn't closed"),
        ("{", "a name in quotes is missing at line 1, column 2"),
        ("[1 2]", "a comma is missing at line 1, column 4"),
        ("[1] x", "there is more after its end at line 1, column 5"),
        ('["\\x"]', "Invalid \\escape at line 1, column 3"),
    ],
)
def test_a_fault_is_said_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        parse_json(text)
    assert json_fault(caught.value) == fault
