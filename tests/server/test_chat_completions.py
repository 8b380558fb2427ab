"""OpenAI's own client against a scripted engine: every field in, every field out."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import AssistantMessage, ImagePart, SystemMessage, TextPart, UserMessage
from core.api.errors import InternalError, PromptTooLongError, ReplyFormatError, WaymarkError
from core.api.events import Failed
from core.api.params import Thinking
from core.api.reply_format import ReplyFormat
from core.client.blobs import BlobStore
from tests.server.serving import ScriptedEngine, Served, refused, serving

HELLO: Any = [{"role": "user", "content": "Hello"}]
PNG = b"\x89PNG and more"
DATA_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def test_a_reply_as_a_whole(served: Served) -> None:
    reply = served.openai().chat.completions.create(model="any", messages=HELLO)
    choice, usage = reply.choices[0], reply.usage
    assert choice.message.content == "A fine day." and choice.finish_reason == "stop"
    assert choice.message.model_extra == {"reasoning_content": "I see"}
    assert reply.model == "scripted" and reply.object == "chat.completion"
    assert usage is not None and usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 2, 12)
    assert usage.prompt_tokens_details.cached_tokens == 7
    assert reply.model_extra is not None
    timings = reply.model_extra["timings"]
    assert (timings["cache_n"], timings["prompt_n"], timings["miss"]) == (7, 3, None)
    assert timings["first_token_ms"] == 500.0


@pytest.mark.parametrize("usage", [True, False])
def test_a_reply_as_a_stream(served: Served, usage: bool) -> None:
    chunks = list(
        served.openai().chat.completions.create(
            model="any", messages=HELLO, stream=True, stream_options={"include_usage": usage}
        )
    )
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "A fine day."
    thoughts = [(choice.delta.model_extra or {}).get("reasoning_content") for choice in choices]
    assert [thought for thought in thoughts if thought] == ["I see"]
    assert choices[0].delta.role == "assistant"
    assert [choice.finish_reason for choice in choices[-2:]] == [None, "stop"]
    assert len({chunk.id for chunk in chunks}) == 1
    last = chunks[-1]
    assert (last.usage is not None) == usage and bool(last.choices) != usage
    if last.usage is not None:
        assert last.usage.prompt_tokens_details is not None
        assert last.usage.prompt_tokens_details.cached_tokens == 7


def test_sampling_fields(served: Served, engine: ScriptedEngine) -> None:
    served.openai().chat.completions.create(
        model="any", messages=HELLO, temperature=0.5, top_p=0.9, seed=-3, stop="\n",
        presence_penalty=0.1, frequency_penalty=0.2, max_completion_tokens=9, max_tokens=7,
        extra_body={"top_k": 5.0, "min_p": 0.1, "repeat_penalty": 1.1},
    )  # fmt: skip
    sampling = engine.commands[0].sampling
    assert sampling.model_dump() == {
        "temperature": 0.5, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1,
        "presence_penalty": 0.1, "frequency_penalty": 0.2, "seed": 2**63 - 3, "max_tokens": 9,
        "stop": ("\n",),
    }  # fmt: skip


SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("asked", "form"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, ReplyFormat(kind="json")),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
            ReplyFormat(kind="json_schema", text=json.dumps(SCHEMA)),
        ),
    ],
)
def test_formats(
    served: Served, engine: ScriptedEngine, asked: Any, form: ReplyFormat | None
) -> None:
    served.openai().chat.completions.create(model="any", messages=HELLO, response_format=asked)
    assert engine.commands[0].format == form


@pytest.mark.parametrize(
    ("fields", "thinking"),
    [
        ({}, None),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "minimal"}, True),
        ({"reasoning_effort": "low"}, "low"),
        ({"chat_template_kwargs": {"reasoning_effort": "high"}}, "high"),
        ({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"enable_thinking": True, "other": 1}}, True),
        ({"chat_template_kwargs": "nonsense", "reasoning_effort": 3}, None),
    ],
)
def test_thinking(served: Served, engine: ScriptedEngine, fields: Any, thinking: Thinking) -> None:
    served.openai().chat.completions.create(model="any", messages=HELLO, extra_body=fields)
    assert engine.commands[0].thinking == thinking


def test_messages_of_all_kinds(served: Served, engine: ScriptedEngine) -> None:
    """System messages come first or become the user's; a picture is a file by its digest."""
    messages: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": DATA_URL}},
        ]},
        {"role": "assistant", "content": "Nice.", "reasoning_content": "A picture"},
        {"role": "system", "content": "It is noon."},
        {"role": "user", "content": "And now?", "name": "Ann"},
    ]  # fmt: skip
    served.openai().chat.completions.create(model="any", messages=messages)
    digest = hashlib.sha256(PNG).hexdigest()
    system, first, reply, last = engine.commands[0].conversation.messages
    assert system == SystemMessage(text="Be brief.\n\nBe kind.")
    assert isinstance(first, UserMessage) and isinstance(last, UserMessage)
    image = first.content[1]
    assert first.content[0] == TextPart(text="Look:") and isinstance(image, ImagePart)
    assert (image.digest, image.name) == (digest, "messages.2.content.1")
    assert reply == AssistantMessage(text="Nice.", reasoning="A picture")
    texts = [part.text for part in last.content if isinstance(part, TextPart)]
    assert texts == ["It is noon.\n\n", "And now?"]


