"""The state behind the Context page.

The engine may move the contexts of other chats, so only its newest report is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtCore import QTimer, Signal

from core.api.events import Prepared
from core.api.model_info import ModelInfo
from core.api.stats import CacheBytes, RequestStats
from core.remote.connection import host_of
from desktop.chat.chat import ChatController
from desktop.chat.transcript import LiveReply, Row
from desktop.context.idle_prefill import IdlePrefill
from desktop.context.strip import Strip, prepared_strip
from desktop.engine.engine_status import EngineStatus
from desktop.engine.error_words import disk_trouble_words
from desktop.services import Controller, Services
from desktop.store.tables.records import Reply

SHOWN_EVERY_MS = 250


@dataclass(frozen=True, slots=True)
class ContextView:
    """None is unknown. `foreign`: another model wrote the last reply, so its numbers aren't shown.
    `host` is the server that writes the next reply, '' for this computer. `disk_trouble`: why
    contexts can't be saved."""

    stats: RequestStats | None = None
    done: int | None = None
    strip: Strip = Strip()  # noqa: RUF009 - immutable
    bytes: CacheBytes | None = None
    model: ModelInfo | None = None
    foreign: bool = False
    host: str = ""
    reasoned: bool = False
    begun: bool = False
    disk_trouble: str = ""


class ContextController(Controller):
    changed = Signal()
    said = Signal(str)

    def __init__(self, services: Services, chat: ChatController, idle_prefill: IdlePrefill) -> None:
        super().__init__(services)
        self._chat = chat
        # From the engine's last request in any chat.
        self._disk_trouble = ""
        # The last message of the path the engine worked on last (None: the draft of a new chat),
        # and its report.
        self._last: tuple[int | None, RequestStats | Prepared] | None = None
        # A reply grows thirty times a second; its numbers are shown less often.
        self._later = QTimer(self, singleShot=True, interval=SHOWN_EVERY_MS)
        self._later.timeout.connect(self.changed)
        # Fingerprint of the model that wrote each reply of this session.
        self._answered_by: dict[int, str] = {}
        chat.replies.streamed.connect(self._on_streamed)
        chat.replies.progressed.connect(self._on_progress)
        chat.replies.ended.connect(self._on_end)
        idle_prefill.prepared.connect(self._note)
        self._engine.changed.connect(self._on_engine)
        shown = chat.transcript
        for signal in (shown.chat_changed, shown.rows_replaced, chat.busy_changed, chat.placed):
            signal.connect(self.changed)

    @property
    def view(self) -> ContextView:
        live, place = self._chat.running, self._chat.place
        last = self._chat.transcript.last_answered()
        view = ContextView(disk_trouble=self._disk_trouble)
        if place is not None:
            report = last[1].remote if last is not None else None
            # A running reply has numbers when the server has reported some.
            told = report is not None and (report.prompt or live is None)
            return replace(
                view, stats=last[1] if last and told else None, host=host_of(place.address)
            )
        held = self._last[1].bytes if self._last is not None else None
        view = replace(view, model=self._engine.model, bytes=held)
        if live is not None and live.stats is not None and live.done is not None:
            strip, held = Strip.of_request(live.stats, live.done), live.stats.bytes
            return replace(view, stats=live.stats, done=live.done, strip=strip, bytes=held)
        if last is None:
            begun = bool(self._chat.transcript.rows)
            return replace(view, strip=self._strip(None), begun=begun)
        row, stats = last
        if self._of_other(row, stats):
            return replace(view, strip=self._strip(None), foreign=True)
        reasoned = bool(row.reasoning.strip())
        return replace(view, stats=stats, strip=self._strip(stats), reasoned=reasoned)

    def _of_other(self, row: Row, stats: RequestStats) -> bool:
        model = self._engine.model
        if stats.remote is not None:
            return True
        if model is None or row.live is not None:
            return False
        if self._answered_by.get(row.id, model.fingerprint) != model.fingerprint:
            return True
        ids = row.message.reply.ids if row.message.reply else None
        other_words = ids is not None and ids.tokenizer != model.tokenizer
        return other_words or stats.context_length not in (0, model.context_length)

    def _end(self) -> int | None:
        """The last message that the engine has worked on."""
        rows, running = self._chat.transcript.rows, self._chat.running
        waits = running is not None and running.stats is None
        place = -3 if waits and len(rows) > 2 else -1
        return rows[place].id if rows else None

    def _strip(self, stats: RequestStats | None) -> Strip:
        model = self._engine.model
        end = self._end()
        said = self._last[1] if self._last is not None and self._last[0] == end else None
        if isinstance(said, Prepared):
            return prepared_strip(said, stats, model.context_length if model else 0)
        return Strip.of_request(stats, known=said is not None) if stats else Strip()

    def _on_streamed(self, message: int) -> None:
        running = self._chat.running
        if running is not None and running.message == message and not self._later.isActive():
            self._later.start()

    def _on_progress(self, live: LiveReply) -> None:
        if live.stats is not None and live.stats.remote is None and live.done is not None:
            self._note(live.message, live.stats)
        else:
            self.changed.emit()

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        here = reply.stats is not None and reply.stats.remote is None
        if here and reply.stats is not None and reply.error is None:
            if self._engine.model is not None:
                self._answered_by[live.message] = self._engine.model.fingerprint
            self._note(live.message, reply.stats)

    def _note(self, end: int | None, said: RequestStats | Prepared) -> None:
        self._last = end, said
        if isinstance(said, RequestStats):
            self._note_trouble(said.disk_trouble or "")
        self.changed.emit()

    def _note_trouble(self, trouble: str) -> None:
        """Report a disk problem once, and again if it comes back."""
        if trouble and not self._disk_trouble:
            self.said.emit(disk_trouble_words(trouble))
        self._disk_trouble = trouble

    def _on_engine(self, status: EngineStatus) -> None:
        if status.model is None:
            self._last, self._disk_trouble = None, ""
        self.changed.emit()
