"""Reuse through the server, on a real worker with random weights, whose replies are hardly text."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from core.api.chat import Conversation, ImagePart, Message, SystemMessage, TextPart, UserMessage
from core.api.commands import Generate, PrefillReply
from core.api.events import Finished
from core.api.params import SamplingParams
from core.client.programs import RESOURCES, ROOT
from tests.server.serving import CACHE, KEY, LIMIT_S, Served, connected, serving_model, until

FolderOf = Callable[[str], Path]
PictureOf = Callable[..., ImagePart]
SYSTEM = "You are brief."
QUESTIONS = ("How tall is the tower?", "And how old is it?", "Who built it, and why?", "Thanks!")
SAMPLING = SamplingParams(temperature=0.8, seed=7, max_tokens=12)


async def as_the_window(model: Path, folder: Path, turns: list[UserMessage]) -> list[Finished]:
    """The same chat as the window sends it: replies as ids, prefilled when idle."""
    client = await connected(model, folder)
    messages: list[Message] = [SystemMessage(text=SYSTEM)]
    finished = []
    for turn in turns:
        messages.append(turn)
        options: Any = {"chat": "window", "cache": CACHE}
        conversation = Conversation(messages=tuple(messages))
        last = await client.ask(
            Generate(conversation=conversation, sampling=SAMPLING, **options)
        ).last()
        finished.append(last)
        messages.append(last.reply)
        conversation = Conversation(messages=tuple(messages))
        await client.ask(PrefillReply(conversation=conversation, **options)).last()
    await client.close()
    return finished


def content(turn: UserMessage) -> list[dict[str, Any]]:
    """A turn as a client sends it."""
    parts: list[dict[str, Any]] = []
    for part in turn.content:
        if isinstance(part, ImagePart):
            data = base64.b64encode(Path(part.path).read_bytes()).decode()
            url = {"url": f"data:image/png;base64,{data}"}
            parts.append({"type": "image_url", "image_url": url})
        else:
            parts.append({"type": "text", "text": part.text})
    return parts


def ask(served: Served, messages: list[Any], **fields: Any) -> tuple[str, Any]:
    """A reply's text and the counters beside it."""
    create: Any = served.openai().chat.completions.create
    reply = create(
        model="any", messages=messages, temperature=0.8, seed=7, **{"max_tokens": 12} | fields
    )
    served.settled()
    return reply.choices[0].message.content, reply.timings


@pytest.mark.parametrize("model", ["hybrid", "thinking", "qwen3"])
def test_A1_a_chat_sent_as_text_is_reused_and_answered_as_the_windows(
    folder_of: FolderOf, picture: PictureOf, tmp_path: Path, model: str
) -> None:
    turns = [UserMessage(content=(TextPart(text=question),)) for question in QUESTIONS]
    if model == "hybrid":
        turns[1] = UserMessage(content=(picture(1), *turns[1].content))
    folder = folder_of(model)
    expected = asyncio.run(as_the_window(folder, tmp_path, turns))
    with serving_model(folder, tmp_path) as served:
        messages: list[Any] = [{"role": "system", "content": SYSTEM}]
        for turn, finished in zip(turns, expected, strict=True):
            messages.append({"role": "user", "content": content(turn)})
            text, timings = ask(served, messages)
            stats = finished.stats
            assert text == finished.reply.text
            assert timings["cache_n"] == stats.reused_tokens
            assert timings["prompt_n"] == stats.evaluated_tokens
            assert timings["images_encoded"] == stats.images_encoded
            # Clients trim.
            messages.append({"role": "assistant", "content": text.strip()})
    assert all(finished.stats.reused_tokens for finished in expected[1:])


def test_a_reply_that_the_client_edited_is_read_again(folder_of: FolderOf, tmp_path: Path) -> None:
    with serving_model(folder_of("hybrid"), tmp_path) as served:
        messages: list[Any] = [{"role": "user", "content": QUESTIONS[0]}]
        text, _ = ask(served, messages)
        messages += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": QUESTIONS[1]},
        ]
        _, timings = ask(served, messages)
        assert timings["miss"] is None
        messages[1]["content"] = f"{text} edited"
        _, edited = ask(served, messages)
        assert edited["cache_n"] < timings["cache_n"]


