"""How full a chat makes the context, what could be left out of it, and the words for both.

Counts what the engine counted, message by message, and estimates what it has not seen yet. Pure
functions of a chat's path; leaving out is done by a controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from core.api.errors import PromptTooLongError
from core.api.events import RequestStats
from desktop.store.records import ChatPath, Message

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
PICTURE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class ContextFill:
    """Tokens of the told messages in order (`costs`), and of what stands before them (`system`).

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
    def can_drop(self) -> bool:
        """Whether there is an older turn than the last."""
        return len(self.turns) > 1

    def left_from(self, place: int) -> int:
        """The tokens left when the messages before `place` are not told."""
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
    told = chat_path.told
    last = told[-1].reply if told else None
    return ContextFill(
        limit=limit,
        system=system,
        costs=tuple(counted.get(message.id) or _estimate(message) for message in told),
        turns=tuple(place for place, message in enumerate(told) if not message.is_reply),
        refused=bool(last and last.error and last.error.name == PromptTooLongError.__name__),
        cut_off=bool(last and last.finish_reason == "context"),
    )


def plan(chat_path: ChatPath, fill: ContextFill, before: int | None) -> int | None:
    """The last message to leave out; `before` is what was chosen last, kept while it will do."""
    told = chat_path.told
    places = {told[place - 1].id: place for place in fill.turns[1:]}
    if before in places and fill.left_from(places[before]) <= MOST_LEFT * fill.limit:
        return before
    place = fill.cut(AIM * fill.limit)
    return None if place is None else told[place - 1].id


def fill_words(fill: ContextFill) -> str:
    """What the chat says of it; '' while there is room enough."""
    numbers = f"{fill.tokens:,} of {fill.limit:,} tokens"
    if fill.refused and not fill.can_drop:
        return (
            f"The last message alone is longer than the context of {fill.limit:,} tokens. Nothing "
            "was cut off: shorten it, or load the model with a longer context."
        )
    if fill.full:
        lack = f"There is no room for the last message in the context of {fill.limit:,} tokens"
        return (
            f"{lack if fill.refused else f'The context is full ({numbers})'}. Nothing was cut off. "
            "To go on, begin a new chat from a summary, or have the oldest turns left out: they "
            "stay here for you to read."
        )
    if fill.near:
        return f"This chat fills {round(100 * fill.share)} % of the context ({numbers})."
    return ""


def _counted(chat_path: ChatPath) -> tuple[dict[int, int], int]:
    """Tokens by message as the last answered request counted them, and those before the first."""
    for place in range(len(chat_path.path) - 1, -1, -1):
        reply = chat_path.path[place].reply
        if reply is not None and reply.stats is not None and reply.stats.message_starts:
            return _costs(chat_path.path, place, reply.stats), reply.stats.message_starts[0]
    return {}, estimate(chat_path.system) if chat_path.system else 0


def _costs(path: Sequence[Message], place: int, stats: RequestStats) -> dict[int, int]:
    """What the request for the reply at `place` counted.

    What it was told began with a user's message. So an even number of messages means that it ended
    in the beginning of the reply itself, which was gone on with.
    """
    starts = (*stats.message_starts, stats.prompt_tokens)
    count = len(stats.message_starts)
    end = place + 1 - count % 2
    told = path[max(0, end - count) : end]
    pairs = list(pairwise(starts))[count - len(told) :]
    costs = {message.id: after - start for message, (start, after) in zip(told, pairs, strict=True)}
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
