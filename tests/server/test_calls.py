"""Tool calls in replies: as each syntax writes them, however they arrive, and held by a grammar."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
import weakref
from collections.abc import AsyncGenerator, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLTokenizer, TokenizerWrapper

from core.api.chat import Conversation, Tool, ToolCall
from core.api.reply_format import CallFormat, FunctionFormat, ReplyFormat, ToolSyntax, marks_of
from core.formats.check import fault, refusal
from core.formats.grammar import grammar, message_grammar
from core.helper.grammars import matcher
from core.server.activity import Activity
from core.server.answering import Answered
from core.server.calls import CallPart, CallReader, Piece
from core.server.endpoint import shown
from core.server.protocols.completions import ChatWriter
from core.server.protocols.messages import MessageWriter
from core.server.protocols.protocol import Writer
from core.server.protocols.responses import ResponseWriter
from core.server.requests.ask import Delta

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
SYNTAXES: tuple[ToolSyntax, ...] = get_args(ToolSyntax)
BETWEEN: dict[ToolSyntax, str] = {"gemma4": "", "mistral": "", "mistral_ids": ""}
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
        case "harmony":
            return f"<|call|>weather<|message|>{json.dumps(arguments)}<|call|>"
        case "lfm2":
            named = ", ".join(
                f"{name}={json.dumps(value) if isinstance(value, str) else repr(value)}"
                for name, value in arguments.items()
            )
            return f"<|tool_call_start|>[weather({named})]<|tool_call_end|>"
        case "mistral":
            return f"[TOOL_CALLS]weather[ARGS]{json.dumps(arguments, ensure_ascii=False)}"
        case "mistral_ids":
            body = json.dumps(arguments, ensure_ascii=False)
            return f"[TOOL_CALLS]weather[CALL_ID]a1B2c3D4e[ARGS]{body}"
        case "mistral_list":
            return f"[TOOL_CALLS][{json.dumps({'name': 'weather', 'arguments': arguments})}]"
        case "llama3":
            return json.dumps({"name": "weather", "parameters": arguments})
        case "gemma4":
            named = ",".join(f"{name}:{marked(arguments[name])}" for name in sorted(arguments))
            return f"<|tool_call>call:weather{{{named}}}<tool_call|>"


def marked(value: object) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, list):
        return f"[{','.join(map(marked, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{marked(key)}:{marked(each)}' for key, each in value.items())}}}"
    return json.dumps(value)


def pieces_of(syntax: ToolSyntax, texts: Sequence[str]) -> list[Piece]:
    reader = CallReader(syntax, TOOLS)
    return [*(each for text in texts for each in reader.push(text)), *reader.close()]


def read(syntax: ToolSyntax, texts: Sequence[str]) -> tuple[str, list[ToolCall]]:
    pieces = pieces_of(syntax, texts)
    told = dict[str, str]()
    for part in (each.call for each in pieces if isinstance(each, CallPart)):
        assert part.name == "weather" and part.arguments.startswith(told.get(part.id, ""))
        told[part.id] = part.arguments
    calls = [each for each in pieces if isinstance(each, ToolCall)]
    assert all(each.arguments.startswith(told.get(each.id, "")) for each in calls)
    return "".join(each for each in pieces if isinstance(each, str)), calls


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("syntax", SYNTAXES)
@given(places=st.lists(st.integers(0, 500), max_size=12))
def test_a_call_is_read_however_it_arrives(syntax: ToolSyntax, places: list[int]) -> None:
    said = "" if syntax == "llama3" else "I look. "
    text, calls = read(syntax, cut(f"{said}\n{written(syntax, ARGUMENTS)}\n", places))
    assert text == said.strip()
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("weather", ARGUMENTS)]
    assert calls[0].id


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_a_call_is_told_argument_by_argument(syntax: ToolSyntax) -> None:
    arguments = {"days": 35, "places": ["a, (b", "c"], "town": "b, c)}", "unit": "C"}
    pieces = pieces_of(syntax, list(written(syntax, arguments)))
    *parts, call = pieces
    assert isinstance(call, ToolCall) and json.loads(call.arguments) == arguments
    told = [each.call for each in parts if isinstance(each, CallPart)]
    assert len(told) == len(parts) and {each.id for each in told} == {call.id}
    assert [each.arguments for each in told][:4] == [
        "", '{"days": 35', '{"days": 35, "places": ["a, (b", "c"]',
        '{"days": 35, "places": ["a, (b", "c"], "town": "b, c)}"'
    ]  # fmt: skip
    assert call.arguments.startswith(told[-1].arguments)


TEXTS = st.text("a1 \n\u00e9\U0001f600\"'\\\\,:=#()[]{}", max_size=8)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=3,
)


@pytest.mark.parametrize("syntax", SYNTAXES)
@settings(max_examples=12)
@given(arguments=st.dictionaries(st.sampled_from(["town", "from", "a-b", "n"]), VALUES))
def test_the_deltas_of_a_call_are_its_arguments_wherever_it_is_split(
    syntax: ToolSyntax, arguments: dict[str, Any]
) -> None:
    text = written(syntax, arguments)
    _, whole = read(syntax, [text])
    if syntax != "xml":  # which has texts only
        assert [json.loads(each.arguments) for each in whole] == [arguments]
    for texts in (list(text), *([text[:at], text[at:]] for at in range(len(text)))):
        pieces = pieces_of(syntax, texts)
        for writer in (ChatWriter("m", False), MessageWriter("m"), ResponseWriter("m")):
            assert sent(writer, pieces) == [each.arguments for each in whole]


def sent(writer: Writer, pieces: Sequence[Piece]) -> list[str]:
    """The arguments of each call, put together from a stream."""
    parts = list[str]()
    for piece in pieces:
        if isinstance(piece, str):
            continue
        is_whole = isinstance(piece, ToolCall)
        call = piece.call if isinstance(piece, CallPart) else piece
        for line in writer.more(Delta(call=call, whole=is_whole)).split(b"\n"):
            body = json.loads(line[6:]) if line.startswith(b"data: ") else {}
            match body:
                case {"choices": [{"delta": {"tool_calls": [{"function": function}]}}]}:
                    parts += [""] if "name" in function else []
                    parts[-1] += function["arguments"]
                case {"type": "content_block_start" | "response.output_item.added"}:
                    parts.append("")
                case {"delta": {"partial_json": more}}:
                    parts[-1] += more
                case {"type": "response.function_call_arguments.delta", "delta": more}:
                    parts[-1] += more
    return parts


@pytest.mark.parametrize(("syntax", "text", "whole"), [
    ("xml", "<tool_call>\n<function=weather>\n<parameter=town>\na\n</parameter>\n"
     "<parameter=unit>\nC\n</parameter>\n<parameter=town>\nb\n</parameter>\n</function>\n"
     "</tool_call>", {"town": "a", "unit": "C"}),
    ("hermes", '<tool_call>{"name": "weather", "arguments": {"town": "a", "unit": "C", "town": "b"'
     "}}</tool_call>", {"town": "a", "unit": "C"}),
    ("hermes", '<tool_call>{"name": "weather", "arguments": {"town": "a"}, "name": "other"}'
     "</tool_call>", {"town": "a"}),
    ("lfm2", '<|tool_call_start|>[weather(town="a", unit="C", town="b")]<|tool_call_end|>',
     {"town": "a", "unit": "C"}),
    ("gemma4", '<|tool_call>call:weather{town:<|"|>a<|"|>,unit:<|"|>C<|"|>,town:<|"|>b<|"|>}'
     "<tool_call|>", {"town": "a", "unit": "C"}),
])  # fmt: skip
def test_an_argument_that_comes_twice_is_the_one_that_was_told(
    syntax: ToolSyntax, text: str, whole: dict[str, str]
) -> None:
    _, (call,) = read(syntax, list(text))
    assert call.name == "weather" and json.loads(call.arguments) == whole


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_a_call_that_breaks_off_is_told_as_far_as_it_came_and_nothing_is_lost(
    syntax: ToolSyntax,
) -> None:
    text = written(syntax, {"town": "a", "unit": "C"})[:-20]
    pieces = pieces_of(syntax, [*text, " and so on"])
    assert any(isinstance(each, CallPart) for each in pieces)
    assert not any(isinstance(each, ToolCall) for each in pieces)
    assert "".join(each for each in pieces if isinstance(each, str)) == f"{text} and so on"


def test_a_long_argument_is_looked_at_in_linear_time() -> None:
    reader = CallReader("hermes", TOOLS)
    list(reader.push('<tool_call>{"name": "weather", "arguments": {"town": "a", "unit": "'))
    looks = 0
    closed = reader._closed

    def counted(text: str) -> str:
        nonlocal looks
        looks += 1
        return closed(text)

    reader._closed = counted
    for _ in range(20_000):
        assert list(reader.push("word, ")) == []
    assert looks < 200


def test_a_long_word_in_a_list_of_calls_is_read_in_linear_time() -> None:
    call = f"<|tool_call_start|>[f(x={'a' * 60_000})]<|tool_call_end|>"
    began = time.process_time()
    assert read("lfm2", [call]) == (call, [])
    assert time.process_time() - began < 10  # a minute if every place in it is tried


@pytest.mark.parametrize("syntax", ["hermes", "xml", "gemma4", "mistral", "mistral_ids"])
def test_calls_in_parallel_are_read_in_order(syntax: ToolSyntax) -> None:
    calls = (written(syntax, {"town": town, "unit": "C"}) for town in "abc")
    text, found = read(syntax, list(BETWEEN.get(syntax, "\n").join(calls)))
    assert text == "" and [json.loads(call.arguments)["town"] for call in found] == list("abc")
    assert len({call.id for call in found}) == 3


LISTS: dict[ToolSyntax, tuple[str, str]] = {
    "lfm2": ("<|tool_call_start|>[", "]<|tool_call_end|>"),
    "mistral_list": ("[TOOL_CALLS][", "]"),
}


@pytest.mark.parametrize("syntax", LISTS)
def test_each_call_in_a_list_is_told_argument_by_argument(syntax: ToolSyntax) -> None:
    begin, end = LISTS[syntax]
    each = {"town": "a, b)]", "unit": "C", "places": ["x", "y"]}
    item = written(syntax, each).removeprefix(begin).removesuffix(end)
    pieces = pieces_of(syntax, list(f"{begin}{', '.join([item] * 3)}{end}"))
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == ""
    calls = [piece for piece in pieces if isinstance(piece, ToolCall)]
    assert [json.loads(call.arguments) for call in calls] == [each] * 3
    order = [
        piece.call.id if isinstance(piece, CallPart) else piece.id
        for piece in pieces
        if not isinstance(piece, str)
    ]
    assert [key for key, _ in itertools.groupby(order)] == [call.id for call in calls]
    for call in calls:
        told = [part.call.arguments for part in pieces
                if isinstance(part, CallPart) and part.call.id == call.id]  # fmt: skip
        assert told[:3] == ["", '{"town": "a, b)]"', '{"town": "a, b)]", "unit": "C"']


@pytest.mark.parametrize("syntax", LISTS)
def test_a_list_that_breaks_off_has_the_calls_before_and_loses_no_text(syntax: ToolSyntax) -> None:
    begin, end = LISTS[syntax]
    item = written(syntax, {"town": "a", "unit": "C"}).removeprefix(begin).removesuffix(end)
    for rest in (f"{item[:-12]} and so on", f"3{end}", f"{item[:-12]}{end}"):
        for texts in ([f"{begin}{item}, {rest}"], list(f"{begin}{item}, {rest}")):
            text, calls = read(syntax, texts)
            assert [json.loads(call.arguments) for call in calls] == [{"town": "a", "unit": "C"}]
            assert text == f"{begin} {rest}"


def test_a_value_in_tags_may_have_the_tags_that_end_it() -> None:
    value = "a\n</parameter>\n</tool_call>\n</parameter>\n</function> b"
    for last in ({}, {"unit": "C"}):
        arguments = {"town": value, **last}
        for texts in ([written("xml", arguments)], list(written("xml", arguments))):
            text, (call,) = read("xml", texts)
            assert text == "" and json.loads(call.arguments) == arguments


@pytest.mark.parametrize("lost", ["</function>\n", "</parameter>\n"])
def test_a_call_in_tags_without_its_end_takes_no_other_with_it(lost: str) -> None:
    whole = written("xml", {"town": "a"})
    broken = whole.replace(lost, "")
    assert broken != whole
    reply = f"{broken}\n{written('xml', {'town': 'b'})}"
    for texts in ([reply], list(reply)):
        text, (call,) = read("xml", texts)
        assert text == broken and json.loads(call.arguments) == {"town": "b"}


def test_a_list_of_calls_may_follow_a_space() -> None:
    call = written("mistral_list", ARGUMENTS).replace("][", "] [")
    for texts in ([call], list(call)):
        text, (found,) = read("mistral_list", texts)
        assert text == "" and json.loads(found.arguments) == ARGUMENTS


def test_the_id_that_a_model_writes_is_the_calls_and_is_given_once() -> None:
    call = written("mistral_ids", {"town": "a"})
    for texts in ([call * 2], list(call * 2)):
        _, (first, second) = read("mistral_ids", texts)
        assert first.id == "a1B2c3D4e" != second.id


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
    ("lfm2", "<|tool_call_start|>[f(x={[1]})]<|tool_call_end|>"),
    ("llama3", '{"name": "unknown", "parameters": {}}'), ("llama3", '{"answer": 4}'),
    ("llama3", "Plain text {"), ("hermes", "  spaces \n stay  "), ("llama3", "{"), ("hermes", " "),
    ("gemma4", "<|tool_call>call:f{a:}<tool_call|>"), ("gemma4", "<|tool_call>{a:1}<tool_call|>"),
    ("gemma4", f"<|tool_call>call:f{{a:{'[' * 5_000}}}<tool_call|>"),
    ("gemma4", "<|tool_call>call:f{a:1 b:2}<tool_call|>"), ("gemma4", "<|tool_call>call:"),
    ("mistral", "[TOOL_CALLS]f[ARGS]{a}"), ("mistral", '[TOOL_CALLS]f[ARGS]{"a": "'),
    ("mistral", "[TOOL_CALLS]f {}"), ("mistral", "see [TOOL_CAL"),
    ("mistral_list", '[TOOL_CALLS][3, {"name": "f"}]'), ("mistral_list", "[TOOL_CALLS]f[ARGS]{}"),
    ("mistral_list", "[TOOL_CALLS][[]]"), ("mistral_list", "[TOOL_CALLS][]"),
])  # fmt: skip
def test_what_is_no_call_stays_text(syntax: ToolSyntax, text: str) -> None:
    for texts in ([text], list(text)):
        assert read(syntax, texts) == (text, [])


GOOD = '<tool_call>\n{"name": "weather", "arguments": {"town": "a"}}\n</tool_call>'


@pytest.mark.parametrize("bad", [
    "<tool_call>{bad}</tool_call>", '<tool_call>{"name": "weather}</tool_call>',
    '<tool_call>{"name": "weather", "arguments": {"town": NaN}}</tool_call>', "<tool_call>",
])  # fmt: skip
def test_a_call_after_a_malformed_one_is_read(bad: str) -> None:
    text, calls = read("hermes", list(f"{bad} is wrong.\n{GOOD}\nSo."))
    assert text == f"{bad} is wrong.So."
    assert [json.loads(call.arguments) for call in calls] == [{"town": "a"}]


@pytest.mark.parametrize("begun", ["<tool_call> ends a call. ", "<tool_call>{}</tool_call> "])
def test_text_after_a_mark_without_a_call_streams_in_linear_time(begun: str) -> None:
    reader = CallReader("hermes", TOOLS)
    assert "".join(map(str, reader.push(begun))).startswith("<tool_call>")
    began = time.process_time()
    said = [bool(list(reader.push("word </tool_call> "))) for _ in range(5_000)]
    assert all(said) and time.process_time() - began < 5


@pytest.mark.parametrize(("syntax", "mark"), [
    ("hermes", "</tool_call>"), ("lfm2", "<|tool_call_end|>"), ("xml", "</function>\n</tool_call>"),
    ("gemma4", "<tool_call|>"), ("mistral", "[TOOL_CALLS]f[ARGS]{}"),
    ("mistral_ids", "[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{}"),
    ("mistral_list", "[TOOL_CALLS][{}]"),
])  # fmt: skip
def test_a_mark_in_an_argument_ends_no_call(syntax: ToolSyntax, mark: str) -> None:
    arguments = {"town": f"a\n{mark} b", "unit": "C"}
    after = "" if syntax.startswith("mistral") else "Done."  # whose calls end with the reply
    text, calls = read(syntax, list(f"{written(syntax, arguments)} {after}"))
    assert text == after and [json.loads(call.arguments) for call in calls] == [arguments]


def test_values_of_every_kind_are_read_between_marks() -> None:
    call = """call:mail-to.all{"a b": 1, deep: {<|"|>k<|"|>:[]}, n:-1.5e3, t:<|"|><|"|>,
 w:[true,None,<|"|>{,]<|"|>]}"""
    _, calls = read("gemma4", [f"<|tool_call>{call}<tool_call|>"])
    arguments = {'"a b"': 1, "deep": {"k": []}, "n": -1500.0, "t": "", "w": [True, None, "{,]"]}
    assert [(each.name, json.loads(each.arguments)) for each in calls] == [
        ("mail-to.all", arguments)
    ]


def test_names_that_python_does_not_take_are_read() -> None:
    """MCP's functions have hyphens, and arguments are called `from` and `in`."""
    call = """[mail:get-all(from="x(y=1)", file-path='a', in=[-1, {"k": true}])]"""
    _, calls = read("lfm2", [f"<|tool_call_start|>{call}<|tool_call_end|>"])
    arguments = {"from": "x(y=1)", "file-path": "a", "in": [-1, {"k": True}]}
    assert [(each.name, json.loads(each.arguments)) for each in calls] == [
        ("mail:get-all", arguments)
    ]


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_texts_in_three_quotes_are_read(quotes: str) -> None:
    said = """it"s 'a', b=1 (c=2) <|tool_call_end|>\n]"""
    call = f"[weather(town={quotes}{said}{quotes}, days=2)]"
    _, calls = read("lfm2", list(f"<|tool_call_start|>{call}<|tool_call_end|>"))
    assert [json.loads(each.arguments) for each in calls] == [{"town": said, "days": 2}]


