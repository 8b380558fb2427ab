"""The end of the context: warn before it, leave out the oldest turns, or begin from a summary.

Turns that are left out stay in the chat. They are chosen in advance, so the shorter prompt can be
prefilled when idle. A summary is a side request, which evicts nothing; it becomes the instructions
of a new chat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame

from core.api.chat import Conversation, TextPart, UserMessage
from core.api.commands import Generate
from core.api.errors import NoModelError, WaymarkError
from core.api.events import Finished
from core.api.model_info import ModelInfo
from core.client.requests import Request
from desktop import theme
from desktop.chat.chat import ChatController
from desktop.chat.context_fill import (
    PREPARE,
    ContextFill,
    estimate,
    fill_of,
    fill_words,
    longer_context,
    plan,
)
from desktop.chat.conversation import conversation_of
from desktop.chats.chats import ChatsController
from desktop.engine.error_words import in_language
from desktop.i18n import tr
from desktop.numbers import format_bytes, format_count
from desktop.services import Controller, Services
from desktop.settings.settings import CONTEXT_KEY
from desktop.store.tables import chats, forks, messages
from desktop.store.tables.forks import Fork
from desktop.store.tables.records import ChatPath, Message, ReplyState
from desktop.widgets.layouts import column
from desktop.widgets.plain import Button, Label, named, set_tip

SUMMARY_TOKENS = 300
ASK = (
    "Summarise our conversation so far, so that it can be continued from the summary alone. Name "
    "what was asked, what was found and decided, what the pictures show as far as it matters, and "
    "what is still open. Write only the summary."
)


class LimitController(Controller):
    # `words`, `fill`, `longer` or `summarising` has changed.
    changed = Signal()

    def __init__(self, services: Services, chat: ChatController, chats: ChatsController) -> None:
        super().__init__(services)
        self._chat = chat
        self._chats = chats
        self._plans: dict[int, int] = {}
        self._summary: Request[Finished] | None = None
        self._summarised: int | None = None
        self.trouble = ""
        chat.transcript.chat_changed.connect(self._forget_trouble)
        chat.busy_changed.connect(self.changed)
        self._engine.changed.connect(self.changed)
        self.changed.connect(self._mark_last)

    @property
    def fill(self) -> ContextFill | None:
        """None if unknown or while a reply is running."""
        model = self._engine.model
        shown = self._chat.shown_path
        elsewhere = shown.place is not None
        if model is None or elsewhere or not shown.path or self._chat.running is not None:
            return None
        return fill_of(shown, model.context_length)

    @property
    def summarising(self) -> bool:
        return self._summarised is not None and self._summarised == self._chat.transcript.chat

    def _mark_last(self) -> None:
        transcript, fill = self._chat.transcript, self.fill
        row = transcript.rows[-1] if transcript.rows else None
        full = self._chat.place is not None or (fill is not None and fill.full)
        if row is not None and row.full != full:
            transcript.update(replace(row, full=full))

    def words(self) -> str:
        if self.summarising:
            return tr("Writing a summary of this chat…")
        fill, model = self.fill, self._engine.model
        words = fill_words(fill, model) if fill and model else ""
        return f"{self.trouble} {words}".strip() if words else ""

    def compacted(self, chat: int, chat_path: ChatPath) -> ChatPath | None:
        """None while the context is far from full."""
        model = self._engine.model
        if model is None:
            return None
        fill = fill_of(chat_path, model.context_length)
        if fill.share < PREPARE and not fill.refused:
            return None
        return self._planned(chat, chat_path, fill)

    @property
    def longer(self) -> tuple[int, int] | None:
        """Tokens that would hold the chat, and bytes of their KV cache."""
        fill, model = self.fill, self._engine.model
        tokens = longer_context(fill, model) if fill and model and fill.full else None
        return (tokens, model.context_bytes(tokens)) if tokens and model else None

    def load_longer(self) -> None:
        """Reload the model with a context that holds the shown chat, and retry the last message."""
        longer, rows = self.longer, self._chat.transcript.rows
        if longer is None or not rows:
            return
        words = self._settings.set_value(CONTEXT_KEY, longer[0])
        if words:
            self.trouble = words
            self.changed.emit()
            return
        self._settings.load()
        self._go_on(rows[-1].message)

    def drop(self) -> None:
        chat = self._chat.transcript.chat
        if chat is not None:
            self._tasks.spawn(self._drop(chat), tr("Leaving out the oldest turns"))

    def tell_all(self) -> None:
        chat = self._chat.transcript.chat
        if chat is not None:
            self._tasks.spawn(self._leave_out(chat, None), tr("Including all messages again"))

    def summarise(self) -> None:
        chat = self._chat.transcript.chat
        if chat is not None and self._summarised is None:
            self._summarised, self.trouble = chat, ""
            self.changed.emit()
            self._tasks.spawn(self._summarise(chat), tr("Writing a summary"))

    def cancel_summary(self) -> None:
        if self._summary is not None:
            self._summary.cancel()

    async def _drop(self, chat: int) -> None:
        chat_path = await self._database.run(messages.read_chat, chat)
        model = self._engine.model
        if chat_path is None or model is None:
            return
        fill = fill_of(chat_path, model.context_length)
        shorter = self._planned(chat, chat_path, fill)
        if shorter is None:
            return
        await self._leave_out(chat, shorter.left_out)
        # Retry the request that was refused.
        if fill.refused and self._chat.transcript.chat == chat:
            self._go_on(chat_path.path[-1])

    def _go_on(self, last: Message) -> None:
        (self._chat.go_on if last.text else self._chat.regenerate)(last.id)

    async def _leave_out(self, chat: int, message: int | None) -> None:
        await self._database.run(chats.leave_out, chat, message)
        await self._chat.show_again(chat)

    def _planned(self, chat: int, chat_path: ChatPath, fill: ContextFill) -> ChatPath | None:
        left_out = plan(chat_path, fill, self._plans.get(chat))
        if left_out is None:
            return None
        self._plans[chat] = left_out
        return replace(chat_path, left_out=left_out)

    async def _summarise(self, chat: int) -> None:
        try:
            new = await self._begin_from_summary(chat)
        except WaymarkError as error:
            self.trouble = tr("No summary was written: {reason}").format(
                reason=in_language(error.message)
            )
            new = None
        finally:
            self._summary = self._summarised = None
        if new is not None:
            await self._chats.refresh()
        self.changed.emit()
        # Don't open it if the user has opened another chat meanwhile.
        if new is not None and self._chat.transcript.chat == chat:
            self._chat.open_made(new)

    async def _begin_from_summary(self, chat: int) -> Fork | None:
        chat_path = await self._database.run(messages.read_chat, chat)
        model = self._engine.model
        if model is None:
            raise NoModelError(tr("Load a model first."))
        if chat_path is None:
            return None
        answered, question = split_unanswered(chat_path)
        text = await self._ask(answered, model)
        if text is None:
            return None
        return await self._database.run(forks.begin_from, chat, text, question)

    async def _ask(self, chat_path: ChatPath, model: ModelInfo) -> str | None:
        settings = self._settings.settings
        command = Generate(
            conversation=self._asking(chat_path, model),
            chat=chat_path.key,
            side=True,
            sampling=settings.sampling.model_copy(update={"max_tokens": SUMMARY_TOKENS}),
            thinking=False if model.thinking_switch else None,
            cache=settings.cache,
        )
        self._summary = self._engine.client.ask(command)
        finished = await self._summary.last()
        if finished.reason == "cancelled":
            return None
        if not finished.reply.text.strip():
            raise NoSummaryError(tr("The model wrote nothing."))
        return finished.reply.text.strip()

    def _asking(self, chat_path: ChatPath, model: ModelInfo) -> Conversation:
        """Leaves out turns that don't fit."""
        fill = fill_of(chat_path, model.context_length)
        room = model.context_length - SUMMARY_TOKENS - 2 * estimate(ASK)
        if fill.tokens > room:
            place = fill.cut(room)
            messages = chat_path.in_prompt
            left_out = chat_path.left_out if place is None else messages[place - 1].id
            chat_path = replace(chat_path, left_out=left_out)
        ask = UserMessage(content=(TextPart(text=ASK),))
        return conversation_of(chat_path, self._blobs.path, ask)

    def _forget_trouble(self) -> None:
        self.trouble = ""
        self.changed.emit()