def test_A3_unknown_and_hosted_only_fields_are_no_error(served: Served) -> None:
    hosted = {
        "store": True, "metadata": {"a": "b"}, "user": "me", "service_tier": "auto",
        "parallel_tool_calls": True, "prompt_cache_key": "k", "prompt_cache_retention": "24h",
        "safety_identifier": "s", "verbosity": "low", "logit_bias": {}, "tools": [], "n": 1,
        "tool_choice": "none", "session_id": 1, "whatever": {"deep": [1, None]}, "logprobs": False,
    }  # fmt: skip
    reply = served.openai().chat.completions.create(model="any", messages=HELLO, extra_body=hosted)
    assert reply.choices[0].message.content == "A fine day."


def parts(*content: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": list(content)}]}


def image(url: object) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_A3_a_full_disk_is_said(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(BlobStore, "put", full)
    body = json.dumps(parts(image(DATA_URL))).encode()
    status, answer = served.raw("/v1/chat/completions", body)
    assert status == 503 and json.loads(answer)["error"]["param"] == "messages.0.content.0"


TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"messages": []}, "messages", None),
        ({"messages": "Hello"}, "messages", None),
        ({"messages": [7]}, "messages.0", None),
        ({"messages": [{"role": "assistant", "content": ""}]}, "messages", None),
        ({"messages": [{"role": "robot", "content": ""}]}, "messages.0.role", None),
        ({"messages": [{"role": "user", "content": 7}]}, "messages.0.content", None),
        (parts(7), "messages.0.content.0", None),
        (parts({"type": "audio"}), "messages.0.content.0.type", None),
        (parts({"type": ["text"]}), "messages.0.content.0.type", None),
        (parts({"type": "text"}), "messages.0.content.0.text", None),
        (parts(image("http://a/b")), "messages.0.content.0", "image_address_refused"),
        (parts(image("file:///etc/passwd")), "messages.0.content.0", "image_address_refused"),
        (parts(image(None)), "messages.0.content.0", "image_address_refused"),
        (parts(image("data:image/png;base64,!")), "messages.0.content.0", None),
        (parts(image("data:image/png,abc")), "messages.0.content.0", None),
        (parts(image("data:image/png;base64,YWJj")), "messages.0.content.0", None),
        ({"temperature": -1}, "temperature", None),
        ({"temperature": "hot"}, "temperature", None),
        ({"max_tokens": 0}, "max_tokens", None),
        ({"seed": 2**64}, "seed", None),
        ({"stop": 7}, "stop", None),
        ({"stop": ["a", 7]}, "stop.1", None),
        ({"n": 2}, "n", None),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", None),
        ({"tools": [TOOL]}, "tools", "tools_unsupported"),
        ({"response_format": {"type": "yaml"}}, "response_format.type", None),
        ({"response_format": 7}, "response_format", None),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.schema",
            None,
        ),
    ],
)  # fmt: skip
def test_A3_an_error_names_the_field(
    served: Served, engine: ScriptedEngine, fields: Any, field: str, code: str | None
) -> None:
    body = {"messages": HELLO, **fields}
    status, answer = served.raw("/v1/chat/completions", json.dumps(body).encode())
    error = json.loads(answer)["error"]
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert (error["param"], error["code"]) == (field, code) and error["message"]
    assert engine.commands == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (PromptTooLongError("Too long.", 5), 400, "context_length_exceeded"),
        (ReplyFormatError("No such format."), 400, None),
        (WaymarkError("Gone."), 500, None),
        (InternalError("Oops."), 500, None),
    ],
)
def test_A3_errors_of_the_engine_have_a_status(
    tmp_path: Path, error: WaymarkError, status: int, code: str | None, stream: bool
) -> None:
    engine = ScriptedEngine(Failed(request=0, error=error.info()))
    with serving(engine.connect, tmp_path) as served:
        create: Any = served.openai().chat.completions.create
        raised = refused(lambda: create(model="any", messages=HELLO, stream=stream))
    assert (raised.status_code, raised.code) == (status, code)


