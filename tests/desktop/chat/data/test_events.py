"""JSON is taken apart exactly where Python's own reader takes it, and never deeper than it can."""

from __future__ import annotations

import json
import random

import pytest

from desktop.chat.data.json_text import NotJsonError, events, pretty

WHOLE = [
    *("1", "-0", "2.50", "1e5", "-1.5E-10", "true", "false", "null", '""', "[]", "{}", " [ ] "),
    '{"a": [1, {"b": null}], "a": "\\u00e4\\n\\"/\\\\"}',
    "[[],{},[[]]]\n",
    '"\u20ac \U0001f600"',
]
BROKEN = [
    *"01 +1 .5 1. 1e nul NaN Infinity 'a' [1,] [,1] [ ] { } [} {] {1:2} [1]]".split(),
    *('"a', '"\\x"', '{"a"}', '{"a":}', '{"a":1,}', '{,"a":1}', '{"a" 1}', "[1 2]", "1 2", ""),
    *('"\n"', '"\\u12g4"', "// a\n1", "\u00a01", "tru e", " "),
]


def is_json(text: str) -> bool:
    try:
        list(events(text))
    except NotJsonError:
        return False
    return True


@pytest.mark.parametrize("text", WHOLE)
def test_json_is_read_and_indented_to_the_same_value(text: str) -> None:
    assert is_json(text)
    assert json.loads(pretty(text)) == json.loads(text)


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_json_is_not_read(text: str) -> None:
    assert not is_json(text)


def test_changed_characters_are_judged_as_pythons_reader_judges_them() -> None:
    luck = random.Random(5)
    letters = '[]{}:,"\\ 01eE+-.truefalsn\n\x01'
    for _ in range(4_000):
        text = list('[{"a": [1.5, true]}, "b\\n", -2e3]')
        for _ in range(luck.randint(1, 4)):
            text[luck.randrange(len(text))] = luck.choice(letters)
        changed = "".join(text)
        try:
            json.loads(changed)
            expected = True
        except ValueError:
            expected = False
        assert is_json(changed) == expected, changed


def test_indented_json_has_a_line_for_each_value() -> None:
    assert pretty('{"a":[1,{}],"b":[]}') == ('{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}')


def test_what_is_nested_without_end_is_read_and_not_indented_without_end() -> None:
    deep = "[" * 20_000 + "]" * 20_000
    assert is_json(deep)
    assert len(pretty(deep)) < 3 * len(deep)
