"""Ollama's own client against a scripted engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import ollama
import pytest

from core.api.chat import AssistantMessage, ImagePart, ToolMessage, UserMessage
from core.api.errors import InternalError, PromptTooLongError
from core.api.events import Failed
from core.api.reply_format import ReplyFormat
from tests.server.serving import KEY, MODEL, ScriptedEngine, Served, serving

HELLO = [{"role": "user", "content": "Hello"}]
PNG = b"\x89PNG\r\n\x1a\n and more"
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Oslo"}}\n</tool_call>'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    engine = ScriptedEngine(then="I see|A fine day.")
    engine.model = MODEL.model_copy(update={"tools": "hermes", "family": "qwen3_5"})
    with serving(engine.connect, tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[ollama.Client]:
    with ollama.Client(served.url, headers={"Authorization": f"Bearer {KEY}"}) as client:
        yield client


def test_a_reply_as_a_whole(client: ollama.Client) -> None:
    reply = client.chat("scripted", HELLO)
    assert (reply.message.role, reply.message.content) == ("assistant", "A fine day.")
    assert reply.message.thinking == "I see"
    assert reply.done and reply.done_reason == "stop" and reply.model == "scripted"
    assert (reply.prompt_eval_count, reply.eval_count) == (10, 2)
    assert reply.prompt_eval_duration == reply.total_duration == 500_000_000


def test_a_reply_as_a_stream(client: ollama.Client, served: Served) -> None:
    parts = list(client.chat("scripted", HELLO, stream=True))
    assert "".join(part.message.content or "" for part in parts) == "A fine day."
    assert "".join(part.message.thinking or "" for part in parts) == "I see"
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    # By the protocol, a request that doesn't say so is streamed.
    status, body = served.raw("/api/chat", json.dumps({"messages": HELLO}).encode())
    assert status == 200 and body.count(b'"done":false') > 1 and b'"cache_n":7' in body


def test_fields(client: ollama.Client, engine: ScriptedEngine) -> None:
    options = {"temperature": 0.5, "num_predict": 9, "stop": ["\n"], "seed": -1, "num_ctx": 4096}
    message = {"role": "user", "content": "What is it?", "images": [PNG]}
    client.chat("any", [message], options=options, think="high", format="json", keep_alive="5m")
    client.chat("any", HELLO, think=False, format={"type": "object"})
    client.chat("any", HELLO)
    first, second, third = engine.commands
    assert first.sampling.model_dump(exclude_defaults=True) == {
        "temperature": 0.5, "max_tokens": 9, "stop": ("\n",)
    }  # fmt: skip
    (asked,) = first.conversation.messages
    assert isinstance(asked, UserMessage) and isinstance(asked.content[1], ImagePart)
    assert [each.thinking for each in (first, second, third)] == ["high", False, None]
    assert first.format == ReplyFormat(kind="json")
    assert second.format == ReplyFormat(kind="json_schema", text='{"type": "object"}')


@pytest.mark.parametrize("stream", [False, True])
def test_tools_are_called_and_answered(
    client: ollama.Client, engine: ScriptedEngine, stream: bool
) -> None:
    engine.answer_next(CALL)
    if stream:
        parts = list(client.chat("m", HELLO, tools=[TOOL], stream=True))
        messages = [part.message for part in parts if part.message.tool_calls]
        assert parts[-1].done_reason == "stop"
    else:
        messages = [client.chat("m", HELLO, tools=[TOOL]).message]
    (message,) = messages
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", {"town": "Oslo"})
    result = {"role": "tool", "tool_name": "weather", "content": "4 C"}
    client.chat("m", [*HELLO, message, result], tools=[TOOL])
    _, answered, given = engine.commands[-1].conversation.messages
    assert isinstance(answered, AssistantMessage) and answered.ids is not None
    assert given == ToolMessage(text="4 C", name="weather")


def test_models_and_version(client: ollama.Client, served: Served) -> None:
    (model,) = client.list().models
    assert model.model == "scripted" and model.details is not None
    assert model.details.family == "qwen3_5" and model.details.parameter_size == "3.4M"
    for name in ("scripted", "scripted:latest"):
        shown = client.show(name)
        assert shown.capabilities == ["completion", "vision", "tools", "thinking"]
        assert shown.modelinfo is not None
        assert shown.modelinfo["qwen3_5.context_length"] == 100
    status, body = served.raw("/api/version")
    assert status == 200 and json.loads(body)["version"].count(".") == 2


def test_A3_errors_are_the_protocols(
    client: ollama.Client, served: Served, engine: ScriptedEngine
) -> None:
    for call, status, words in (
        (lambda: client.show("other"), 404, "no model of this name"),
        (lambda: client.chat("m", []), 400, "messages: "),
        (lambda: client.chat("m", HELLO, options={"temperature": -1.0}), 400, "options.temp"),
        (lambda: client.chat("m", HELLO, tools=[{}]), 400, "tools.0: "),
        (lambda: client.chat("m", [{"role": "user"}] * 10_000), 400, "messages: .* It has more "),
    ):
        with pytest.raises(ollama.ResponseError, match=words) as caught:
            call()
        assert caught.value.status_code == status
    images: list[object] = [None, 1, [], {}, "?"]
    for image in images:
        body = {"messages": [{"role": "user", "content": "What?", "images": [image]}]}
        status, answer = served.raw("/api/chat", json.dumps(body).encode())
        assert status == 400 and b"messages.0.images.0: " in answer
    engine.answer_next(Failed(request=0, error=PromptTooLongError("Too long.", 200).info()))
    with pytest.raises(ollama.ResponseError, match=r"messages: .* 200 tokens > 100"):
        client.chat("m", HELLO)
    engine.answer_next(Failed(request=0, error=InternalError("x", "Broken").info()))
    with pytest.raises(ollama.ResponseError, match="Broken"):
        list(client.chat("m", HELLO, stream=True))
    with ollama.Client(served.url) as keyless, pytest.raises(ollama.ResponseError, match="key"):
        keyless.list()
