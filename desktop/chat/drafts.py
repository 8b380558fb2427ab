"""The drafts of all chats: in memory while they are written, in the store for the next start.

What a draft holds is `presentation.draft`; taking pictures into one is `pictures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from core.api.reply_format import ReplyFormat
from desktop.engine.tasks import attempted
from desktop.pictures.draft import Draft
from desktop.pictures.pictures import PictureController
from desktop.services import Services
from desktop.store.tables import drafts
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.records import Picture

# Writing to the disk at every key would be felt; losing more than half a second of typing too.
STORED_AFTER_MS = 500
Stored = tuple[str, str, tuple[Picture, ...], ReplyFormat | None]
NOTHING: Stored = ("", "", (), None)


class Drafts:
    """One draft per chat, and one (of None) for the page on which a new chat begins."""

    def __init__(self, services: Services, pictures: PictureController) -> None:
        self._pictures = pictures
        self._database = services.database
        self._tasks = services.tasks
        self._drafts = {
            row.chat: self._read(row) for row in services.database.run_now(drafts.stored)
        }
        self._stored: dict[int | None, object] = {
            chat: (draft.text, draft.system, draft.ready_pictures(), draft.format)
            for chat, draft in self._drafts.items()
        }
        pictures.changed.connect(self.save)
        pictures.outdated.connect(lambda: pictures.look_again(self._all()))

    def of(self, chat: int | None) -> Draft:
        return self._drafts.setdefault(chat, Draft())

    def put(self, chat: int | None, draft: Draft) -> None:
        """Another draft from now on; the one stored is that of a message sent, and is gone."""
        self._drafts[chat] = draft
        self._stored.pop(chat, None)

    def left(self, chat: int | None) -> StoredDraft | None:
        """What stands in a draft, and waits beside it, as it is stored; None if that is nothing."""
        draft = self.of(chat)
        left = StoredDraft(chat, draft.all_text(), draft.system, draft.key, draft.all_pictures())
        return left if left.text or left.pictures else None

    def begin(self, chat: int, text: str, shown: Sequence[Picture]) -> None:
        """A draft for a chat that was made with one."""
        pictures = [self._pictures.draft_picture(picture) for picture in shown]
        draft = Draft(text, pictures)
        self._drafts[chat] = draft
        self.save(draft)

    def forget(self, chat: int) -> None:
        """A chat is gone for good, and its draft with it."""
        self._drafts.pop(chat, None)
        self._stored.pop(chat, None)

    def clear(self) -> None:
        """Forget all of them; what is stored goes another way."""
        self._drafts.clear()
        self._stored.clear()

    def digests(self) -> set[str]:
        """The pictures of all drafts."""
        return {each.digest for draft in self._drafts.values() for each in draft.all_pictures()}

    def save(self, draft: Draft) -> None:
        """Store a draft as it is, in the background; one that was sent is none any more."""
        for chat, known in self._drafts.items():
            if known is draft or draft in known.queued:
                self._tasks.spawn(self._save(chat), "Keeping a draft")

    async def store_at_closing(self) -> None:
        """Store all of them; call when no task runs."""
        for chat in list(self._drafts):
            await attempted("storing a draft", partial(self._save, chat))

    async def _save(self, chat: int | None) -> None:
        draft = self._drafts.get(chat, Draft())
        # At the next start what was queued stands in the composer.
        now: Stored = (draft.all_text(), draft.system, draft.all_pictures(), draft.format)
        if self._stored.get(chat, NOTHING) == now:
            return
        # Whether this reaches the file is known at its end only: closing cancels what is on its
        # way to the store, and then stores everything of which that is not known.
        begun = self._stored[chat] = object()
        text, system, pictures, form = now
        # An empty page keeps its key: what was read ahead on it belongs to the chat to come.
        if now == NOTHING and chat is not None:
            await self._database.run(drafts.remove, chat)
        else:
            await self._database.run(drafts.save, chat, text, system, draft.key, pictures, form)
        if self._stored.get(chat) is begun:
            self._stored[chat] = now

    def _all(self) -> list[Draft]:
        return [each for draft in self._drafts.values() for each in (*draft.queued, draft)]

    def _read(self, row: StoredDraft) -> Draft:
        shown = [self._pictures.draft_picture(picture) for picture in row.pictures]
        return Draft(row.text, shown, row.key, row.system, row.format)