@pytest.mark.parametrize(("syntax", "call"), [
    ("hermes", '<tool_call>{"name": "weather", "arguments": {"town": "%s"}}</tool_call>'),
    ("lfm2", '<|tool_call_start|>[weather(town="%s")]<|tool_call_end|>'),
])  # fmt: skip
def test_escaped_characters_beyond_16_bits_are_whole(syntax: ToolSyntax, call: str) -> None:
    _, calls = read(syntax, [call % r"\ud83d\ude00 \ud800"])
    assert json.loads(calls[0].arguments) == {"town": "\U0001f600 \ufffd"}


@pytest.mark.parametrize(("schema", "text", "value"), [
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "123", "123"),
    ({"type": ["string", "null"]}, "null", None), ({"enum": ["1", "2"]}, "1", "1"),
    ({"type": "boolean"}, "True", True), ({"type": ["string", "number"]}, "1.5", 1.5),
    ({"type": "array"}, "[1]", [1]), ({}, "[1]", [1]), ({"type": "string"}, "True", "True"),
])  # fmt: skip
def test_a_text_in_tags_has_the_type_of_its_schema(schema: Any, text: str, value: object) -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}}
    tool = Tool(name="f", definition=json.dumps({"type": "function", "function": function}))
    call = f"<tool_call>\n<function=f>\n<parameter=x>\n{text}\n</parameter>\n</function>\n"
    (found,) = CallReader("xml", (tool,)).push(f"{call}</tool_call>")
    assert isinstance(found, ToolCall) and json.loads(found.arguments) == {"x": value}


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
    twice = BETWEEN.get(syntax, "\n").join([written(syntax, good)] * 2)
    allowed = syntax in ("hermes", "xml", "gemma4", "mistral", "mistral_ids")
    assert (fault(form(syntax), twice) == "") == allowed
    assert fault(form(syntax, parallel=False), twice) != ""


