"""One message as the transcript shows it, and the reply that is still growing.

Built from the store's records; knows how a reply's end is said. Drawing it is left to the views.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from core.api.chat import ReplyIds
from core.api.errors import ErrorInfo
from core.api.events import CUT_SHORT, Generated
from core.api.reply_format import ReplyFormat
from core.api.stats import ContextPart, RequestStats
from desktop.store.tables.records import Message, Reply, ReplyState
from desktop.words.conversation import ENDINGS, LEFT_RUNNING


def ending_words(reply: Reply) -> str:
    """Why a reply ended other than by itself; '' for one that is whole."""
    if reply.state in (ReplyState.RUNNING, ReplyState.COMPLETE) and reply.finish_reason == "stop":
        return ""
    if reply.error is not None:
        return f"{reply.error.title}. {reply.error.message}"
    if reply.finish_reason is not None:
        return ENDINGS.get(reply.finish_reason, "")
    return LEFT_RUNNING if reply.state is ReplyState.STOPPED else ""


class Length(NamedTuple):
    """How much of a live reply there is, in characters and ids."""

    text: int
    reasoning: int
    ids: int


@dataclass(slots=True, eq=False)
class LiveReply:
    """A reply on its way: what has arrived, and what it is waiting for."""

    message: int
    chat: int
    text: str = ""
    reasoning: str = ""
    # What its ids began with, as the engine or the store says; None until somebody did.
    opening: ReplyIds | None = None
    ids: list[int] = field(default_factory=list)
    status: str = ""
    stats: RequestStats | None = None
    # How many tokens of the prompt are in the context while it is read; None before and after.
    done: int | None = None
    saved: bool = True
    # The form it must have; None where it is free.
    format: ReplyFormat | None = None
    # The name of the model that writes it.
    model: str = ""

    @classmethod
    def begun(cls, message: Message) -> LiveReply:
        """A reply that is gone on with from where it ended."""
        assert message.reply is not None
        return cls(
            message.id,
            message.chat,
            text=message.text,
            reasoning=message.reply.reasoning,
            opening=message.reply.ids,
            stats=message.reply.stats,
            format=message.reply.format,
            model=message.reply.model,
        )

    def take(self, event: Generated) -> None:
        """More of it has arrived: its words, its ids, and how fast they come."""
        self.text += event.answer
        self.reasoning += event.reasoning
        self.ids += event.ids
        self.saved = False
        if self.stats is not None:
            self.stats = with_reply(self.stats, len(self.ids), event)

    def length(self) -> Length:
        """How much has arrived."""
        return Length(len(self.text), len(self.reasoning), len(self.ids))

    def gained(self, since: Length) -> tuple[str, Reply]:
        """The text and ids that arrived since the stored length."""
        ids = None
        if self.opening is not None:
            ids = self.opening.model_copy(update={"data": b""}).extended(self.ids[since.ids :])
        thought = self.reasoning[since.reasoning :]
        gained = Reply(ReplyState.RUNNING, thought, ids, stats=self.stats)
        return self.text[since.text :], gained

    def so_far(self, state: ReplyState, error: ErrorInfo | None = None) -> Reply:
        """What can be stored of it now."""
        return Reply(
            state=state,
            reasoning=self.reasoning,
            ids=self.opening.extended(self.ids) if self.opening is not None else None,
            stats=self.stats,
            error=error,
            format=self.format,
            model=self.model,
        )


def with_reply(stats: RequestStats, count: int, event: Generated) -> RequestStats:
    """The numbers of a request as `count` tokens of its reply are written."""
    end = stats.prompt_tokens
    parts = tuple(part for part in stats.parts if part.end <= end)
    if parts and count:
        parts += (ContextPart(start=end, end=end + count, kind="text", source="reply"),)
    return stats.model_copy(
        update={
            "reply_tokens": count,
            "parts": parts,
            "ttft_s": event.ttft_s,
            "decode_tokens_per_s": event.decode_tokens_per_s,
        }
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A message on the shown path with the live reply that grows in it, if one does.

    `first_in_prompt` says that nothing above it is in the prompt; `last` that nothing follows;
    `full` that the context has no room for more of it.
    """

    message: Message
    live: LiveReply | None = None
    first_in_prompt: bool = False
    last: bool = False
    full: bool = False

    @property
    def id(self) -> int:
        return self.message.id

    @property
    def text(self) -> str:
        return self.live.text if self.live else self.message.text

    @property
    def reasoning(self) -> str:
        if self.live:
            return self.live.reasoning
        return self.message.reply.reasoning if self.message.reply else ""

    @property
    def place(self) -> int:
        """Which of its siblings this is, from 0."""
        return self.message.siblings.index(self.id) if self.id in self.message.siblings else 0

    @property
    def can_go_on(self) -> bool:
        """Whether this is the last reply and was stopped or cut off."""
        reply = self.message.reply
        if reply is None or self.live is not None or not self.last:
            return False
        return reply.state is ReplyState.STOPPED or reply.finish_reason in {*CUT_SHORT, "context"}

    @property
    def offers_continue(self) -> bool:
        """True if Continue would add to it."""
        return self.can_go_on and not self.full

    def sibling(self, step: int) -> int | None:
        """The id of the alternative `step` places on, if there is one."""
        place = self.place + step
        return self.message.siblings[place] if 0 <= place < len(self.message.siblings) else None

    def with_end(self, text: str, reply: Reply) -> Row:
        """The same row once its reply has ended."""
        return replace(self, message=replace(self.message, text=text, reply=reply), live=None)
