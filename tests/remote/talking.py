"""Requests to a server through the service that the child process runs, without the process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from core.api.chat import Conversation, TextPart, UserMessage
from core.api.commands import Cancel, Generate
from core.api.events import Failed, Finished, Generated, Last, Prefilling
from core.remote.__main__ import Patience, Service
from core.remote.messages import Connect, Kind, Look, RemoteServer, Reply, ToRemote

LIMIT_S = 180.0
QUICK = Patience(first_s=20.0, stall_s=20.0, numbers_s=0.2, look_s=20.0, pause_s=0.0, attempts=3)


@dataclass
class Talk:
    events: list[BaseModel] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(each.answer for each in self.events if isinstance(each, Generated))

    @property
    def reasoning(self) -> str:
        return "".join(each.reasoning for each in self.events if isinstance(each, Generated))

    @property
    def progress(self) -> list[Prefilling]:
        return [each for each in self.events if isinstance(each, Prefilling)]

    @property
    def finished(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished), last
        return last

    @property
    def error(self) -> str:
        last = self.events[-1]
        assert isinstance(last, Failed), last
        return last.error.name

    @property
    def words(self) -> str:
        last = self.events[-1]
        assert isinstance(last, Failed), last
        return last.error.message


def asked(text: str = "Hello", **more: Any) -> Generate:
    message = UserMessage(content=(TextPart(text=text),))
    conversation = more.pop("conversation", Conversation(messages=(message,)))
    return Generate(request=1, conversation=conversation, **more)


def reply_of(
    address: str,
    generate: Generate | None = None,
    model: str = "m",
    kind: Kind = "other",
    key: str = "",
) -> Reply:
    server = RemoteServer(address=address, kind=kind, keyed=bool(key))
    return Reply(server=server, model=model, key=key, generate=generate or asked())


def talk(
    message: Reply | Look,
    patience: Patience = QUICK,
    meanwhile: Callable[[Service, Talk], Awaitable[None]] | None = None,
    proxy: str = "",
) -> Talk:
    """Send a message and wait for its last answer; `meanwhile` runs beside it."""
    return asyncio.run(_talk(message, patience, meanwhile, proxy))


async def _talk(
    message: ToRemote,
    patience: Patience,
    meanwhile: Callable[[Service, Talk], Awaitable[None]] | None,
    proxy: str,
) -> Talk:
    heard, ended = Talk(), asyncio.Event()

    def hear(event: BaseModel) -> None:
        heard.events.append(event)
        if isinstance(event, Last):
            ended.set()

    service = Service(hear, patience)
    await service.take(Connect(proxy=proxy))
    await service.take(message)
    if meanwhile is not None:
        await meanwhile(service, heard)
    await asyncio.wait_for(ended.wait(), LIMIT_S)
    await service.close()
    return heard


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - it comes about in the server's thread
        await asyncio.sleep(0.01)


async def stop_at_text(service: Service, heard: Talk) -> None:
    """Stop the reply when its first words are there."""
    await until(lambda: heard.text)
    await service.take(Cancel(target=1))
