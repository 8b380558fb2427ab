"""From one request to its events: wait for a turn, find the ids, ask the engine, keep the reply."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Protocol

from core.api.chat import AssistantMessage, ImagePart, UserMessage
from core.api.commands import Answered as Command
from core.api.commands import CountPrompt, Generate, Last_co, PrefillReply
from core.api.errors import NoModelError, NoRoomBesideError, WaymarkError
from core.api.events import Counted, Failed, Finished, Generated, Prefilling, Prepared
from core.api.model_info import ModelInfo
from core.api.params import CacheSettings
from core.client.requests import EngineError, Request
from core.server.held import HeldReplies, Placed
from core.server.requests.ask import Ask, Delta, Ended
from core.server.requests.refusals import Refusal
from core.server.turns import Turns

_MOST_PREPARING = 16
Answered = Delta | Ended


class Engine(Protocol):
    """An engine of this process's own, or the window's."""

    @property
    def model(self) -> ModelInfo | None: ...

    def ask(self, command: Command[Last_co]) -> Request[Last_co]: ...


class Answering:
    """Answers requests with the engine's one model."""

    def __init__(self, client: Engine, cache: CacheSettings) -> None:
        self.client = client
        self.turns = Turns()
        self._cache = cache
        self._held = HeldReplies()
        # Replies that are prefilled while the engine is idle, by chat.
        self._preparing: OrderedDict[str, Request[Prepared]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def num_preparing(self) -> int:
        """Replies that are being prefilled, or wait for it."""
        return len(self._preparing)

    @property
    def model(self) -> ModelInfo:
        """The loaded model. Raises Refusal (503)."""
        if self.client.model is None:
            raise Refusal.of(NoModelError("No model is loaded at the moment.").info())
        return self.client.model

    async def answer(self, ask: Ask) -> AsyncGenerator[Answered, None]:
        """Raises Refusal, before the first event or later; closing it stops the engine's work."""
        self._check(ask)
        async with self.turns.turn(ask.client):
            placed = self._held.place(ask.conversation, ask.client)
            # Without room beside the chats, a side request takes its place among them.
            for side in (True, False) if placed.side else (False,):
                try:
                    async with contextlib.aclosing(self._generate(ask, placed, side)) as events:
                        async for event in events:
                            yield event
                    return
                except EngineError as error:
                    if not (side and error.error.name == NoRoomBesideError.__name__):
                        raise _refusal(error, ask) from None

    async def count(self, ask: Ask) -> Counted:
        """The tokens of a prompt, replies as they were sampled. Raises Refusal."""
        self._check(ask)
        placed = self._held.place(ask.conversation, ask.client)
        command = CountPrompt(conversation=placed.conversation, thinking=self._thinking(ask))
        request = self.client.ask(command)
        try:
            return await request.last()
        except EngineError as error:
            raise _refusal(error, ask) from None
        finally:
            request.cancel()

    def _check(self, ask: Ask) -> None:
        pictures = any(
            isinstance(part, ImagePart)
            for message in ask.conversation.messages
            if isinstance(message, UserMessage)
            for part in message.content
        )
        if pictures and not self.model.vision:
            raise Refusal(f"{self.model.name} can't see pictures.", ask.prompt_field)

    async def _generate(
        self, ask: Ask, placed: Placed, side: bool
    ) -> AsyncGenerator[Answered, None]:
        chat = placed.branch.chat
        if (settling := self._preparing.pop(chat, None)) is not None:
            settling.cancel()
        request = self.client.ask(
            Generate(
                conversation=placed.conversation,
                chat="" if side else chat,
                side=side,
                sampling=ask.sampling,
                format=ask.format,
                thinking=self._thinking(ask),
                cache=self._cache,
            )
        )
        try:
            async for event in request:
                match event:
                    case Prefilling():
                        yield Delta(stats=event.stats)
                    case Generated():
                        yield Delta(event.answer, event.reasoning)
                    case Finished():
                        if not side:
                            self._keep(ask, placed, event.reply)
                        yield Ended(event.reason, event.stats, side)
                    case Failed():
                        raise EngineError(event.error)
        finally:
            request.cancel()

    def _thinking(self, ask: Ask) -> bool | None:
        return ask.thinking if self.model.thinking_switch else None

    def _keep(self, ask: Ask, placed: Placed, reply: AssistantMessage) -> None:
        """Hold a reply, and prefill it while the engine is idle."""
        if placed.conversation.raw is not None:
            return
        if reply.ids is None or not reply.ids.data:
            return
        self._held.keep(placed, reply)
        messages = placed.conversation.messages
        if isinstance(messages[-1], AssistantMessage):
            messages = messages[:-1]
        command = PrefillReply(
            conversation=placed.conversation.model_copy(update={"messages": (*messages, reply)}),
            chat=placed.branch.chat,
            thinking=self._thinking(ask),
            cache=self._cache,
        )
        request = self._preparing[placed.branch.chat] = self.client.ask(command)
        while len(self._preparing) > _MOST_PREPARING:
            self._preparing.popitem(last=False)[1].cancel()
        task = asyncio.ensure_future(self._follow(placed.branch.chat, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, chat: str, request: Request[Prepared]) -> None:
        with contextlib.suppress(WaymarkError):
            await request.last()
        if self._preparing.get(chat) is request:
            del self._preparing[chat]


def _refusal(error: EngineError, ask: Ask) -> Refusal:
    return Refusal.of(error.error, ask.prompt_field, ask.format_field)
