"""Titles of chats that the model writes while the engine is idle.

A chat begins with its first words as a title. After its first reply the model is asked for one: a
side request, which evicts nothing and makes way for every other request. Chats on servers keep
their first words, because nothing is sent there unasked.
"""

from __future__ import annotations

import sqlite3

from PySide6.QtCore import QObject

from core.api.chat import TextPart, UserMessage
from core.api.commands import Generate
from core.api.errors import WaymarkError
from core.api.params import SamplingParams
from desktop.chat.chat import conversation_of
from desktop.chat.replies import Replies
from desktop.chat.transcript import LiveReply
from desktop.chats.chats import ChatsController
from desktop.i18n import tr
from desktop.services import Services
from desktop.store.folders import DEMO_MODEL
from desktop.store.tables import chats, messages
from desktop.store.tables.records import ChatPath, Reply, ReplyState

TITLE_TOKENS = 32
ASK = UserMessage(
    content=(
        TextPart(
            text="Write a title for our conversation: at most six words, in its language, without "
            "quotation marks. Write only the title."
        ),
    )
)


class Titles(QObject):
    def __init__(self, services: Services, chats: ChatsController, replies: Replies) -> None:
        super().__init__()
        self._services, self._chats = services, chats
        replies.ended.connect(self._on_end)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        wanted = self._services.settings.settings.background.titles
        if wanted and reply.state is ReplyState.COMPLETE:
            self._services.tasks.spawn(self._entitle(live.chat), tr("Writing a title"))

    async def _entitle(self, chat: int) -> None:
        database = self._services.database
        chat_path = await database.run(_untitled, chat)
        if chat_path is None or chat_path.place is not None:
            return
        try:
            reply = await self._ask(chat_path)
        except WaymarkError:
            # The next reply gives another chance.
            return
        if reply is not None:
            await database.run(chats.entitle, chat, chats.title_of(reply))
            await self._chats.refresh()

    async def _ask(self, chat_path: ChatPath) -> str | None:
        """'' if it is no title, None if none was asked for or the request was stopped. Raises
        WaymarkError."""
        model, settings = self._services.engine.model, self._services.settings.settings
        # The demo model only talks about its pictures.
        if model is None or model.path == str(DEMO_MODEL):
            return None
        command = Generate(
            conversation=conversation_of(chat_path, self._services.blobs.path, ASK),
            chat=chat_path.key,
            side=True,
            idle=True,
            sampling=SamplingParams(temperature=0, max_tokens=TITLE_TOKENS),
            thinking=False if model.thinking_switch else None,
            cache=settings.cache,
        )
        finished = await self._services.engine.client.ask(command).last()
        if finished.reason == "cancelled":
            return None
        # A model that goes on and on has not written a title.
        return finished.reply.text if finished.reason == "stop" else ""


def _untitled(connection: sqlite3.Connection, chat: int) -> ChatPath | None:
    return messages.read_chat(connection, chat) if chats.awaits_title(connection, chat) else None
