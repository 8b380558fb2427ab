"""Answers of the programs are recognised and read; requests hold only fields that they know."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from core.api.chat import (
    AssistantMessage,
    Conversation,
    ImagePart,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.params import SamplingParams
from core.api.reply_format import ReplyFormat
from core.remote.messages import Kind, Look, Looked, RemoteModel
from core.remote.reading import ReplyReader
from tests.remote import formats
from tests.remote.fake_server import FakeServer, as_json, delta, streamed
from tests.remote.talking import Talk, asked, reply_of, talk

LISTS: dict[Kind, tuple[Any, tuple[RemoteModel, ...]]] = {
    "vllm": (formats.VLLM_MODELS, (RemoteModel(name="Qwen/Qwen3-8B", context_length=40960),)),
    "sglang": (
        formats.SGLANG_MODELS,
        (RemoteModel(name="qwen/qwen2.5-0.5b-instruct", context_length=32768),),
    ),
    "llamacpp": (
        formats.LLAMACPP_MODELS,
        (RemoteModel(name="gemma-3-4b-it-Q4_K_M.gguf", context_length=131072),),
    ),
    "ollama": (
        formats.OLLAMA_MODELS,
        (RemoteModel(name="qwen3:8b"), RemoteModel(name="llama3.2:latest")),
    ),
    "lmstudio": (
        formats.LMSTUDIO_MODELS,
        (RemoteModel(name="qwen2-vl-7b-instruct", context_length=32768, vision=True),),
    ),
    "other": ({"data": [{"id": "gpt", "owned_by": "someone"}]}, (RemoteModel(name="gpt"),)),
}
STREAMS: dict[Kind, list[Any]] = {
    "vllm": formats.VLLM,
    "sglang": formats.SGLANG,
    "llamacpp": formats.LLAMACPP,
    "ollama": formats.OLLAMA,
    "lmstudio": formats.LMSTUDIO,
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("typed", ["", "/v1", "/v1/", "/v1/chat/completions"])
def test_a_server_is_recognised_by_its_list(kind: Kind, typed: str) -> None:
    listed, models = LISTS[kind]
    with FakeServer() as server:
        server.on("/v1/models", as_json(listed))
        server.on("/api/v0/models", as_json(formats.LMSTUDIO_OWN))
        address = f"127.0.0.1:{server.port}{typed}"
        heard = talk(Look(request=1, address=address, key="secret")).events[-1]
    assert isinstance(heard, Looked)
    assert (heard.server.kind, heard.server.models) == (kind, models)
    assert heard.server.address == server.address and heard.server.keyed
    assert {each.headers["authorization"] for each in server.asked} == {"Bearer secret"}


def test_an_endpoint_without_v1_is_found() -> None:
    with FakeServer() as server:
        server.on("/api/models", as_json({"data": [{"id": "gpt"}]}))
        heard = talk(Look(request=1, address=f"127.0.0.1:{server.port}/api")).events[-1]
    assert isinstance(heard, Looked)
    assert heard.server.address == f"http://127.0.0.1:{server.port}/api"


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("whole", [False, True])
def test_a_reply_is_read_in_every_format(kind: Kind, whole: bool) -> None:
    stream = STREAMS[kind]
    model = str(stream[0]["model"])
    answer = streamed(*stream)
    if whole:
        # All in one piece, and cut in the middle of its lines.
        joined = b": comment\r\n\r\n" + b"".join(answer.body).replace(b"\n", b"\r\n")
        answer.body = [joined[:150], joined[150:151], joined[151:]]
    with FakeServer() as server:
        server.chat(answer)
        heard = talk(reply_of(server.address, model=model, kind=kind))
    assert (heard.text, heard.reasoning.strip()) == ("Red.", "Easy.")
    end = heard.finished
    assert (end.reason, end.reply.text, end.reply.reasoning.strip()) == ("stop", "Red.", "Easy.")
    stats, report = end.stats, end.stats.remote
    assert report is not None and report.prompt and report.host == f"127.0.0.1:{server.port}"
    assert (stats.prompt_tokens, stats.reply_tokens) == (300, 4)
    assert report.cached is (kind in ("vllm", "llamacpp", "ollama"))
    assert stats.reused_tokens == (256 if report.cached else 0)
    assert stats.ttft_s is not None
    if kind == "llamacpp":
        # What arrives together is told once.
        assert heard.progress[-1].done == 300
        assert stats.decode_tokens_per_s == 20.0
    ids = end.reply.ids
    assert (ids.unpack() if ids else None) == ([7, 11, 12, 13] if kind == "vllm" else None)


def test_speed_is_measured_where_the_server_reports_none() -> None:
    moments = iter([10.0, 12.0, 13.5])
    reader = ReplyReader(reply_of("http://host/v1"), lambda: next(moments))
    for text in ("Red", "."):
        reader.take([json.dumps(delta(text, reason="stop"))])
    reader.take([json.dumps({"usage": {"prompt_tokens": 300, "completion_tokens": 4}})])
    stats = reader.finished().stats
    assert (stats.ttft_s, stats.decode_tokens_per_s) == (2.0, 2.0)


def sent(kind: Kind = "other", **request: Any) -> dict[str, Any]:
    with FakeServer() as server:
        server.chat(streamed(delta("Yes.", reason="stop")))
        heard = talk(reply_of(server.address, asked(**request), kind=kind, key="secret"))
        (only,) = server.asked
    assert heard.finished.reply.text == "Yes."
    assert only.headers["authorization"] == "Bearer secret"
    body = only.body
    assert isinstance(body, dict)
    return body


def test_a_chat_is_sent_with_roles_and_history() -> None:
    conversation = Conversation(
        messages=(
            SystemMessage(text="Be short."),
            UserMessage(content=(TextPart(text="Hi"),)),
            AssistantMessage(text="Hello.", reasoning="A greeting."),
            UserMessage(content=(TextPart(text="Half a pair: \ud83d"),)),
        )
    )
    assert sent(conversation=conversation)["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Half a pair: ?"},
    ]


def test_only_what_a_program_knows_is_sent() -> None:
    sampling = SamplingParams(
        temperature=0.5, top_k=0, top_p=0.9, min_p=0.1, repetition_penalty=1.1, seed=2**40 + 5,
        max_tokens=7, stop=("END",), presence_penalty=0.2, frequency_penalty=0.3,
    )  # fmt: skip
    standard = {
        "temperature": 0.5, "top_p": 0.9, "presence_penalty": 0.2, "frequency_penalty": 0.3,
        "max_tokens": 7, "seed": 5, "stop": ["END"],
    }  # fmt: skip
    usual = {"model", "messages", "stream", "stream_options"}

    def fields(kind: Kind) -> dict[str, Any]:
        body = sent(kind, sampling=sampling, thinking=False)
        assert body["stream"] is True and body["stream_options"] == {"include_usage": True}
        return {name: value for name, value in body.items() if name not in usual}

    template = {"chat_template_kwargs": {"enable_thinking": False}}
    assert fields("other") == standard
    assert fields("vllm") == {
        **standard, **template, "top_k": -1, "min_p": 0.1, "repetition_penalty": 1.1,
        "return_token_ids": True,
    }  # fmt: skip
    assert fields("llamacpp") == {
        **standard, **template, "top_k": 0, "min_p": 0.1, "repeat_penalty": 1.1,
        "return_progress": True,
    }  # fmt: skip
    assert fields("ollama") == {**standard, "reasoning_effort": "none"}
    assert sent(sampling=SamplingParams(top_p=0))["temperature"] == 0
    assert set(sent("vllm")) == {*usual, "return_token_ids"}


def test_a_format_is_sent_as_the_program_takes_it() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = ReplyFormat(kind="json_schema", text=json.dumps(schema))
    named = {"name": "reply", "schema": schema, "strict": True}
    assert sent(format=form)["response_format"] == {"type": "json_schema", "json_schema": named}
    free = ReplyFormat(kind="json")
    assert sent(format=free)["response_format"] == {"type": "json_object"}
    assert sent("lmstudio", format=free)["response_format"]["type"] == "json_schema"
    with FakeServer() as server:
        regex = ReplyFormat(kind="regex", text="a+")
        heard = talk(reply_of(server.address, asked(format=regex)))
    assert heard.error == "ReplyFormatError" and server.asked == []


def picture_message(folder: Path, data: bytes) -> Conversation:
    digest = hashlib.sha256(data).hexdigest()
    path = folder / digest
    path.write_bytes(data)
    image = ImagePart(digest=digest, path=str(path), name="photo")
    return Conversation(messages=(UserMessage(content=(image, TextPart(text="Which?"))),))


@pytest.mark.parametrize(("kind", "turned"), [("PNG", False), ("JPEG", True), ("TIFF", False)])
def test_a_picture_is_sent_upright_in_a_format_that_all_open(
    kind: str, turned: bool, tmp_path: Path
) -> None:
    data = io.BytesIO()
    picture, exif = Image.new("RGB", (40, 20), "red"), Image.Exif()
    exif[0x0112] = 6 if turned else 1
    picture.save(data, kind, **({"exif": exif} if turned else {}))
    (message,) = sent(conversation=picture_message(tmp_path, data.getvalue()))["messages"]
    first, second = message["content"]
    assert second == {"type": "text", "text": "Which?"}
    head, _, coded = first["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    if kind == "PNG":
        assert base64.b64decode(coded) == data.getvalue()
    with Image.open(io.BytesIO(base64.b64decode(coded))) as seen:
        assert seen.size == ((20, 40) if turned else (40, 20))


def test_texts_without_pictures_are_sent_as_one() -> None:
    parts = (TextPart(text="A document.\n\n"), TextPart(text="Which?"))
    conversation = Conversation(messages=(UserMessage(content=parts),))
    (message,) = sent(conversation=conversation)["messages"]
    assert message == {"role": "user", "content": "A document.\n\nWhich?"}


def test_a_picture_that_is_gone_costs_its_error_and_sends_nothing(tmp_path: Path) -> None:
    conversation = picture_message(tmp_path, b"gone")
    for file in tmp_path.iterdir():
        file.unlink()
    with FakeServer() as server:
        heard: Talk = talk(reply_of(server.address, asked(conversation=conversation)))
    assert heard.error == "ImageUnreadableError" and server.asked == []
