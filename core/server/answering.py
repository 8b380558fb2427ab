"""From a request to its events: wait for a turn, find the ids, ask the engine, keep the reply."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from core.api.chat import (
    AssistantMessage,
    Conversation,
    TextPart,
    ToolMessage,
    UserMessage,
)
from core.api.commands import Answered as Command
from core.api.commands import CountPrompt, Generate, Last_co, PrefillReply
from core.api.errors import NoModelError, NoRoomBesideError, PromptTooLongError, WaymarkError
from core.api.events import Counted, Failed, Finished, Generated, Prefilling, Prepared
from core.api.model_info import ModelInfo
from core.api.params import CacheSettings, Thinking
from core.client.requests import EngineError, Request, spawn
from core.server.calls import CallReader, Said
from core.server.held import HeldReplies, Placed
from core.server.kept_replies import KeptReplies
from core.server.requests.ask import LATEST, Ask, Delta, Ended
from core.server.requests.refusals import Refusal
from core.server.turns import Turns

_MOST_PREPARING = 16
# Of a whole prompt, on average: 20 MB would be tokenised for 12 s before they are refused.
MOST_PER_TOKEN = 16
_SPARE_CHARACTERS = 2**16
Answered = Delta | Ended


class Engine(Protocol):
    @property
    def model(self) -> ModelInfo | None: ...

    @property
    def asleep(self) -> bool:
        """True if the model was unloaded after idle time; `use` loads it again."""

    @property
    def names(self) -> Sequence[str]: ...

    def ask(self, command: Command[Last_co]) -> Request[Last_co]: ...

    async def use(self, name: str) -> None: ...


class Answering:
    def __init__(
        self,
        client: Engine,
        cache: CacheSettings,
        kept: KeptReplies | None = None,
        steady: bool = True,
    ) -> None:
        self.client = client
        self.turns = Turns()
        self.cache = cache
        # Why contexts weren't kept on disk when a request ended last, None if they are.
        self.disk_trouble: str | None = None
        self.held = HeldReplies(kept=kept, steady=steady)
        # Replies that are prefilled while the engine is idle, by chat.
        self._preparing: OrderedDict[str, Request[Prepared]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def num_preparing(self) -> int:
        return len(self._preparing)

    @property
    def model(self) -> ModelInfo:
        """The loaded model. Raises Refusal (503)."""
        if self.client.model is None:
            raise Refusal.of(NoModelError("No model is loaded at the moment.").info())
        return self.client.model

    def name_of(self, asked: object) -> str:
        """The model that answers if `asked` is named: that one if it may be loaded. Raises Refusal
        (503)."""
        name = asked.removesuffix(LATEST) if isinstance(asked, str) else ""
        return name if name in self.client.names else self.model.name

    async def answer(self, ask: Ask) -> AsyncGenerator[Answered, None]:
        """Raises Refusal, also after the first event; closing it stops the engine's work."""
        if not self._needs_load(ask):
            self._check(ask)
        async with self.turns.turn(ask.client):
            await self._load_for(ask)
            placed = self.held.place(ask.conversation, ask.client)
            # Without room beside the chats, a side request takes its place among them.
            for side in (True, False) if placed.side else (False,):
                try:
                    async with contextlib.aclosing(self._generate(ask, placed, side)) as events:
                        async for event in events:
                            yield event
                    return
                except EngineError as error:
                    if not (side and error.error.name == NoRoomBesideError.__name__):
                        raise self._refusal(error, ask) from None

    async def count(self, ask: Ask) -> Counted:
        """Count a prompt's tokens, replies as they were sampled. Raises Refusal."""
        if self._needs_load(ask):
            async with self.turns.turn(ask.client):
                await self._load_for(ask)
        self._check(ask)
        placed = self.held.place(ask.conversation, ask.client)
        command = CountPrompt(conversation=placed.conversation, thinking=self._thinking(ask))
        request = self.client.ask(command)
        try:
            return await request.last()
        except EngineError as error:
            raise self._refusal(error, ask) from None
        finally:
            request.cancel()

    def _needs_load(self, ask: Ask) -> bool:
        loaded = self.client.model.name if self.client.model is not None else ""
        return self.client.asleep or (ask.model in self.client.names and ask.model != loaded)

    async def _load_for(self, ask: Ask) -> None:
        if not self._needs_load(ask):
            return
        try:
            await self.client.use(ask.model)
        except WaymarkError as error:
            raise Refusal.of(error.info()) from None
        self._check(ask)

    def _check(self, ask: Ask) -> None:
        most = MOST_PER_TOKEN * self.model.context_length + _SPARE_CHARACTERS
        if _num_characters(ask.conversation) > most:
            tokens = f"{self.model.context_length:,} tokens"
            words = f"It has more characters or messages than {tokens} can have."
            raise self._refusal(EngineError(PromptTooLongError(words).info()), ask)
        called = any(
            isinstance(message, ToolMessage)
            or (isinstance(message, AssistantMessage) and bool(message.calls))
            for message in ask.conversation.messages
        )
        if (called or ask.conversation.tools) and self.model.tools is None:
            raise Refusal(
                f"The chat template of {self.model.name} has no tools, or writes calls in a syntax "
                "that Waymark can't read; send none.",
                "tools" if ask.conversation.tools else ask.prompt_field,
                code="tools_unsupported",
            )
        if ask.conversation.pictures and not self.model.vision:
            raise Refusal(f"{self.model.name} can't see pictures.", ask.prompt_field)

    def _refusal(self, error: EngineError, ask: Ask) -> Refusal:
        field = "tools" if ask.tools.must and ask.format is None else ask.format_field
        context = self.client.model.context_length if self.client.model is not None else 0
        return Refusal.of(error.error, ask.prompt_field, field, context)

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
                format=ask.format or ask.tools.format(self.model.tools),
                logprobs=ask.logprobs,
                thinking=self._thinking(ask),
                cache=self.cache,
            )
        )
        said = Said(self._reader(ask))
        try:
            async for event in request:
                match event:
                    case Prefilling():
                        yield Delta(stats=event.stats)
                    case Generated():
                        if event.reasoning:
                            yield Delta(reasoning=event.reasoning)
                        for delta in said.push(event.answer, event.logprobs):
                            yield delta
                    case Finished():
                        self.disk_trouble = event.stats.disk_trouble
                        for delta in said.close():
                            yield delta
                        if not side:
                            self._keep(ask, placed, said.named(event.reply))
                        yield Ended(
                            event.reason,
                            event.stats,
                            side,
                            bool(said.calls),
                            placed.volatile,
                            event.stop_string,
                            said.logprobs if ask.logprobs is not None else None,
                        )
                    case Failed():
                        raise EngineError(event.error)
        finally:
            request.cancel()

    def _reader(self, ask: Ask) -> CallReader | None:
        tools, syntax = ask.conversation.tools, self.model.tools
        return CallReader(syntax, tools) if tools and syntax is not None else None

    def _thinking(self, ask: Ask) -> Thinking:
        """A format lets a model think unless told not to, with or without a switch."""
        return ask.thinking if self.model.thinking_switch or ask.thinking is False else None

    def _keep(self, ask: Ask, placed: Placed, reply: AssistantMessage) -> None:
        if placed.conversation.raw is not None:
            return
        if reply.ids is None or not reply.ids.data:
            return
        self.held.keep(placed, reply)
        messages = placed.conversation.messages
        if isinstance(messages[-1], AssistantMessage):
            messages = messages[:-1]
        command = PrefillReply(
            conversation=placed.conversation.model_copy(update={"messages": (*messages, reply)}),
            chat=placed.branch.chat,
            thinking=self._thinking(ask),
            cache=self.cache,
        )
        request = self._preparing[placed.branch.chat] = self.client.ask(command)
        while len(self._preparing) > _MOST_PREPARING:
            self._preparing.popitem(last=False)[1].cancel()
        spawn(self._follow(placed.branch.chat, request), self._tasks)

    async def _follow(self, chat: str, request: Request[Prepared]) -> None:
        with contextlib.suppress(WaymarkError):
            await request.last()
        if self._preparing.get(chat) is request:
            del self._preparing[chat]


def _num_characters(conversation: Conversation) -> int:
    # A message has a token at least.
    total = MOST_PER_TOKEN * len(conversation.messages) + len(conversation.raw or "")
    total += sum(len(each.definition) for each in conversation.tools)
    for message in conversation.messages:
        if isinstance(message, UserMessage):
            # Empty parts cost time, too.
            total += len(message.content)
            total += sum(len(part.text) for part in message.content if isinstance(part, TextPart))
        else:
            total += len(message.text)
        if isinstance(message, AssistantMessage):
            total += len(message.reasoning)
            total += sum(len(call.name) + len(call.arguments) for call in message.calls)
        elif isinstance(message, ToolMessage):
            total += len(message.name)
    return total