NESTED: dict[str, Any] = {
    "properties": {
        "at": {"$ref": "#/$defs/place"},
        "any": {},
        "kind": {"anyOf": [{"type": "integer"}, {"enum": ["x", None]}]},
        "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "required": ["at"],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "in": {"$ref": "#/$defs/place"}},
            "required": ["name"],
        }
    },
}


@pytest.mark.parametrize(("arguments", "fits"), [
    ('at:{in:{name:<|"|>a<|"|>},name:<|"|>b<|"|>}', True), ('at:{in:{},name:<|"|>b<|"|>}', False),
    ('any:{x:[1,<|"|>y<|"|>,null]},at:{name:<|"|><|"|>},kind:3,tags:{a:true}', True),
    ('at:{name:<|"|><|"|>},kind:<|"|>x<|"|>', True), ('at:{name:<|"|><|"|>},kind:null', True),
    ('at:{name:<|"|><|"|>},kind:<|"|>y<|"|>', False), ('at:{name:1}', False), ("", False),
    ('at:{name:<|"|><|"|>},tags:{a:1}', False),
])  # fmt: skip
def test_P3_marked_values_are_held_to_their_schema(arguments: str, fits: bool) -> None:
    call = f"<|tool_call>call:weather{{{arguments}}}<tool_call|>"
    assert (fault(form("gemma4", **NESTED), call) == "") == fits


