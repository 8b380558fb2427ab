"""A reply's ids, split into thought and answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.api.chat import AssistantMessage
from core.text.added_tokens import AddedTokens
from core.text.channels import ROLE, Channels, MessageReader

# The spellings that open and close a thought, and the name of the channel in between. Gemma 4
# thinks in a channel, Ministral 3 in brackets.
_SPELLINGS = (
    ("<think>", "</think>", ""),
    ("<|channel>", "<channel|>", "thought\n"),
    ("[THINK]", "[/THINK]", ""),
)


@dataclass(frozen=True, slots=True)
class ThinkingTokens:
    """The ids that open and close a thought; None where the tokenizer has none.

    After the opening token a thought begins with `label`, usually as `label_ids`.
    """

    open: int | None
    close: int | None
    opening: str = ""
    closing: str = ""
    label: str = ""
    label_ids: tuple[int, ...] = ()

    @classmethod
    def find(cls, added: AddedTokens, ids: Callable[[str], list[int]]) -> ThinkingTokens:
        for opening, closing, label in _SPELLINGS:
            found = added.id_of(opening), added.id_of(closing)
            if None not in found:
                return cls(*found, opening, closing, label, tuple(ids(label)) if label else ())
        return cls(None, None)

    @property
    def begin(self) -> str:
        return (self.opening + self.label).rstrip()

    @property
    def known(self) -> bool:
        return self.open is not None and self.close is not None


@dataclass(frozen=True, slots=True)
class SampledReply:
    """A reply's ids: all, those of its thought and those of its answer.

    `thought` lacks the opening and closing id. `answer` is the whole of a reply without a thought,
    else the ids after the closing one, trimmed.
    """

    ids: tuple[int, ...]
    thought: tuple[int, ...] | None
    answer: tuple[int, ...]
    closed: bool
    opens_itself: bool
    pauses: tuple[int, ...] = ()
    call: tuple[int, ...] = ()
    """The message with which a reply in messages ends, if that calls a function."""

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
    labelled = rest[: len(thinking.label_ids)] == thinking.label_ids
    rest = rest[len(thinking.label_ids) :] if labelled else rest
    if thinking.close not in rest:
        return SampledReply(whole, rest, (), closed=False, opens_itself=opened > 0)
    end = rest.index(thinking.close)
    answer = trimmed(rest[end + 1 :], is_space)
    return SampledReply(whole, rest[:end], answer, closed=True, opens_itself=opened > 0)


def split_messages(
    ids: Sequence[int], channels: Channels, decode: Callable[[Sequence[int]], str]
) -> SampledReply:
    reader, thought, answer = MessageReader(channels, decode), list[int](), list[int]()
    thinks, before, start, role = False, None, 0, -1
    for place, token_id in enumerate(ids):
        if token_id == channels.start:
            role = place + 1
        elif token_id == channels.channel and role > start:
            start = place if decode(ids[role:place]) == ROLE else len(ids)
        found, kind = reader.push(token_id), reader.kind
        if kind != before and kind == "answer":
            answer.clear()
        thinks, before = thinks or kind == "thought", kind
        if kind == "thought":
            thought += found
        elif kind == "answer":
            answer += found
    return SampledReply(
        tuple(ids),
        tuple(thought) if thinks else None,
        tuple(answer),
        closed=bool(answer),
        opens_itself=False,
        call=tuple(ids[start:]) if reader.kind == "call" else (),
    )


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
