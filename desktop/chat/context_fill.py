"""How full a chat and its draft make the context, and which turns to leave out.

Messages that no request has counted are estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from PySide6.QtCore import Signal

from core.api.commands import CountTokens
from core.api.errors import PromptTooLongError, WaymarkError
from core.api.model_info import ModelInfo
from core.api.stats import RequestStats
from desktop.chat.shown_chat import ShownChat
from desktop.documents.parts import estimated_tokens
from desktop.i18n import tr
from desktop.numbers import context_used, format_count
from desktop.services import Controller, Services
from desktop.store.tables.records import ChatPath, Message, alternating

# Shares of the context: from NEAR on the chat says so; from PREPARE on, what would remain is
# prefilled when idle.
NEAR = 0.75
PREPARE = 0.70
# Leaving out turns leaves at most MOST_LEFT, so that it happens rarely. A new choice aims at less,
# so that it, and what was prefilled for it, still holds some turns later.
MOST_LEFT = 1 / 2
AIM = 3 / 8
# Estimates for messages that no request has counted.
BYTES_PER_TOKEN = 3
GLUE_TOKENS = 8
# Room for a reply in a longer context that is offered.
REPLY_TOKENS = 1_024
PICTURE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class ContextFill:
    """`costs` are tokens of the messages in the prompt, `system` those before them, `turns` the
    places of user messages. `refused`: the last request did not fit. `cut_off`: the last reply
    filled the context."""

    limit: int
    system: int
    costs: tuple[int, ...]
    turns: tuple[int, ...]
    refused: bool = False
    cut_off: bool = False

    @property
    def tokens(self) -> int:
        return self.system + sum(self.costs)

    @property
    def share(self) -> float:
        return self.tokens / self.limit

    @property
    def full(self) -> bool:
        return self.refused or self.share >= 1 or (self.cut_off and self.near)

    @property
    def near(self) -> bool:
        return self.refused or self.share >= NEAR

    @property
    def alone(self) -> bool:
        return self.refused and self.left_from(self.turns[-1] if self.turns else 0) >= self.limit

    @property
    def can_drop(self) -> bool:
        return len(self.turns) > 1 and not self.alone

    def left_from(self, place: int) -> int:
        """Tokens without the messages before `place`."""
        return self.system + sum(self.costs[place:])

    def cut(self, most: float) -> int | None:
        """The first turn from which at most `most` tokens remain, else the last turn."""
        for place in self.turns[1:]:
            if self.left_from(place) <= most or place == self.turns[-1]:
                return place
        return None


def fill_of(chat_path: ChatPath, limit: int) -> ContextFill:
    counted, system = _counted(chat_path)
    messages = chat_path.in_prompt
    last = messages[-1].reply if messages else None
    error = last.error if last else None
    refused = error is not None and error.name == PromptTooLongError.__name__
    costs = [counted.get(message.id) or _estimate(message) for message in messages]
    if refused and error and error.tokens and len(costs) > 1 and not messages[-1].text:
        # The refused prompt was counted whole; the last message is the rest of it.
        costs[-2:] = max(1, error.tokens - system - sum(costs[:-2])), 0
    return ContextFill(
        limit=limit,
        system=system,
        costs=tuple(costs),
        turns=tuple(place for place, message in enumerate(messages) if not message.is_reply),
        refused=refused,
        cut_off=bool(last and last.finish_reason == "context"),
    )


def ids_in_prompt(chat_path: ChatPath) -> tuple[int, ...]:
    return tuple(each.id for each in chat_path.in_prompt)


def longer_context(fill: ContextFill, model: ModelInfo) -> int | None:
    """A multiple of the grid that holds the chat and a reply, if the model can."""
    wanted = -(-(fill.tokens + REPLY_TOKENS) // model.grid) * model.grid
    return wanted if fill.limit < wanted <= model.model_context_length else None


def plan(chat_path: ChatPath, fill: ContextFill, before: int | None) -> int | None:
    """The last message to leave out: `before` while it suffices."""
    messages = chat_path.in_prompt
    places = {messages[place - 1].id: place for place in fill.turns[1:]}
    if before in places and fill.left_from(places[before]) <= MOST_LEFT * fill.limit:
        return before
    place = fill.cut(AIM * fill.limit)
    return None if place is None else messages[place - 1].id


def fill_words(fill: ContextFill, model: ModelInfo) -> str:
    """'' while there is enough room."""
    if fill.alone:
        fits = longer_context(fill, model) is not None
        alone = fill.left_from(fill.turns[-1]) - fill.system
        return _alone_text(alone, fill.limit, None if fits else model.model_context_length)
    ways_on = tr(
        "Nothing is deleted. To continue, start a new chat from a summary, or leave out the oldest "
        "turns, which stay here for you to read."
    )
    if not fill.can_drop:
        ways_on = tr("Nothing is deleted. To continue, start a new chat from a summary.")
    if fill.refused:
        text = tr("There is no room for the last message in the context of {limit} tokens.")
        return f"{text.format(limit=format_count(fill.limit))} {ways_on}"
    values = {
        "tokens": format_count(fill.tokens),
        "limit": format_count(fill.limit),
        "percent": round(100 * fill.tokens / fill.limit),
    }
    if fill.full:
        text = tr("The context is full ({tokens} of {limit} tokens).")
        return f"{text.format(**values)} {ways_on}"
    text = tr("This chat fills {percent} % of the context ({tokens} of {limit} tokens).")
    return text.format(**values) if fill.near else ""


def _alone_text(tokens: int, limit: int, longest: int | None) -> str:
    """`longest` is the model's longest context, if that is too short too."""
    text = (
        tr(
            "The last message alone takes {tokens} tokens, and the context holds {limit}. Nothing "
            "was cut off. Edit it, or load the model with a longer context."
        )
        if longest is None
        else tr(
            "The last message alone takes {tokens} tokens, and the context holds {limit}. Nothing "
            "was cut off. Edit it; this model can't hold more than {longest} tokens."
        )
    )
    return text.format(
        tokens=format_count(tokens), limit=format_count(limit), longest=format_count(longest or 0)
    )


