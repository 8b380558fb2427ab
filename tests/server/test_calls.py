"""Tool calls in replies: as each syntax writes them, however they arrive, and held by a grammar."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.chat import Tool, ToolCall
from core.api.reply_format import CallFormat, FunctionFormat, ReplyFormat
from core.api.tools import ToolSyntax
from core.formats.check import fault, refusal
from core.server.calls import CallReader

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "town": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "places": {"type": "array", "items": {"type": "string"}},
        "exact": {"type": "boolean"},
    },
    "required": ["town", "unit"],
    "additionalProperties": False,
}
TOOLS = (
    Tool(
        name="weather",
        definition=json.dumps(
            {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
        ),
    ),
)
SYNTAXES: tuple[ToolSyntax, ...] = ("hermes", "xml", "lfm2", "llama3")
ARGUMENTS = {"town": 'A "b"\n</parameter> c', "days": 3, "unit": "C", "exact": True}


def written(syntax: ToolSyntax, arguments: dict[str, Any]) -> str:
    """A call as a model of that syntax writes it."""
    match syntax:
        case "hermes":
            body = json.dumps({"name": "weather", "arguments": arguments}, ensure_ascii=False)
            return f"<tool_call>\n{body}\n</tool_call>"
        case "xml":
            parts = (
                f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value)}\n"
                "</parameter>\n"
                for name, value in arguments.items()
            )
            return f"<tool_call>\n<function=weather>\n{''.join(parts)}</function>\n</tool_call>"
        case "lfm2":
            named = ", ".join(
                f"{name}={json.dumps(value) if isinstance(value, str) else repr(value)}"
                for name, value in arguments.items()
            )
            return f"<|tool_call_start|>[weather({named})]<|tool_call_end|>"
        case "llama3":
            return json.dumps({"name": "weather", "parameters": arguments})


def read(syntax: ToolSyntax, pieces: Sequence[str]) -> tuple[str, list[ToolCall]]:
    reader, text, calls = CallReader(syntax, TOOLS), "", list[ToolCall]()
    found = [each for piece in pieces for each in reader.push(piece)]
    for each in (*found, *reader.close()):
        if isinstance(each, str):
            text += each
        else:
            calls.append(each)
    return text, calls


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("syntax", SYNTAXES)
@given(places=st.lists(st.integers(0, 500), max_size=12))
def test_a_call_is_read_however_it_arrives(syntax: ToolSyntax, places: list[int]) -> None:
    arguments = {**ARGUMENTS, "town": "b"} if syntax == "xml" else ARGUMENTS
    said = "" if syntax == "llama3" else "I look. "
    text, calls = read(syntax, cut(f"{said}\n{written(syntax, arguments)}\n", places))
    assert text == said.strip()
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("weather", arguments)]
    assert calls[0].id


@pytest.mark.parametrize("syntax", ["hermes", "xml"])
def test_calls_in_parallel_are_read_in_order(syntax: ToolSyntax) -> None:
    calls = (written(syntax, {"town": town, "unit": "C"}) for town in "abc")
    text, found = read(syntax, list("\n".join(calls)))
    assert text == "" and [json.loads(call.arguments)["town"] for call in found] == list("abc")
    assert len({call.id for call in found}) == 3


def test_two_calls_in_a_list_are_read() -> None:
    text, calls = read("lfm2", ['<|tool_call_start|>[a(x=None, y=[1, {"k": true}]), b.c()]<|tool_',
                                "call_end|> Done."])  # fmt: skip
    assert [call.name for call in calls] == ["a", "b.c"] and text == "Done."
    assert json.loads(calls[0].arguments) == {"x": None, "y": [1, {"k": True}]}


@pytest.mark.parametrize(("syntax", "text"), [
    ("hermes", "<tool_call>\n{not json}\n</tool_call>"), ("hermes", "<tool_call>\n{\"name\": 3}"),
    ("hermes", "a < b and <tool"), ("xml", "<tool_call>\n<function=>\n</tool_call>"),
    ("lfm2", "<|tool_call_start|>[__import__('os').system('x')]<|tool_call_end|>"),
    ("lfm2", f"<|tool_call_start|>[f(x={'(' * 5_000})]<|tool_call_end|>"),
    ("llama3", '{"name": "unknown", "parameters": {}}'), ("llama3", '{"answer": 4}'),
    ("llama3", "Plain text {"), ("hermes", "  spaces \n stay  "), ("llama3", "{"), ("hermes", " "),
])  # fmt: skip
def test_what_is_no_call_stays_text(syntax: ToolSyntax, text: str) -> None:
    for pieces in ([text], list(text)):
        assert read(syntax, pieces) == (text, [])


def form(syntax: ToolSyntax, parallel: bool = True, **schema: Any) -> ReplyFormat:
    functions = (FunctionFormat(name="weather", parameters={**SCHEMA, **schema}),)
    calls = CallFormat(syntax=syntax, functions=functions, parallel=parallel)
    return ReplyFormat(kind="calls", text=calls.model_dump_json())


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_P3_arguments_are_held_to_their_schema(syntax: ToolSyntax) -> None:
    assert refusal(form(syntax)) == ""
    good = {"town": "a", "days": 3, "unit": "F"}
    assert fault(form(syntax), written(syntax, good)) == ""
    assert fault(form(syntax), written(syntax, {"town": "a", "unit": "C"})) == ""
    for bad in ({"unit": "F"}, {**good, "days": 12}, {**good, "unit": "K"}, {**good, "more": 1}):
        assert fault(form(syntax), written(syntax, bad)) != "", bad
    assert fault(form(syntax), "No.") != ""
    twice = f"{written(syntax, good)}\n{written(syntax, good)}"
    allowed = syntax in ("hermes", "xml")
    assert (fault(form(syntax), twice) == "") == allowed
    assert fault(form(syntax, parallel=False), twice) != ""


def test_a_schema_that_can_not_be_enforced_is_named() -> None:
    assert "parameters of a tool" in refusal(form("hermes", properties={"a": {"$ref": "#/x"}}))
