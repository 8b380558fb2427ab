"""How many tokens the message in the composer takes, and what it leaves of the context.

The engine counts, with the model's own tokenizer, while the user types. One text is counted at a
time: of those typed meanwhile only the last one is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from core.api.commands import CountTokens
from core.api.errors import WaymarkError
from desktop.chat.context_fill import GLUE_TOKENS, PICTURE_TOKENS, fill_of
from desktop.chat.shown_chat import ShownChat
from desktop.numbers import context_used
from desktop.services import Services


@dataclass(frozen=True, slots=True)
class DraftTokens:
    """Tokens of the message, and what the context has left after it; less than 0 is too little."""

    tokens: int
    left: int


class DraftSize(QObject):
    """Counts for the composer.

    Signals:
        changed(): `size` is another one.
    """

    changed = Signal()

    def __init__(self, services: Services, chat: ShownChat) -> None:
        super().__init__()
        self._chat = chat
        self._engine = services.engine
        self._tasks = services.tasks
        self._wanted = ""
        # The text that was counted, by which tokenizer, and its tokens.
        self._counted = ("", "", 0)
        self._counting = False
        for signal in (chat.busy_changed, chat.draft_changed, chat.transcript.row_changed):
            signal.connect(self.changed)
        services.engine.changed.connect(self._on_engine)

    @property
    def size(self) -> DraftTokens | None:
        """None while it is not known."""
        model = self._engine.model
        text, tokenizer, tokens = self._counted
        if model is None or text != self._wanted or (text and tokenizer != model.tokenizer):
            return None
        pictures = self._chat.draft.ready_pictures()
        tokens += sum(each.tokens or PICTURE_TOKENS for each in pictures)
        glue = GLUE_TOKENS if tokens else 0
        return DraftTokens(tokens, model.context_length - self._used() - tokens - glue)

    def count(self, text: str) -> None:
        """The message is this text now."""
        self._wanted = text if text.strip() else ""
        if not self._wanted:
            self._counted = ("", "", 0)
        self.changed.emit()
        self._begin()

    def _used(self) -> int:
        """Tokens of the context that the chat takes without the message."""
        live, model = self._chat.running, self._engine.model
        if live is not None and live.stats is not None:
            return context_used(live.stats)
        assert model is not None
        path = self._chat.shown_path
        if not path.path:
            path = replace(path, system=self._chat.instructions)
        return fill_of(path, model.context_length).tokens

    def _on_engine(self) -> None:
        self.changed.emit()
        self._begin()

    def _begin(self) -> None:
        if not self._counting and self._is_new():
            self._counting = True
            self._tasks.spawn(self._count(), "Counting tokens")

    def _is_new(self) -> bool:
        model = self._engine.model
        known = self._counted[:2]
        return bool(model and self._wanted and known != (self._wanted, model.tokenizer))

    async def _count(self) -> None:
        try:
            while self._is_new():
                model, text = self._engine.model, self._wanted
                assert model is not None
                counted = await self._engine.client.ask(CountTokens(text=text)).last()
                if text == self._wanted:
                    self._counted = (text, model.tokenizer, counted.tokens)
                    self.changed.emit()
        except WaymarkError:
            # An engine that can't count says so when it is asked to reply.
            pass
        finally:
            self._counting = False
