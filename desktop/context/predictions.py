"""How long an action on a message would take, in its button's tool tip.

The engine is asked once the pointer or the focus rests on a button, but not during a reply.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import shiboken6
from PySide6.QtCore import QPoint, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton

from core.api.chat import Conversation, UserMessage
from core.api.commands import Predict
from core.api.errors import WaymarkError
from core.api.events import Predicted
from core.client.requests import Request
from desktop.chat.chat import ChatController
from desktop.chat.conversation import before_reply, conversation_of, draft_message
from desktop.chat.rows.row_actions import Deed
from desktop.i18n import tr
from desktop.numbers import context_used, count_of, format_seconds
from desktop.services import Controller, Services
from desktop.store.tables import messages, replies
from desktop.store.tables.records import ChatPath, Message
from desktop.widgets.plain import set_tip, show_tip, tip_is_shown

REST_MS = 150
Target: TypeAlias = QAbstractButton | QAction
# Stands for what the user will change: read from its first letter on.
CHANGED = "\N{HORIZONTAL ELLIPSIS} "


class Predictions(Controller):
    def __init__(self, services: Services, chat: ChatController) -> None:
        super().__init__(services)
        self._chat = chat
        self._pointed: tuple[Target, Deed] | None = None
        self._request: Request[Predicted] | None = None
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._on_rest)

    def point(self, button: Target, deed: Deed | None) -> None:
        """The pointer or focus came to a button, or left it (None)."""
        self._rest.stop()
        if self._request is not None:
            self._request.cancel()
            self._request = None
        if self._pointed is not None and shiboken6.isValid(self._pointed[0]):
            # What was predicted won't be true for long.
            _say(self._pointed[0], "")
        self._pointed = (button, deed) if deed is not None else None
        if deed is not None:
            self._rest.start()

    async def of_models(self) -> dict[str, str]:
        """The shown chat's wait after a load, by the names of models that have answered before."""
        answered = self._chat.transcript.last_answered()
        if answered is None:
            return {}
        speeds = await self._database.run(replies.prefill_speeds)
        tokens = context_used(answered[1])
        return {name: another_model_words(tokens, tokens * each) for name, each in speeds.items()}

    def _on_rest(self) -> None:
        here = self._engine.model is not None and self._chat.place is None
        if self._pointed is not None and here:
            self._tasks.spawn(self._predict(*self._pointed), tr("Predicting a wait"))

    async def _predict(self, button: Target, deed: Deed) -> None:
        conversation = await self._conversation(deed)
        pointed, model = (button, deed), self._engine.model
        if conversation is None or model is None or self._pointed != pointed or self._chat.running:
            return
        self._request = request = self._engine.client.ask(
            Predict(
                conversation=conversation,
                chat=self._chat.key,
                thinking=self._chat.settings.thinking if model.thinking_switch else None,
                cache=self._settings.settings.cache,
            )
        )
        try:
            predicted = await request.last()
        except WaymarkError:
            return  # The action itself will say why.
        if self._request is request and shiboken6.isValid(button):
            fits = predicted.prompt_tokens <= model.context_length
            _say(button, words_for(deed, predicted) if fits else "")

    async def _conversation(self, deed: Deed) -> Conversation | None:
        shown, transcript = self._chat.shown_path, self._chat.transcript
        place, row = transcript.place_of(deed.message), transcript.row_of(deed.message)
        if place is None or row is None:
            return None
        if deed.kind in ("delete", "delete_with_reply"):
            rest = shown.path[place + 1 :]
            if deed.kind == "delete_with_reply" and rest and rest[0].is_reply:
                rest = rest[1:]
            return conversation_of(replace(shown, path=shown.path[:place] + rest), self._blobs.path)
        if deed.kind in ("before", "after"):
            sibling = row.sibling(-1 if deed.kind == "before" else 1)
            other: ChatPath | None = None
            if sibling is not None:
                other = await self._database.run(messages.read_chat, row.message.chat, sibling)
            return conversation_of(other, self._blobs.path) if other is not None else None
        whole = deed.kind in ("fork", "continue")
        path = replace(shown, path=shown.path[: place + 1 if whole else place])
        if whole:
            return conversation_of(path, self._blobs.path)
        if deed.kind == "regenerate":
            return before_reply(path, self._blobs.path)
        message = self._edited(row.message, begun=deed.kind == "send_again")
        return conversation_of(path, self._blobs.path, message)

    def _edited(self, message: Message, begun: bool) -> UserMessage:
        draft = self._chat.drafts.edited(message.id) if begun else None
        if draft is None:
            return draft_message(CHANGED + message.text, message.attachments, self._blobs.path)
        return draft_message(draft.text.strip(), draft.attachments(), self._blobs.path)


def words_for(deed: Deed, predicted: Predicted) -> str:
    """Reads 212 tokens, about 0.4 s; everything before is kept."""
    if not predicted.tokens:
        return tr("Nothing is read again; everything is kept.")
    read = count_of(predicted.tokens, "token")
    if predicted.encoded:
        images = count_of(predicted.encoded, "image")
        read = tr("{tokens} and looks at {images}").format(tokens=read, images=images)
    if predicted.seconds is not None:
        time = format_seconds(max(predicted.seconds, 0.01))
        read = tr("{read}, about {time}").format(read=read, time=time)
    if predicted.tokens == predicted.prompt_tokens:
        kept = tr("Reads the whole chat: {read}.")
    elif deed.kind == "edit":
        kept = tr("Reads up to {read}; everything before is kept.")
    elif deed.kind in ("fork", "before", "after", "delete", "delete_with_reply"):
        kept = tr("Reads {read}, before the next reply; everything before is kept.")
    else:
        kept = tr("Reads {read}; everything before is kept.")
    return kept.format(read=read)


def another_model_words(tokens: int, seconds: float) -> str:
    return tr(
        "Reads this chat from the beginning, unless it has read it before: about {tokens}, {time}."
    ).format(tokens=count_of(tokens, "token"), time=format_seconds(max(seconds, 0.01)))


def _say(button: Target, words: str) -> None:
    if isinstance(button, QAction):
        set_tip(button, words)
        return
    told = f"{button.accessibleName()}\n{words}".strip()
    set_tip(button, told)
    button.setAccessibleDescription(words)
    # A tip that is on screen has the old words; for the keyboard, none is.
    if words and (tip_is_shown() or not button.underMouse()):
        show_tip(button.mapToGlobal(QPoint(0, button.height())), told, button)
