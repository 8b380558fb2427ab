"""Follows what the engine says of its context, and puts together what the Context page shows.

Any work of the engine may move what others left behind, so only the newest word counts: what was
said of another path before is not claimed any more.
"""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from core.api.events import Prepared
from core.api.stats import CacheBytes, RequestStats
from desktop.chat.chat import ChatController
from desktop.chat.messages import LiveReply, Row
from desktop.chat.replies import Replies
from desktop.context.ahead import AheadController
from desktop.context.context_view import ContextView, Strip, prepared_strip
from desktop.engine.engine import EngineController
from desktop.engine.engine_status import EngineStatus
from desktop.store.tables.records import Reply
from desktop.words.context import disk_trouble_words

SHOWN_EVERY_MS = 250


class ContextController(QObject):
    """The context of the path on screen.

    Signals:
        changed(): `view` is another one.
        said(str): contexts can't be kept on disk any more, and why.
    """

    changed = Signal()
    said = Signal(str)

    def __init__(
        self,
        chat: ChatController,
        replies: Replies,
        ahead: AheadController,
        engine: EngineController,
    ) -> None:
        super().__init__()
        self._chat = chat
        self._engine = engine
        self._bytes: CacheBytes | None = None
        # Why the engine can't keep contexts on disk, of its last request in any chat.
        self._disk_trouble = ""
        # The message that ended the path the engine worked on last (None: a new chat's draft), and
        # what it said of it.
        self._last: tuple[int | None, RequestStats | Prepared] | None = None
        # A reply grows thirty times a second; nobody reads numbers that fast.
        self._later = QTimer(self, singleShot=True, interval=SHOWN_EVERY_MS)
        self._later.timeout.connect(self.changed)
        replies.streamed.connect(self._on_streamed)
        # The fingerprint of the model that wrote each reply of this session.
        self._answered_by: dict[int, str] = {}
        replies.progressed.connect(self._on_progress)
        replies.ended.connect(self._on_end)
        ahead.prepared.connect(self._note)
        engine.changed.connect(self._on_engine)
        transcript = chat.transcript
        for signal in (transcript.chat_changed, transcript.rows_replaced, chat.busy_changed):
            signal.connect(self.changed)

    @property
    def view(self) -> ContextView:
        """What the page shows now."""
        return replace(self._view(), disk_trouble=self._disk_trouble)

    def _view(self) -> ContextView:
        model, live = self._engine.model, self._chat.running
        if live is not None and live.stats is not None and live.done is not None:
            strip = Strip.of_request(live.stats, live.done)
            return ContextView(live.stats, live.done, strip, live.stats.bytes, model)
        last = self._chat.transcript.last_answered()
        if last is None:
            begun = bool(self._chat.transcript.rows)
            return ContextView(None, None, self._strip(None), self._bytes, model, begun=begun)
        row, stats = last
        if self._of_other(row, stats):
            return ContextView(None, None, self._strip(None), self._bytes, model, foreign=True)
        strip, reasoned = self._strip(stats), bool(row.reasoning.strip())
        return ContextView(stats, None, strip, self._bytes, model, reasoned=reasoned)

    def _of_other(self, row: Row, stats: RequestStats) -> bool:
        """Whether another model answered than the one that is loaded, or one loaded otherwise."""
        model = self._engine.model
        if model is None or row.live is not None:
            return False
        if self._answered_by.get(row.id, model.fingerprint) != model.fingerprint:
            return True
        ids = row.message.reply.ids if row.message.reply else None
        other_words = ids is not None and ids.tokenizer != model.tokenizer
        return other_words or stats.context_length not in (0, model.context_length)

    def _end(self) -> int | None:
        """The message that ends what the engine has worked on of this chat.

        A reply that waits for its turn changes nothing yet: it is the reply before that.
        """
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
        if live.stats is not None and live.done is not None:
            self._note(live.message, live.stats)
        else:
            self.changed.emit()

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        if reply.stats is not None and reply.error is None:
            if self._engine.model is not None:
                self._answered_by[live.message] = self._engine.model.fingerprint
            self._note(live.message, reply.stats)

    def _note(self, end: int | None, said: RequestStats | Prepared) -> None:
        self._last, self._bytes = (end, said), said.bytes
        if isinstance(said, RequestStats):
            self._note_trouble(said.disk_trouble or "")
        self.changed.emit()

    def _note_trouble(self, trouble: str) -> None:
        """Say once what is wrong with the disk; again after it was well meanwhile."""
        if trouble and not self._disk_trouble:
            self.said.emit(disk_trouble_words(trouble))
        self._disk_trouble = trouble

    def _on_engine(self, status: EngineStatus) -> None:
        if status.model is None:
            self._last = self._bytes = None
            self._disk_trouble = ""
        self.changed.emit()