def test_a_prompt_that_ends_in_a_reply_continues_it(served: Served, engine: ScriptedEngine) -> None:
    messages: Any = [*HELLO, {"role": "assistant", "content": "A fi"}]
    served.openai().chat.completions.create(model="any", messages=messages)
    assert engine.commands[0].conversation.messages[-1] == AssistantMessage(text="A fi")


def test_models_and_health(served: Served, engine: ScriptedEngine) -> None:
    client = served.openai()
    (model,) = client.models.list().data
    assert model.id == "scripted" and client.models.retrieve("scripted").id == "scripted"
    assert model.model_extra is not None
    assert model.model_extra["meta"]["capabilities"] == ["completion", "vision", "thinking"]
    assert refused(lambda: client.models.retrieve("other")).status_code == 404
    status, body = served.raw("/health")
    assert status == 200 and json.loads(body)["model"] == "scripted"
    engine.disk_trouble = "The disk is full."
    client.chat.completions.create(model="any", messages=HELLO)
    assert json.loads(served.raw("/health")[1])["disk_trouble"] == "The disk is full."
    assert served.raw("/nowhere")[0] == 404 and served.raw("/v1/chat/completions")[0] == 405


@pytest.mark.parametrize(
    ("path", "fields", "names"),
    [
        ("chat/completions", {"messages": HELLO}, ("messages", "response_format")),
        ("completions", {"prompt": "Hello"}, ("prompt", "response_format")),
        ("responses", {"input": "Hello"}, ("input", "text.format")),
        ("messages", {"messages": HELLO, "output_config": {"format": {"type": "json_object"}}},
         ("messages", "output_config.format")),
    ],
)  # fmt: skip
def test_A3_errors_of_the_engine_name_the_protocols_field(
    tmp_path: Path, path: str, fields: Any, names: tuple[str, str]
) -> None:
    errors = (PromptTooLongError("Too long.", 5), ReplyFormatError("No such format."))
    engine = ScriptedEngine(*(Failed(request=0, error=error.info()) for error in errors))
    with serving(engine.connect, tmp_path) as served:
        for name in names:
            status, answer = served.raw(f"/v1/{path}", json.dumps(fields).encode())
            error = json.loads(answer)["error"]
            assert status == 400
            assert error.get("param") == name or error["message"].startswith(f"{name}: ")


def test_every_event_is_one_line_for_any_client(tmp_path: Path) -> None:
    """Clients that split text at all of Unicode's line separators get whole events."""
    engine = ScriptedEngine(then="a\u2028b\x85c\u2029d")
    with serving(engine.connect, tmp_path) as served:
        body = json.dumps({"messages": HELLO, "stream": True}).encode()
        answer = served.raw("/v1/chat/completions", body)[1].decode()
    lines = [line.removeprefix("data: ") for line in answer.splitlines() if "{" in line]
    deltas = [json.loads(line)["choices"][0]["delta"].get("content", "") for line in lines]
    assert "".join(deltas) == "a\u2028b\x85c\u2029d"
