"""The rows of the shown chat, and growing replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from core.api.errors import ErrorInfo
from core.api.events import CUT_SHORT, Finished, FinishReason, Generated
from core.api.limits import FORMAT_TOKENS, LONGEST_REPLY_BYTES, THOUGHT_TOKENS
from core.api.stats import ContextPart, RequestStats
from desktop.engine.error_words import error_text
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.store.tables.records import Message, Reply, ReplyState

STATES: dict[FinishReason, ReplyState] = {
    "cancelled": ReplyState.STOPPED,
    "error": ReplyState.FAILED,
}


class Length(NamedTuple):
    text: int
    reasoning: int
    ids: int


class LiveReply(QObject):
    """`grown(answer, reasoning)`: text that arrived since the last time."""

    grown = Signal(str, str)

    def __init__(self, message: int, chat: int, text: str = "", reply: Reply | None = None) -> None:
        super().__init__()
        begun = reply or Reply(ReplyState.RUNNING)
        self.message = message
        self.chat = chat
        self.text = text
        self.reasoning = begun.reasoning
        # The prompt's part of the reply's ids, from the engine or the store; None until known.
        self.opening = begun.ids
        self.ids: list[int] = []
        self.status = ""
        self.stats = begun.stats
        # Prompt tokens in the context during prefill; None before and after.
        self.done: int | None = None
        self.saved = True
        self.format = begun.format
        self.model = begun.model
        self.edited = begun.edited
        self._unshown: list[Generated] = []
        self._timer = QTimer(self, singleShot=True, interval=0)
        self._timer.timeout.connect(self.show_arrived)

    @classmethod
    def begun(cls, message: Message) -> LiveReply:
        return cls(message.id, message.chat, message.text, message.reply)

    def take(self, event: Generated) -> None:
        self.text += event.answer
        self.reasoning += event.reasoning
        self.ids += event.ids
        self.saved = False
        if self.stats is not None:
            self.stats = _with_reply(self.stats, len(self.ids), event)
        self._unshown.append(event)
        if not self._timer.isActive():
            self._timer.start()

    def show_arrived(self) -> None:
        self._timer.stop()
        arrived, self._unshown = self._unshown, []
        if arrived:
            answer = "".join(event.answer for event in arrived)
            self.grown.emit(answer, "".join(event.reasoning for event in arrived))

    def length(self) -> Length:
        return Length(len(self.text), len(self.reasoning), len(self.ids))

    def gained(self, since: Length) -> tuple[str, Reply]:
        ids = None
        if self.opening is not None:
            ids = self.opening.model_copy(update={"data": b""}).extended(self.ids[since.ids :])
        reasoning = self.reasoning[since.reasoning :]
        return self.text[since.text :], Reply(ReplyState.RUNNING, reasoning, ids, stats=self.stats)

    def so_far(self, state: ReplyState, error: ErrorInfo | None = None) -> Reply:
        return Reply(
            state=state,
            reasoning=self.reasoning,
            ids=self.opening.extended(self.ids) if self.opening is not None else None,
            stats=self.stats,
            error=error,
            format=self.format,
            model=self.model,
            edited=self.edited,
        )

    def ending(
        self, last: Finished | ErrorInfo | None, *, remote: bool = False
    ) -> tuple[str, Reply]:
        """The final text and record; without `last` nothing was sent."""
        # Servers give no ids, or those of their own tokenizer.
        if isinstance(last, Finished) and (last.reply.ids or remote):
            return last.reply.text, Reply(
                state=STATES.get(last.reason, ReplyState.COMPLETE),
                reasoning=last.reply.reasoning,
                ids=last.reply.ids,
                finish_reason=last.reason,
                stats=last.stats,
                format=self.format,
                model=self.model,
                edited=self.edited,
            )
        # Stopped before the engine had its prompt; a continued reply keeps its text.
        if not isinstance(last, ErrorInfo) or last.name == "RequestCancelled":
            return self.text, replace(self.so_far(ReplyState.STOPPED), finish_reason="cancelled")
        # A reply that an error cut short keeps what has arrived, as a stopped one.
        state = ReplyState.STOPPED if self.text or self.reasoning else ReplyState.FAILED
        return self.text, replace(self.so_far(state, last), finish_reason="error")


def _with_reply(stats: RequestStats, count: int, event: Generated) -> RequestStats:
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
    """`first_in_prompt`: the prompt leaves out what is above. `last`: nothing follows. `full`: it
    can't be continued here."""

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
        return self.message.siblings.index(self.id) if self.id in self.message.siblings else 0

    @property
    def can_go_on(self) -> bool:
        """True if this is the last reply and was stopped, cut off or edited."""
        reply = self.message.reply
        if reply is None or self.live is not None or not self.last:
            return False
        if reply.edited or reply.state is ReplyState.STOPPED:
            return True
        return reply.finish_reason in {*CUT_SHORT, "context"}

    @property
    def offers_continue(self) -> bool:
        return self.can_go_on and not self.full

    def sibling(self, step: int) -> int | None:
        """The version `step` places on."""
        place = self.place + step
        return self.message.siblings[place] if 0 <= place < len(self.message.siblings) else None

    def with_end(self, text: str, reply: Reply) -> Row:
        return replace(self, message=replace(self.message, text=text, reply=reply), live=None)


