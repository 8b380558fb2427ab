"""Waymark's own server as a remote engine: the reply there is the reply here."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.api.chat import AssistantMessage, Conversation, Message, TextPart, UserMessage
from core.api.commands import Generate
from core.api.events import Finished
from core.api.params import ModelSettings, SamplingParams
from core.client.client import EngineClient
from core.client.programs import RESOURCES
from core.remote.client import RemoteClient
from core.remote.messages import RemoteServer
from tests.server.serving import KEY, Served, serving_model

DEMO = RESOURCES / "models" / "demo"
SAMPLING = SamplingParams(temperature=0, max_tokens=12)


def asked(*messages: Message) -> Generate:
    return Generate(conversation=Conversation(messages=messages), sampling=SAMPLING)


def said(text: str) -> UserMessage:
    return UserMessage(content=(TextPart(text=text),))


async def here(command: Generate) -> Finished:
    client = EngineClient()
    await client.start()
    await client.load(ModelSettings(path=str(DEMO), device="cpu"))
    finished = await client.ask(command).last()
    await client.close()
    return finished


async def there(served: Served) -> tuple[RemoteServer, Finished, Finished]:
    """The server, a reply through the child process, and the next turn."""
    client = RemoteClient()
    server = await client.look(f"127.0.0.1:{served.port}", KEY, "")
    model = server.models[0].name
    first = said("What can you see?")
    one = await client.ask(asked(first), server, model, KEY, "").last()
    await asyncio.to_thread(served.settled)
    reply = AssistantMessage(text=one.reply.text)
    more = asked(first, reply, said("And what colour is it?"))
    two = await client.ask(more, server, model, KEY, "").last()
    await client.close()
    return server, one, two


def test_a_reply_from_another_waymark_is_the_one_from_here(tmp_path: Path) -> None:
    with serving_model(DEMO, tmp_path) as served:
        server, one, two = asyncio.run(there(served))
    local = asyncio.run(here(asked(said("What can you see?"))))
    assert server.kind == "waymark" and server.models[0].vision
    assert one.reply.text == local.reply.text and one.reply.text
    report = two.stats.remote
    assert report is not None and report.cached
    assert two.stats.reused_tokens >= one.stats.prompt_tokens
    assert one.stats.prompt_tokens == local.stats.prompt_tokens