def _counted(chat_path: ChatPath) -> tuple[dict[int, int], int]:
    """By message, in the last answered request, and the tokens before the first one."""
    for place in range(len(chat_path.path) - 1, -1, -1):
        reply = chat_path.path[place].reply
        if reply is not None and reply.stats is not None and reply.stats.message_starts:
            return _costs(chat_path.path, place, reply.stats), reply.stats.message_starts[0]
    return {}, estimate(chat_path.system) if chat_path.system else 0


def _costs(path: Sequence[Message], place: int, stats: RequestStats) -> dict[int, int]:
    """If their number is even, the last message is the continued part of the reply."""
    starts = (*stats.message_starts, stats.prompt_tokens)
    count = len(stats.message_starts)
    told = alternating(path[: place + 1])
    end = len(told) - count % 2
    given = told[max(0, end - count) : end]
    pairs = list(pairwise(starts))[count - len(given) :]
    costs = {
        message.id: after - start
        for message, (start, after) in zip(given, pairs, strict=True)
        if message is not None
    }
    reply = path[place].id
    costs[reply] = costs.get(reply, 0) + stats.reply_tokens
    return costs


def _estimate(message: Message) -> int:
    shown = sum(each.tokens or PICTURE_TOKENS for each in message.pictures)
    shown += sum(map(estimated_tokens, message.documents))
    ids = message.reply.ids if message.reply else None
    return shown + (len(ids.data) // 4 + GLUE_TOKENS if ids else estimate(message.text))


def estimate(text: str) -> int:
    return len(text.encode()) // BYTES_PER_TOKEN + GLUE_TOKENS


@dataclass(frozen=True, slots=True)
class DraftTokens:
    """`left` may be negative."""

    tokens: int
    left: int


class DraftSize(Controller):
    changed = Signal()

    def __init__(self, services: Services, chat: ShownChat) -> None:
        super().__init__(services)
        self._chat = chat
        self._wanted = ""
        # The counted text, the tokenizer, and the count.
        self._counted = ("", "", 0)
        self._counting = False
        # The model, the messages that it has prefilled with nothing after them, and their tokens.
        self._settled: tuple[str, tuple[int, ...], int] = ("", (), 0)
        for signal in (chat.busy_changed, chat.draft_changed, chat.transcript.row_changed):
            signal.connect(self.changed)
        chat.placed.connect(self._begin)
        self._engine.changed.connect(self._begin)

    @property
    def model(self) -> ModelInfo | None:
        return self._engine.model

    @property
    def size(self) -> DraftTokens | None:
        model, tokens = self._engine.model, self._known()
        if model is None or tokens is None or self._chat.place is not None:
            return None
        pictures = self._chat.draft.ready_pictures()
        tokens += sum(each.tokens or PICTURE_TOKENS for each in pictures)
        tokens += sum(map(estimated_tokens, self._chat.draft.ready_documents()))
        glue = GLUE_TOKENS if tokens else 0
        return DraftTokens(tokens, model.context_length - self._used() - tokens - glue)

    def count(self, text: str) -> None:
        self._wanted = text if text.strip() else ""
        self._begin()

    def note_settled(self, messages: tuple[int, ...], tokens: int) -> None:
        if self._engine.model is not None:
            self._settled = (self._engine.model.fingerprint, messages, tokens)
            self.changed.emit()

    def _known(self) -> int | None:
        model = self._engine.model
        text, tokenizer, tokens = self._counted
        if not self._wanted or model is None or self._chat.place is not None:
            return 0
        return tokens if (text, tokenizer) == (self._wanted, model.tokenizer) else None

    def _used(self) -> int:
        live, model = self._chat.running, self._engine.model
        if live is not None and live.stats is not None:
            return context_used(live.stats)
        assert model is not None
        path = self._chat.shown_path
        if self._settled[:2] == (model.fingerprint, ids_in_prompt(path)):
            return self._settled[2]
        if not path.path:
            path = replace(path, system=self._chat.instructions)
        return fill_of(path, model.context_length).tokens

    def _begin(self) -> None:
        self.changed.emit()
        if not self._counting and self._known() is None:
            self._counting = True
            self._tasks.spawn(self._count(), tr("Counting tokens"))

    async def _count(self) -> None:
        try:
            while self._known() is None:
                model, text = self._engine.model, self._wanted
                assert model is not None
                counted = await self._engine.client.ask(CountTokens(text=text)).last()
                if text == self._wanted:
                    self._counted = (text, model.tokenizer, counted.tokens)
                    self.changed.emit()
        except WaymarkError:
            # An engine that can't count reports that with the next reply.
            pass
        finally:
            self._counting = False
