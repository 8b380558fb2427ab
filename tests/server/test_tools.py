"""Tools through the three protocols: offered, called, answered, and reused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import AssistantMessage, UserMessage
from tests.server.serving import MODEL, ScriptedEngine, Served, refused, serving, serving_model

FolderOf = Callable[[str], Path]
SCHEMA = {
    "type": "object",
    "properties": {"town": {"type": "string", "maxLength": 8}, "unit": {"enum": ["C", "F"]}},
    "required": ["town", "unit"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
QUESTION: Any = {"role": "user", "content": "How is the weather in Oslo?"}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Oslo", "unit": "C"}}\n</tool_call>'
GIVEN = {"town": "Oslo", "unit": "C"}


@pytest.fixture
def engine() -> ScriptedEngine:
    made = ScriptedEngine(f"I look.\n{CALL}\n{CALL}")
    made.model = MODEL.model_copy(update={"tools": "hermes"})
    return made


@pytest.fixture
def served(engine: ScriptedEngine, tmp_path: Path) -> Iterator[Served]:
    with serving(engine.connect, tmp_path) as served:
        yield served


def history(engine: ScriptedEngine) -> list[Any]:
    return list(engine.commands[-1].conversation.messages)


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions_call_and_go_on(
    served: Served, engine: ScriptedEngine, stream: bool
) -> None:
    create: Any = served.openai().chat.completions.create
    if stream:
        said, calls, reason = "", dict[int, dict[str, str]](), ""
        for chunk in create(model="m", messages=[QUESTION], tools=[TOOL], stream=True):
            choice = chunk.choices[0]
            said += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                call["id"] += piece.id or ""
                call["name"] += piece.function.name or ""
                call["arguments"] += piece.function.arguments
        found = list(calls.values())
    else:
        choice = create(model="m", messages=[QUESTION], tools=[TOOL]).choices[0]
        said, reason = choice.message.content, choice.finish_reason
        found = [
            {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
            for call in choice.message.tool_calls
        ]
    assert (said, reason) == ("I look.", "tool_calls")
    assert [(call["name"], json.loads(call["arguments"])) for call in found] == [
        ("weather", GIVEN)
    ] * 2
    assert engine.commands[0].conversation.tools[0].name == "weather"
    assert engine.commands[0].format is None
    # The client writes the arguments anew, and the reply is found all the same.
    echoed = []
    for call in found:
        arguments = json.dumps(json.loads(call["arguments"]), indent=1)
        function = {"name": call["name"], "arguments": arguments}
        echoed.append({"id": call["id"], "type": "function", "function": function})
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"{at} C"}
        for at, call in enumerate(found)
    ]
    reply = {"role": "assistant", "content": said, "tool_calls": echoed}
    create(model="m", messages=[QUESTION, reply, *results], tools=[TOOL])
    asked, answered, *given = history(engine)
    assert isinstance(asked, UserMessage) and isinstance(answered, AssistantMessage)
    assert answered.ids is not None
    assert [(each.text, each.name, each.call) for each in given] == [
        (f"{at} C", "weather", call["id"]) for at, call in enumerate(found)
    ]


def test_messages_call_and_go_on(served: Served, engine: ScriptedEngine) -> None:
    tool: Any = {"name": "weather", "input_schema": SCHEMA}
    question: Any = [{"role": "user", "content": "How?"}]
    client = served.anthropic()
    with client.messages.stream(
        model="m", max_tokens=99, messages=question, tools=[tool]
    ) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "tool_use"
    assert [block.type for block in message.content] == ["text", "tool_use", "tool_use"]
    calls: list[Any] = list(message.content[1:])
    assert all(call.name == "weather" and call.input == GIVEN for call in calls)
    results: Any = [
        {"type": "tool_result", "tool_use_id": call.id,
         "content": [{"type": "text", "text": "4 C"}]}
        for call in calls
    ]  # fmt: skip
    turns: Any = [
        *question,
        {"role": "assistant", "content": [block.model_dump() for block in message.content]},
        {"role": "user", "content": [*results, {"type": "text", "text": "Well?"}]},
    ]
    assert client.messages.count_tokens(model="m", messages=turns, tools=[tool]).input_tokens == 3
    client.messages.create(model="m", max_tokens=99, messages=turns, tools=[tool])
    _, answered, first, second, last = history(engine)
    assert answered.ids is not None and isinstance(last, UserMessage)
    assert [each.text for each in (first, second)] == ["4 C", "4 C"] and first.name == "weather"


@pytest.mark.parametrize("stream", [False, True])
def test_responses_call_and_go_on(served: Served, engine: ScriptedEngine, stream: bool) -> None:
    tool: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
    client = served.openai()
    create: Any = client.responses.create
    hosted = {"type": "web_search"}
    if stream:
        events = list(create(model="m", input="How?", tools=[tool, hosted], stream=True))
        response = events[-1].response
        kinds = [event.type for event in events]
        assert kinds.count("response.function_call_arguments.done") == 2
    else:
        response = create(model="m", input="How?", tools=[tool, hosted])
    assert len(engine.commands[0].conversation.tools) == 1
    message, *calls = response.output
    assert message.content[0].text == "I look." and response.status == "completed"
    assert [json.loads(call.arguments) for call in calls] == [GIVEN, GIVEN]
    items: Any = [
        {"role": "user", "content": "How?"},
        *(item.model_dump() for item in response.output),
        *({"type": "function_call_output", "call_id": call.call_id, "output": "4 C"}
          for call in calls),
    ]  # fmt: skip
    create(model="m", input=items, tools=[tool])
    _, answered, *results = history(engine)
    assert answered.ids is not None and len(answered.calls) == 2
    assert [(each.text, each.name) for each in results] == [("4 C", "weather")] * 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": {}}, ""),
        ({"tools": [1]}, "tools.0"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools.0"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0"),
        ({"tools": "weather"}, "tools"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "no"}}},
         "tool_choice"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": 1}]}]},
         "messages.0.tool_calls.0"),
        ({"messages": [{"role": "assistant", "tool_calls": [
            {"function": {"name": "a", "arguments": []}}]}]},
         "messages.0.tool_calls.0.function.arguments"),
        ({"messages": [{"role": "tool", "content": 4}]}, "messages.0.content"),
    ],
)  # fmt: skip
def test_A3_tools_that_can_not_be_used_are_named(
    served: Served, engine: ScriptedEngine, fields: dict[str, Any], field: str
) -> None:
    body = json.dumps({"messages": [QUESTION], **fields}).encode()
    status, answer = served.raw("/v1/chat/completions", body)
    if not field:
        assert status == 200
        return
    assert status == 400 and json.loads(answer)["error"]["param"] == field
    assert engine.commands == []


@pytest.mark.parametrize("text", ['{"town": "Os', "[]", '{"a": ' + "[" * 900 + "]" * 900 + "}"])
def test_A3_a_call_that_breaks_off_can_be_sent_back(
    served: Served, engine: ScriptedEngine, text: str
) -> None:
    function = {"name": "weather", "arguments": text}
    calling: Any = {"role": "assistant", "tool_calls": [{"id": "a", "function": function}]}
    result: Any = {"role": "tool", "tool_call_id": "a", "content": "What?"}
    served.openai().chat.completions.create(model="m", messages=[QUESTION, calling, result])
    assert json.loads(history(engine)[1].calls[0].arguments) == {"INVALID_JSON": text}


def test_A3_a_model_without_tools_says_so(served: Served, engine: ScriptedEngine) -> None:
    engine.model = MODEL
    create: Any = served.openai().chat.completions.create
    error = refused(lambda: create(model="m", messages=[QUESTION], tools=[TOOL]))
    assert error.status_code == 400 and error.code == "tools_unsupported"
    assert error.param == "tools" and "no tools" in error.message
    assert create(model="m", messages=[QUESTION], tools=[TOOL], tool_choice="none")


@pytest.mark.parametrize("path", ["/tokenize", "/v1/chat/completions"])
@pytest.mark.parametrize("long", [
    {"role": "user", "content": "a" * 80_000},
    {"role": "user", "content": [{"type": "text", "text": ""}] * 80_000},
    {"role": "tool", "content": "", "name": "a" * 80_000},
    {"role": "assistant", "tool_calls": [{"function": {"name": "a" * 80_000, "arguments": {}}}]},
])  # fmt: skip
def test_A3_a_prompt_that_can_not_fit_is_refused_before_it_is_tokenised(
    served: Served, engine: ScriptedEngine, path: str, long: dict[str, Any]
) -> None:
    status, answer = served.raw(path, json.dumps({"messages": [long]}).encode())
    assert status == 400
    assert json.loads(answer)["error"]["code"] == "context_length_exceeded"
    assert engine.commands == [] and engine.counted == []


def test_a_call_has_to_be_made_where_the_choice_demands_it(
    served: Served, engine: ScriptedEngine
) -> None:
    create: Any = served.openai().chat.completions.create
    create(model="m", messages=[QUESTION], tools=[TOOL], tool_choice="required",
           parallel_tool_calls=False)  # fmt: skip
    form = engine.commands[0].format
    assert form is not None and form.kind == "calls"
    assert json.loads(form.text)["parallel"] is False
    assert json.loads(form.text)["functions"] == [{"name": "weather", "parameters": SCHEMA}]


def test_A3_half_a_character_in_a_tool_that_must_be_called(
    served: Served, engine: ScriptedEngine
) -> None:
    function = {"name": "weather", "parameters": {"type": "object", "title": "\ud800"}}
    body = {"messages": [QUESTION], "tool_choice": "required", "tools": [{"function": function}]}
    status, _ = served.raw("/v1/chat/completions", json.dumps(body).encode())
    assert status == 200 and engine.commands[0].format is not None


@pytest.mark.parametrize("name", ["calling", "calling_gemma4"])
def test_A1_calls_and_results_are_reused_on_a_real_model(
    name: str, folder_of: FolderOf, tmp_path: Path
) -> None:
    with serving_model(folder_of(name), tmp_path) as served:
        create: Any = served.openai().chat.completions.create
        messages = [QUESTION]
        read = list[int]()
        for turn in range(3):
            reply = create(
                model="m", messages=messages, tools=[TOOL], tool_choice="required", seed=turn,
                parallel_tool_calls=False, max_tokens=600, reasoning_effort="none",
            )  # fmt: skip
            served.settled()
            choice = reply.choices[0]
            assert choice.finish_reason == "tool_calls", (reply.timings, choice)
            assert not choice.message.content
            (call,) = choice.message.tool_calls
            arguments = json.loads(call.function.arguments)
            assert arguments.keys() == {"town", "unit"} and arguments["unit"] in ("C", "F")
            assert reply.timings["miss"] is None
            read.append(reply.timings["prompt_n"])
            messages += [
                choice.message.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call.id, "content": "It is 4 C."},
            ]
        # Only the result and the template's glue are read.
        assert read[1] == read[2] < 80 < read[0]
        other = {"type": "function", "function": {**TOOL["function"], "description": "Other"}}
        reply = create(model="m", messages=messages, tools=[other], max_tokens=1)
        assert reply.timings["miss"]["reason"] == "tools_changed"