class Transcript(QObject):
    """`chat_changed`: another chat or none. `rows_replaced(first)`: from `first` on.
    `row_changed(place)`: the same message in another state."""

    chat_changed = Signal()
    rows_replaced = Signal(int)
    row_changed = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.chat: int | None = None
        self.rows: list[Row] = []

    def show(self, chat: int | None, rows: Sequence[Row]) -> None:
        if chat != self.chat:
            self.chat, self.rows = chat, list(rows)
            self.chat_changed.emit()
            return
        kept = _num_common(self.rows, rows)
        for place in range(kept):
            if self.rows[place] != rows[place]:
                self.rows[place] = rows[place]
                self.row_changed.emit(place)
        if kept < max(len(self.rows), len(rows)):
            self.rows = list(rows)
            self.rows_replaced.emit(kept)

    def update(self, row: Row) -> None:
        place = self.place_of(row.id)
        if place is not None:
            self.rows[place] = row
            self.row_changed.emit(place)

    def place_of(self, message: int) -> int | None:
        # Changes are nearly always at the end.
        for place in range(len(self.rows) - 1, -1, -1):
            if self.rows[place].id == message:
                return place
        return None

    def row_of(self, message: int) -> Row | None:
        place = self.place_of(message)
        return None if place is None else self.rows[place]

    def last_answered(self) -> tuple[Row, RequestStats] | None:
        for row in reversed(self.rows):
            stats = row.live.stats if row.live else row.message.reply and row.message.reply.stats
            if stats:
                return row, stats
        return None


def _num_common(old: Sequence[Row], new: Sequence[Row]) -> int:
    for place, (before, after) in enumerate(zip(old, new, strict=False)):
        if before.id != after.id:
            return place
    return min(len(old), len(new))


def ending_text(reply: Reply) -> str:
    """Why a reply ended early, or that it was edited."""
    if reply.state in (ReplyState.RUNNING, ReplyState.COMPLETE) and reply.finish_reason == "stop":
        return tr("Edited by you.") if reply.edited else ""
    if reply.error is not None:
        return error_text(reply.error)
    match reply.finish_reason:
        case "length":
            return tr("Cut off: the reply reached the length limit you set.")
        case "context":
            return tr("Cut off: the context is full.")
        case "format_length":
            text = tr(
                "Cut off: without a limit of your own, structured replies end after {count} tokens."
            )
            return text.format(count=format_count(FORMAT_TOKENS))
        case "thought_length":
            text = tr("Cut off: without a limit of your own, reasoning ends after {count} tokens.")
            return text.format(count=format_count(THOUGHT_TOKENS))
        case "repetition":
            return tr("Cut off: the reply kept repeating the same words.")
        case "size":
            text = tr("Cut off: the reply reached {size} MB, the most that one reply can hold.")
            return text.format(size=LONGEST_REPLY_BYTES // 2**20)
        case "cancelled":
            return tr("Stopped.")
        case None if reply.state is ReplyState.STOPPED:
            return tr("Stopped: Waymark was closed before the reply was complete.")
    return ""
