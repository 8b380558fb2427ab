"""Anthropic's own client against a scripted engine."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import anthropic
import pytest

from core.api.chat import AssistantMessage, ImagePart, SystemMessage, UserMessage
from core.api.errors import InternalError, PromptTooLongError
from core.api.events import Failed
from core.api.params import Thinking
from tests.server.serving import ScriptedEngine, Served, serving

HELLO: Any = [{"role": "user", "content": "Hello"}]
PNG = base64.b64encode(b"\x89PNG and more").decode()
SCHEMA = {"type": "object"}


def test_a_message_as_a_whole(served: Served, engine: ScriptedEngine) -> None:
    message = served.anthropic().messages.create(
        model="any", max_tokens=9, messages=HELLO, system="Be brief.", stop_sequences=["\n"],
        extra_body={"metadata": {"user_id": "me"}, "unknown": 1, "top_k": 3, "temperature": 0.5},
    )  # fmt: skip
    thought, text = message.content
    assert thought.type == "thinking" and thought.thinking == "I see"
    assert text.type == "text" and text.text == "A fine day."
    assert (message.stop_reason, message.model) == ("end_turn", "scripted")
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (3, 7, 2)
    command = engine.commands[0]
    assert command.conversation.messages[0] == SystemMessage(text="Be brief.")
    sampling = command.sampling
    assert (sampling.max_tokens, sampling.stop, sampling.top_k) == (9, ("\n",), 3)


def test_a_message_as_a_stream(served: Served) -> None:
    """The client's own accumulation of the events is the whole message."""
    kinds, begun = list[str](), None
    with served.anthropic().messages.stream(model="any", max_tokens=9, messages=HELLO) as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "message_start":
                begun = event.message.usage
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[1].type == "text" and message.content[1].text == "A fine day."
    assert (message.stop_reason, message.usage.cache_read_input_tokens) == ("end_turn", 7)
    assert begun is not None and (begun.input_tokens, begun.cache_read_input_tokens) == (3, 7)
    starts = [kind for kind in kinds if kind in ("content_block_start", "content_block_stop")]
    assert starts == ["content_block_start", "content_block_stop"] * 2
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"


def test_content_blocks(served: Served, engine: ScriptedEngine) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    messages: Any = [
        {"role": "user", "content": [
            {"type": "image", "source": source},
            {"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "A picture", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "Nice."},
        ]},
        {"role": "user", "content": "And?"},
    ]  # fmt: skip
    system: Any = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": " Be kind."}]
    served.anthropic().messages.create(model="any", max_tokens=9, messages=messages, system=system)
    first, look, nice, _ = engine.commands[0].conversation.messages
    assert first == SystemMessage(text="Be brief. Be kind.")
    assert isinstance(look, UserMessage) and isinstance(look.content[0], ImagePart)
    assert nice == AssistantMessage(text="Nice.", reasoning="A picture")


@pytest.mark.parametrize(
    ("fields", "thinking", "form"),
    [
        ({}, None, None),
        ({"thinking": {"type": "disabled"}}, False, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, True, None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low", None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, True, None),
        ({"output_config": {"effort": "low"}}, None, None),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            None,
            "json_schema",
        ),
        ({"output_format": {"type": "json_schema", "schema": SCHEMA}}, None, "json_schema"),
    ],
)
def test_thinking_and_formats(
    served: Served, engine: ScriptedEngine, fields: Any, thinking: Thinking, form: str | None
) -> None:
    served.anthropic().messages.create(model="any", max_tokens=9, messages=HELLO, extra_body=fields)
    command = engine.commands[0]
    assert command.thinking == thinking
    assert (command.format.kind if command.format is not None else None) == form


def test_tokens_are_counted(served: Served, engine: ScriptedEngine) -> None:
    counted = served.anthropic().messages.count_tokens(model="any", messages=HELLO)
    assert counted.input_tokens == 3 and engine.counted[-1].conversation.messages


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"messages": []}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"tools": [{"name": "f"}]}, "tools"),
        (
            {"messages": [{"role": "user", "content": [
                {"type": "image", "source": {"type": "url", "url": "http://a/b"}}]}]},
            "messages.0.content.0",
        ),
        (
            {"system": [{"type": "image", "source": {"type": "base64", "data": "iVBORw=="}}]},
            "system",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages"),
        ({"output_format": {"type": "xml"}}, "output_format.type"),
    ],
)  # fmt: skip
def test_A3_a_messages_error_names_the_field(
    served: Served, fields: dict[str, object], field: str
) -> None:
    body = json.dumps({"max_tokens": 9, "messages": HELLO, **fields}).encode()
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        if "count" not in path or "max_tokens" not in fields:
            status, answer = served.raw(path, body)
            error = json.loads(answer)["error"]
            assert (status, error["type"]) == (400, "invalid_request_error")
            assert error["message"].startswith(field)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        # Claude Code looks for these words, and then shortens the chat.
        (PromptTooLongError("Too long.", 5), anthropic.BadRequestError,
         "Prompt is too long: 5 tokens > 100 maximum"),
        (InternalError("Oops."), anthropic.InternalServerError, "Oops"),
    ],
)  # fmt: skip
def test_A3_errors_of_the_engine_are_the_clients_errors(
    tmp_path: Path, error: Any, kind: type[Exception], words: str, stream: bool
) -> None:
    engine = ScriptedEngine(Failed(request=0, error=error.info()))
    with serving(engine.connect, tmp_path) as served:
        create: Any = served.anthropic().messages.create
        with pytest.raises(kind, match=words):
            create(model="any", max_tokens=9, messages=HELLO, stream=stream)
