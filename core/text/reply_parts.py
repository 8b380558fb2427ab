"""The thought and the answer of a reply, told apart by ids, and replies as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.api.chat import AssistantMessage
from core.text.added_tokens import AddedTokens

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"


@dataclass(frozen=True, slots=True)
class ThinkingTokens:
    """The ids that open and close a thought; None where the tokenizer has no such tokens."""

    open: int | None
    close: int | None

    @classmethod
    def find(cls, added: AddedTokens) -> ThinkingTokens:
        return cls(added.id_of(THINK_OPEN), added.id_of(THINK_CLOSE))

    @property
    def known(self) -> bool:
        return self.open is not None and self.close is not None


@dataclass(frozen=True, slots=True)
class SampledReply:
    """A reply as ids: all of them, and those of its thought and its answer.

    `thought` is None without one; it lacks the opening and the closing id. `answer` is the whole
    reply without a thought, else the ids after the closing one, trimmed.
    """

    ids: tuple[int, ...]
    thought: tuple[int, ...] | None
    answer: tuple[int, ...]
    closed: bool
    opens_itself: bool
    pauses: tuple[int, ...] = ()

    @property
    def thinks(self) -> bool:
        return self.thought is not None


def split_reply(
    ids: Sequence[int],
    starts_in_reasoning: bool,
    thinking: ThinkingTokens,
    is_space: Callable[[int], bool],
) -> SampledReply:
    whole = tuple(ids)
    opened = 0 if starts_in_reasoning else _opening_end(whole, thinking, is_space)
    if not thinking.known or not (starts_in_reasoning or opened):
        return SampledReply(whole, None, whole, closed=True, opens_itself=False)
    rest = whole[opened:]
    if thinking.close not in rest:
        return SampledReply(whole, rest, (), closed=False, opens_itself=opened > 0)
    end = rest.index(thinking.close)
    answer = trimmed(rest[end + 1 :], is_space)
    return SampledReply(whole, rest[:end], answer, closed=True, opens_itself=opened > 0)


def _opening_end(
    ids: tuple[int, ...], thinking: ThinkingTokens, is_space: Callable[[int], bool]
) -> int:
    for index, token_id in enumerate(ids):
        if token_id == thinking.open:
            return index + 1
        if not is_space(token_id):
            return 0
    return 0


def trimmed(ids: Sequence[int], is_space: Callable[[int], bool]) -> tuple[int, ...]:
    start, end = 0, len(ids)
    while start < end and is_space(ids[start]):
        start += 1
    while end > start and is_space(ids[end - 1]):
        end -= 1
    return tuple(ids[start:end])


def stored_ids(message: AssistantMessage, fingerprint: str, vocab_size: int) -> list[int] | None:
    if message.ids is None or message.ids.tokenizer != fingerprint:
        return None
    try:
        ids = message.ids.unpack()
    except ValueError:
        return None
    return ids if all(token_id < vocab_size for token_id in ids) else None
