from __future__ import annotations

import json

import pytest

from core.api.reply_format import ReplyFormat
from core.formats import check
from desktop.chat.data import reading
from desktop.chat.data.json_body import validity_text
from desktop.chat.data.reading import Item, Reading, parsed, pretty, read

JSON = ReplyFormat(kind="json")


def read_json(value: object) -> Reading:
    return read(JSON, json.dumps(value))


def below(item: Item | None) -> list[tuple[str, str]]:
    assert item is not None
    return [(each.name, each.value) for each in item.below]


def depth(item: Item) -> int:
    return 1 + max((depth(each) for each in item.below), default=0)


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        ([{"a": 1}], ("a",)),
        ([{"a": 1, "b": 2}, {"c": 3}], ("a", "b", "c")),
        ([{"a": [1]}], ()),
        ([{"a": 1}, 2], ()),
        ([{"a": 1}, {}], ()),
        ([], ()),
        ({"a": 1}, ()),
        ("a", ()),
    ],
)
def test_a_list_of_flat_objects_is_a_table(value: object, columns: tuple[str, ...]) -> None:
    assert read_json(value).columns == columns


def test_a_tree_shows_names_numbers_as_written_and_how_much_is_in_a_list() -> None:
    found = read(JSON, '{"a": [1.50, "x\\n"], "b": {}, "a": null}')
    assert below(found.root) == [("a", "2 items"), ("b", "0 fields"), ("a", "null")]
    assert found.root is not None
    assert below(found.root.below[0]) == [("0", "1.50"), ("1", '"x\\n"')]


@pytest.mark.parametrize("text", ["5", '"a"', "null", "[]", "{}"])
def test_a_value_by_itself_is_one_row(text: str) -> None:
    found = read(JSON, text)
    assert found.root is not None and len(found.root.below) == 1


def test_a_long_list_is_cut_and_says_how_much_more_there_is() -> None:
    found = read_json([{"a": number} for number in range(5_000)])
    assert found.columns == ("a",) and found.root is not None
    assert len(found.root.below) == reading.MOST_BELOW + 1
    assert found.root.below[-1].name == "\u2026 4,000 more"


def test_many_columns_are_cut() -> None:
    found = read_json([{str(number): number for number in range(100)}])
    assert len(found.columns) == reading.MOST_COLUMNS + 1
    assert found.columns[-1] == "\u2026 60 more columns"


def test_what_is_nested_without_end_is_cut_at_a_depth() -> None:
    found = read(JSON, "[" * 500 + "]" * 500)
    assert found.root is not None
    assert depth(found.root) <= reading.DEEPEST + 1
    item = found.root
    while item.below:
        item = item.below[0]
    assert item.name == "\u2026 1 more"


def test_many_lists_are_cut_before_they_cost_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ITEMS", 100)
    found = read_json([[[number]] * 90 for number in range(90)])
    assert found.root is not None
    total, level = 0, [found.root]
    while level:
        total += len(level)
        level = [each for item in level for each in item.below]
    assert total <= 3 * reading.MOST_ITEMS


def test_what_is_not_of_its_form_says_why_and_is_shown_if_it_is_json() -> None:
    form = ReplyFormat(kind="json_schema", text='{"type": "array"}')
    wrong = read(form, '{"a": 1}')
    assert wrong.fault and wrong.root is not None
    broken = read(form, '[{"a": 1')
    assert broken.fault and broken.root is None
    assert read(form, "[1]").fault == ""


WHOLE = [
    *("1", "-0", "2.50", "1e5", "1e999", "true", "null", '""', "[]", "{}", " [ ] "),
    '{"a": [1, {"b": null}], "a": "\\u00e4\\n\\"/\\\\,:{}"}',
    "[[],{},[[]]]\n",
    '"\u20ac \U0001f600"',
]


@pytest.mark.parametrize("text", WHOLE)
def test_json_is_indented_to_the_same_value(text: str) -> None:
    assert parsed(pretty(text)) == parsed(text)


@pytest.mark.parametrize(
    "text", ["NaN", "[-Infinity]", "", "01", "[1,]", "1 2", '"\n"', "[" * 9_999]
)
def test_what_is_no_json_or_nested_without_end_is_not_read(text: str) -> None:
    assert read(JSON, text).root is None


def test_indented_json_has_a_line_for_each_value() -> None:
    assert pretty('{"a":[1,{}],"b":[]}') == ('{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}')


def test_what_is_nested_deeply_is_not_indented_without_end() -> None:
    deep = "[" * 20_000 + "]" * 20_000
    assert len(pretty(deep)) < 3 * len(deep)


SCHEMA = ReplyFormat(kind="json_schema", text="{}")


@pytest.mark.parametrize(
    ("form", "found", "words"),
    [
        (JSON, Reading(""), "Valid JSON."),
        (SCHEMA, Reading(""), "Valid against the schema."),
        (JSON, Reading("It is wrong."), "Not valid: It is wrong."),
        (JSON, Reading("", unchecked="It takes long."), "Not checked: It takes long."),
    ],
)
def test_whether_a_reply_is_valid_is_said(form: ReplyFormat, found: Reading, words: str) -> None:
    assert validity_text(form, found) == words


def test_a_reply_that_can_not_be_checked_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object) -> str:
        raise check.NotCheckedError("It takes long.")

    monkeypatch.setattr(check, "fault", fault)
    found = read(JSON, "[1]")
    assert (found.fault, found.unchecked) == ("", "It takes long.") and found.root is not None