@pytest.mark.parametrize("syntax", ["hermes", "gemma4"])
def test_a_schema_that_can_not_be_enforced_is_named(syntax: ToolSyntax) -> None:
    assert "parameters of a tool" in refusal(form(syntax, properties={"a": {"$ref": "#/x"}}))


class _Tokens:
    """Bytes, and the control tokens of messages."""

    control = "<|start|> <|channel|> <|message|> <|end|> <|return|> <|call|>".split()
    tokens = (*(bytes([each]) for each in range(256)), *(each.encode() for each in control))
    special_token_ids = tuple(range(256, 262))
    eos_token_id, bos_token_id = 260, None

    def __call__(self, text: str) -> list[int]:
        parts = re.split("(<[|][a-z]+[|]>)", text)
        ids = ([256 + self.control.index(part)] if part in self.control else [*part.encode()]
               for part in parts)  # fmt: skip
        return [token_id for each in ids for token_id in each]


@pytest.mark.parametrize("syntax", ["hermes", "mistral", "mistral_ids", "mistral_list"])
def test_P3_marks_that_are_tokens_are_written_as_tokens(syntax: ToolSyntax) -> None:
    tokens = _Tokens()
    spelling = LLTokenizer(TokenizerWrapper(tokens), eos_token=[260])
    call, ids = written(syntax, {"town": "a", "unit": "C"}), dict[str, int]()
    for mark in marks_of(syntax):
        ids[mark] = 256 + len(ids)
        call = call.replace(mark, tokens.control[len(ids) - 1])
    found = matcher(spelling, grammar(form(syntax), control=ids))
    assert found.consume_tokens(tokens(call)) and found.is_accepting()
    plain = matcher(spelling, grammar(form(syntax), control=ids))
    assert not plain.consume_tokens(tokens(written(syntax, {"town": "a", "unit": "C"})))


