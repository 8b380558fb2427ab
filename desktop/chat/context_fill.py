"""How full a chat makes the context, what could be left out of it, and the words for both.

Counts what the engine counted, message by message, and estimates what it has not seen yet. Pure
functions of a chat's path; leaving out is done by a controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from core.api.errors import PromptTooLongError
from core.api.model_info import ModelInfo
from core.api.stats import RequestStats
from desktop.store.tables.records import ChatPath, Message
from desktop.words.limit import alone_words, full_words, near_words, refused_words

# From here on the chat says so; a little earlier, what would be left is read in idle time.
NEAR = 0.75
PREPARE = 0.70
# What is left fills at most a half, so that it happens rarely; chosen anew it is less, so that the
# same choice still holds some turns later and what was read of it in advance stays good.
MOST_LEFT = 1 / 2
AIM = 3 / 8
# For messages that no request has counted yet.
BYTES_PER_TOKEN = 3
GLUE_TOKENS = 8
# A longer context is offered with room for a reply of this length.
REPLY_TOKENS = 1_024
PICTURE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class ContextFill:
    """Tokens of the messages in the prompt, in order (`costs`), and of what stands before them.

    `turns` are the places among them where a user's message begins a turn. `refused` says that the
    engine did not answer, `cut_off` that the last reply ended because the context did.
    """

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
        """Whether the last turn finds no room by itself, whatever is left out before it."""
        return self.refused and self.left_from(self.turns[-1] if self.turns else 0) >= self.limit

    @property
    def can_drop(self) -> bool:
        """Whether there is an older turn than the last, and leaving it out would help."""
        return len(self.turns) > 1 and not self.alone

    def left_from(self, place: int) -> int:
        """The tokens left when the messages before `place` are left out."""
        return self.system + sum(self.costs[place:])

    def cut(self, most: float) -> int | None:
        """The first turn from which on at most `most` tokens are left, or else the last one."""
        for place in self.turns[1:]:
            if self.left_from(place) <= most or place == self.turns[-1]:
                return place
        return None


def fill_of(chat_path: ChatPath, limit: int) -> ContextFill:
    """How full the context of `limit` tokens would be with this chat."""
    counted, system = _counted(chat_path)
    messages = chat_path.in_prompt
    last = messages[-1].reply if messages else None
    error = last.error if last else None
    refused = error is not None and error.name == PromptTooLongError.__name__
    costs = [counted.get(message.id) or _estimate(message) for message in messages]
    if refused and error and error.tokens and len(costs) > 1 and not messages[-1].text:
        # What was refused was counted whole; the last message is what was not known of it.
        costs[-2:] = max(1, error.tokens - system - sum(costs[:-2])), 0
    return ContextFill(
        limit=limit,
        system=system,
        costs=tuple(costs),
        turns=tuple(place for place, message in enumerate(messages) if not message.is_reply),
        refused=refused,
        cut_off=bool(last and last.finish_reason == "context"),
    )


def longer_context(fill: ContextFill, model: ModelInfo) -> int | None:
    """A context, in tokens, with room for all of the chat and a reply; None if the model has none.

    It is a multiple of the grid, as a context that is loaded is.
    """
    wanted = -(-(fill.tokens + REPLY_TOKENS) // model.grid) * model.grid
    return wanted if fill.limit < wanted <= model.model_context_length else None


def plan(chat_path: ChatPath, fill: ContextFill, before: int | None) -> int | None:
    """The last message to leave out; `before` is what was chosen last, kept while it will do."""
    messages = chat_path.in_prompt
    places = {messages[place - 1].id: place for place in fill.turns[1:]}
    if before in places and fill.left_from(places[before]) <= MOST_LEFT * fill.limit:
        return before
    place = fill.cut(AIM * fill.limit)
    return None if place is None else messages[place - 1].id


def fill_words(fill: ContextFill, model: ModelInfo) -> str:
    """What the chat says of it; '' while there is room enough."""
    if fill.alone:
        fits = longer_context(fill, model) is not None
        alone = fill.left_from(fill.turns[-1]) - fill.system
        return alone_words(alone, fill.limit, None if fits else model.model_context_length)
    if fill.refused:
        return refused_words(fill.limit)
    if fill.full:
        return full_words(fill.tokens, fill.limit)
    return near_words(fill.tokens, fill.limit) if fill.near else ""


def _counted(chat_path: ChatPath) -> tuple[dict[int, int], int]:
    """Tokens by message as the last answered request counted them, and those before the first."""
    for place in range(len(chat_path.path) - 1, -1, -1):
        reply = chat_path.path[place].reply
        if reply is not None and reply.stats is not None and reply.stats.message_starts:
            return _costs(chat_path.path, place, reply.stats), reply.stats.message_starts[0]
    return {}, estimate(chat_path.system) if chat_path.system else 0


def _costs(path: Sequence[Message], place: int, stats: RequestStats) -> dict[int, int]:
    """What the request for the reply at `place` counted.

    What it was given began with a user's message. So an even number of messages means that it ended
    in the beginning of the reply itself, which was gone on with.
    """
    starts = (*stats.message_starts, stats.prompt_tokens)
    count = len(stats.message_starts)
    end = place + 1 - count % 2
    given = path[max(0, end - count) : end]
    pairs = list(pairwise(starts))[count - len(given) :]
    costs = {
        message.id: after - start for message, (start, after) in zip(given, pairs, strict=True)
    }
    reply = path[place].id
    costs[reply] = costs.get(reply, 0) + stats.reply_tokens
    return costs


def _estimate(message: Message) -> int:
    pictures = sum(each.tokens or PICTURE_TOKENS for each in message.pictures)
    ids = message.reply.ids if message.reply else None
    return pictures + (len(ids.data) // 4 + GLUE_TOKENS if ids else estimate(message.text))


def estimate(text: str) -> int:
    """About how many tokens a message of this text takes, rather too many than too few."""
    return len(text.encode()) // BYTES_PER_TOKEN + GLUE_TOKENS