class NoSummaryError(WaymarkError, title="There is no summary"): ...


def split_unanswered(chat_path: ChatPath) -> tuple[ChatPath, Message | None]:
    path = chat_path.path
    last = path[-1].reply if path else None
    if len(path) > 2 and last and last.state is ReplyState.FAILED and not path[-1].text:
        return replace(chat_path, path=path[:-2]), path[-2]
    return chat_path, None


class LimitBar(QFrame):
    edit_asked = Signal()

    def __init__(self, limit: LimitController) -> None:
        super().__init__()
        self._limit = limit
        named(self, "limitBar", tr("The context is filling up"))
        self.setProperty("class", "notice")
        self._words = Label(name="limitWords", wraps=True)
        self._buttons = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._buttons.addStretch(1)
        column(self._words, self._buttons, of=self, margins=(14, 10, 10, 10), spacing=8)
        self._cancel = self._add("limitCancel", tr("Cancel"), limit.cancel_summary)
        self._edit = self._add("limitEdit", tr("Edit the message"), self.edit_asked.emit)
        set_tip(self._edit, tr("Shorten it and send it again"))
        self._drop = self._add("limitDrop", tr("Leave out oldest turns"), limit.drop)
        set_tip(self._drop, tr("The model no longer reads them; they stay in this chat"))
        self._longer = self._add("limitLonger", "", limit.load_longer)
        self._summary = self._add(
            "limitSummary", tr("New chat from a summary"), limit.summarise, "primary"
        )
        set_tip(self._summary, tr("This chat stays as it is"))
        limit.changed.connect(self._show)
        self._show()

    def _add(self, name: str, words: str, act: Callable[[], object], style: str = "") -> Button:
        button = Button(words, name=name, style=style)
        button.clicked.connect(lambda _checked: act())
        self._buttons.addWidget(button)
        return button

    def _show(self) -> None:
        fill, summarising = self._limit.fill, self._limit.summarising
        offered = None if summarising else fill
        alone = offered is not None and offered.alone
        longer = self._limit.longer if offered else None
        self._cancel.setVisible(summarising)
        self._edit.setVisible(alone)
        self._drop.setVisible(offered is not None and offered.can_drop)
        self._summary.setVisible(offered is not None and len(offered.costs) > 1 and not alone)
        self._longer.setVisible(longer is not None)
        if longer is not None:
            tokens, size = format_count(longer[0]), format_bytes(longer[1])
            words = tr("Load with {tokens} tokens ({size})").format(tokens=tokens, size=size)
            self._longer.set_words(words)
            set_tip(self._longer, tr("Its KV cache takes {size} of memory").format(size=size))
        full = offered is not None and offered.full
        self._say(self._limit.words(), "danger" if full else "warning")

    def _say(self, words: str, kind: str) -> None:
        self._words.setText(words)
        self.setAccessibleDescription(words)
        if self.property("kind") != kind:
            self.setProperty("kind", kind)
            theme.restyle(self)
        self.setVisible(bool(words))
        self._fit()

    def _fit(self) -> None:
        margins = self.contentsMargins().left() + self.contentsMargins().right()
        layout = self.layout()
        assert layout is not None
        inner = layout.contentsMargins()
        room = self.width() - margins - inner.left() - inner.right()
        self._words.setMinimumHeight(max(0, self._words.heightForWidth(room)))
        shown = [each for each in self.findChildren(Button) if not each.isHidden()]
        wanted = sum(each.sizeHint().width() + self._buttons.spacing() for each in shown)
        kinds = QBoxLayout.Direction
        self._buttons.setDirection(kinds.TopToBottom if wanted > room else kinds.LeftToRight)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
