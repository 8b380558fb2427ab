"""Messages that are being edited: each with a draft of what is to be sent in its place.

They are in memory alone, and outlive the widgets they are written in.
"""

from __future__ import annotations

from desktop.pictures.draft import Draft
from desktop.pictures.pictures import PictureController
from desktop.store.tables.records import Message, Picture


class Edits:
    """A draft for each message being edited; nothing of the message changes."""

    def __init__(self, pictures: PictureController) -> None:
        self.pictures = pictures
        self._edits: dict[int, tuple[int, Draft]] = {}
        pictures.outdated.connect(
            lambda: pictures.look_again([draft for _, draft in self._edits.values()])
        )

    def begin(self, message: Message) -> Draft:
        """The draft of a message: the one begun before, or else its words and pictures."""
        if message.id not in self._edits:
            shown = [self.pictures.draft_picture(picture) for picture in message.pictures]
            self._edits[message.id] = (message.chat, Draft(message.text, shown))
        return self._edits[message.id][1]

    def of(self, message: int) -> Draft | None:
        """The draft of a message that is being edited."""
        return self._edits[message][1] if message in self._edits else None

    def end(self, message: int) -> None:
        """The message is no longer edited."""
        self._edits.pop(message, None)

    def forget(self, chat: int) -> None:
        """A chat is gone for good."""
        self._edits = {key: edit for key, edit in self._edits.items() if edit[0] != chat}

    def clear(self) -> None:
        """No chat is left."""
        self._edits.clear()

    def ready_pictures(self) -> list[Picture]:
        """The pictures of all of them."""
        return [each for _, draft in self._edits.values() for each in draft.ready_pictures()]

    def digests(self) -> set[str]:
        """The files that all of them need."""
        return {each.digest for each in self.ready_pictures()}