def test_A2_side_requests_evict_and_keep_nothing(folder_of: FolderOf, tmp_path: Path) -> None:
    with serving_model(folder_of("hybrid"), tmp_path) as served:
        messages: list[Any] = [{"role": "user", "content": QUESTIONS[0]}]
        text, _ = ask(served, messages)
        title = f"Name this chat in a few words:\nUser: {QUESTIONS[0]}\nAssistant: {text}"
        for _ in range(2):
            _, side = ask(served, [{"role": "user", "content": title}])
            assert side["side"]
        messages += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": QUESTIONS[1]},
        ]
        _, timings = ask(served, messages)
        assert timings["miss"] is None and timings["restored_from"] == "memory"


def test_a_schema_holds(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
              "additionalProperties": False}  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    with serving_model(RESOURCES / "models" / "demo", tmp_path) as served:
        messages = [{"role": "user", "content": QUESTIONS[0]}]
        text, _ = ask(
            served, messages, response_format=form, reasoning_effort="none", max_tokens=99
        )
        assert "".join(text.split()) in ('{"a":true}', '{"a":false}')


def test_A3_the_engine_is_free_as_soon_as_a_client_has_gone(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    with serving_model(folder_of("hybrid"), tmp_path) as served:
        messages: Any = [{"role": "user", "content": QUESTIONS[0]}]
        create: Any = served.openai().chat.completions.create
        stream = create(model="any", messages=messages, stream=True, max_tokens=100_000)
        next(iter(stream))
        stream.close()
        text, _ = ask(served, messages)
        assert text


@pytest.mark.parametrize("stream", [False, True])
def test_a_message_names_the_stop_sequence_that_ended_it(
    folder_of: FolderOf, tmp_path: Path, stream: bool
) -> None:
    with serving_model(folder_of("hybrid"), tmp_path) as served:
        messages: list[Any] = [{"role": "user", "content": QUESTIONS[0]}]
        greedy = {"temperature": 0.0}
        asked: Any = {"model": "m", "messages": messages, "max_tokens": 40, "extra_body": greedy}
        client = served.anthropic().messages

        def reply(**fields: Any) -> Any:
            if not stream:
                return client.create(**asked, **fields)
            with client.stream(**asked, **fields) as events:
                return events.get_final_message()

        whole = reply().content[0].text
        stop = whole[1:]
        ended = reply(stop_sequences=["never said by it", stop])
        assert (ended.stop_reason, ended.stop_sequence) == ("stop_sequence", stop)
        assert ended.content[0].text == whole[:1]


def health(client: openai.OpenAI) -> Any:
    url = str(client.base_url).replace("/v1/", "/health")
    return client.get(url, cast_to=dict[str, Any])


@pytest.mark.slow
def test_D1_a_server_that_is_ended_by_the_system_writes_what_it_has_read(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "core.server", "--model", str(RESOURCES / "models" / "demo"),
        "--port", "0", "--key", KEY, "--data", str(tmp_path),
    ]  # fmt: skip
    messages: list[Any] = [{"role": "user", "content": "What do you see?"}]
    cached = list[int]()
    for _ in range(2):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            with openai.OpenAI(base_url=address, api_key=KEY, timeout=LIMIT_S) as client:
                create: Any = client.chat.completions.create
                reply = create(model="any", messages=messages, max_tokens=4)
                until(lambda: health(client)["preparing"] == 0)
            cached.append(reply.usage.prompt_tokens_details.cached_tokens)
            process.terminate()
            assert process.wait(LIMIT_S) == 0
        messages += [reply.choices[0].message, {"role": "user", "content": "And now?"}]
    assert cached[0] == 0 < cached[1]