def test_P3_a_reply_in_messages_is_held_to_its_format() -> None:
    tokens, ends = _Tokens(), [260, 261]
    spelling = LLTokenizer(TokenizerWrapper(tokens), eos_token=ends)
    thought = "<|channel|>analysis<|message|>{hm}<|end|><|start|>assistant"
    final = "<|channel|>final<|message|>"
    call = "<|channel|>commentary to=functions.weather json<|message|>"
    good, bad = '{"town": "a", "unit": "C"}', '{"town": 1'
    choice = ReplyFormat(kind="choice", choices=("yes", "no"))
    lark = ReplyFormat(kind="lark", text="start: /[0-9]+/")
    json_form = ReplyFormat(kind="json_schema", text=json.dumps(SCHEMA))
    digits = ReplyFormat(kind="regex", text="[0-9]+")
    for asked, begin, fits, breaks in (
        (form("harmony"), call, good, bad),
        (json_form, final, good, bad),
        (choice, final, "no", "maybe"),
        (digits, final, "17", "x"),
        (lark, final, "17", "x"),
    ):
        for before, thinks, allowed in (("", False, True), (thought * 2, True, True),
                                        (thought, False, False)):  # fmt: skip
            follower = matcher(spelling, message_grammar(asked, thinks))
            assert not follower.is_error(), follower.get_error()
            written = tokens(before + begin + fits)
            assert (follower.consume_tokens(written) and follower.is_accepting()) == allowed
        follower = matcher(spelling, message_grammar(asked, True))
        assert not follower.consume_tokens(tokens(thought + begin + breaks))
        assert not matcher(spelling, message_grammar(asked, True)).consume_tokens(tokens("no"))


def test_arguments_so_far_are_not_kept() -> None:
    """A call of many arguments would take as much memory as their number's square."""
    told = list[weakref.ref[ToolCall]]()

    def part(number: int) -> Delta:
        call = ToolCall(name="weather", arguments=json.dumps({"days": number}))
        told.append(weakref.ref(call))
        return Delta(call=call, whole=False)

    async def answers() -> AsyncGenerator[Answered, None]:
        for number in range(3):
            yield part(number)
        yield Delta("Yes.")
        assert not any(each() for each in told)

    async def read() -> None:
        activity = Activity()
        activity.tells_content = True
        entry = activity.enter({"path": "/"}, {})
        async for _ in shown(answers(), entry, Conversation(messages=())):
            pass

    asyncio.run(read())
    assert len(told) == 3
