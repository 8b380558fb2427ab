"""Unsent text: drafts and instructions, which are stored, and edits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from PySide6.QtCore import QTimer

from desktop.documents.documents import DocumentController
from desktop.engine.tasks import attempted
from desktop.i18n import tr
from desktop.pictures.draft import Draft, DraftDocument, DraftPicture
from desktop.pictures.pictures import PictureController
from desktop.services import Services
from desktop.store.tables import chats, drafts
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.records import Attachment, Begin, Message, Picture

# Storing at every key would be felt; so would losing more than half a second of typing.
STORED_AFTER_MS = 500


class Drafts:
    """One draft per chat, one (None) for a new chat, and one per edited message."""

    def __init__(
        self, services: Services, pictures: PictureController, documents: DocumentController
    ) -> None:
        self.pictures = pictures
        self.documents = documents
        self._database = services.database
        self._tasks = services.tasks
        self._settings = services.settings
        self._drafts = {
            row.chat: self._read(row) for row in services.database.run_now(drafts.stored)
        }
        # By message: its chat, and the draft of what replaces it.
        self._edits: dict[int, tuple[int, Draft]] = {}
        # Instructions typed since the start, by chat; the others are in the store.
        self._typed: dict[int, str] = {}
        self._unstored: set[int] = set()
        # Chats whose drafts have changed since they were stored.
        self._changed: set[int | None] = set()
        self._timer = QTimer(singleShot=True, interval=STORED_AFTER_MS)
        self._timer.timeout.connect(self._store_typed)
        pictures.changed.connect(self.save)
        documents.changed.connect(self.save)
        for look in (pictures.look_again, documents.count_again):
            services.engine.model_loaded.connect(lambda _, look=look: look(self._all()))

    # Drafts.

    def of(self, chat: int | None) -> Draft:
        if chat not in self._drafts:
            self._drafts[chat] = self.fresh(chat)
        return self._drafts[chat]

    def fresh(self, chat: int | None) -> Draft:
        """A new chat begins with the default preset."""
        draft = Draft()
        if chat is None:
            draft.begin_with(self._settings.settings.presets.begin)
        return draft

    def put(self, chat: int | None, draft: Draft) -> None:
        """Call when a sent message took the stored draft with it."""
        self._drafts[chat] = draft
        self._changed.discard(chat)

    def left(self, chat: int | None) -> StoredDraft | None:
        draft = self.of(chat)
        text, shown, begin = draft.all_text(), draft.all_attachments(), Begin(draft.system)
        return StoredDraft(chat, text, draft.key, shown, begin) if text or shown else None

    def begin(self, chat: int, text: str, shown: Sequence[Attachment]) -> None:
        draft = self._drafts[chat] = self._with(Draft(text), shown)
        self.save(draft)

    def save(self, draft: Draft) -> None:
        self.save_soon(draft)
        self._store_changed()

    def save_soon(self, draft: Draft) -> None:
        for chat, known in self._drafts.items():
            if known is draft or draft in known.queued:
                self._changed.add(chat)
        self._start()

    def _start(self) -> None:
        # From the first key that isn't stored: a steady typist never pauses.
        if not self._timer.isActive():
            self._timer.start()

    def _store_changed(self) -> None:
        for chat in self._changed:
            self._tasks.spawn(self._save(chat), tr("Storing a draft"))
        self._changed.clear()

    async def _save(self, chat: int | None) -> None:
        draft = self._drafts.get(chat, Draft())
        text, shown = draft.all_text(), draft.all_attachments()
        # A new chat keeps its key: what was prefilled for its draft belongs to it.
        if chat is not None and not (text or shown):
            await self._database.run(drafts.remove, chat)
        else:
            stored = StoredDraft(chat, text, draft.key, shown, draft.begin, draft.folder)
            await self._database.run(drafts.save, stored)

    def _all(self) -> list[Draft]:
        unsent = [each for draft in self._drafts.values() for each in (*draft.queued, draft)]
        return [*unsent, *(draft for _, draft in self._edits.values())]

    def _read(self, row: StoredDraft) -> Draft:
        draft = Draft(row.text, key=row.key, folder=row.folder)
        draft.begin_with(row.begin)
        return self._with(draft, row.shown)

    def _with(self, draft: Draft, shown: Sequence[Attachment]) -> Draft:
        for each in shown:
            if isinstance(each, Picture):
                draft.pictures.append(DraftPicture(each.name, each))
            else:
                draft.documents.append(DraftDocument(each.name, document=each))
        return draft

    # Messages being edited.

    def edit(self, message: Message) -> Draft:
        if message.id not in self._edits:
            draft = self._with(Draft(message.text), message.attachments)
            self._edits[message.id] = (message.chat, draft)
        return self._edits[message.id][1]

    def edited(self, message: int) -> Draft | None:
        return self._edits[message][1] if message in self._edits else None

    def end_edit(self, message: int) -> None:
        self._edits.pop(message, None)

    def edited_pictures(self) -> list[Picture]:
        return [each for _, draft in self._edits.values() for each in draft.ready_pictures()]

    # Instructions.

    def instruct(self, chat: int | None, system: str) -> None:
        if chat is None:
            self.of(None).system = system
            self._changed.add(None)
        else:
            self._typed[chat] = system
            self._unstored.add(chat)
        self._start()

    def instructions(self, chat: int) -> str | None:
        """None unless typed since the start."""
        return self._typed.get(chat)

    async def store_instructions(self) -> None:
        """Call before a request reads them. Raises StoreError."""
        for chat in list(self._unstored):
            system = self._typed[chat]
            await self._database.run(chats.instruct, chat, system)
            # More may have been typed meanwhile.
            if self._typed.get(chat) == system:
                self._unstored.discard(chat)

    def _store_typed(self) -> None:
        self._store_changed()
        self._tasks.spawn(self.store_instructions(), tr("Storing instructions"))

    # All of these.

    def digests(self) -> set[str]:
        unsent = [each for draft in self._drafts.values() for each in draft.all_attachments()]
        return {each.digest for each in (*unsent, *self.edited_pictures())}

    def forget(self, gone: Collection[int]) -> None:
        for chat in gone:
            self._drafts.pop(chat, None)
            self._typed.pop(chat, None)
            self._unstored.discard(chat)
        self._edits = {key: edit for key, edit in self._edits.items() if edit[0] not in gone}

    def clear(self) -> None:
        for known in (self._drafts, self._changed, self._edits, self._typed, self._unstored):
            known.clear()

    async def store_at_closing(self) -> None:
        """Call when no task runs."""
        for chat in list(self._drafts):
            await attempted("storing a draft", partial(self._save, chat))
