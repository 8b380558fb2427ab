"""What stands in the composer of one chat and was not sent yet."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from core.api.reply_format import ReplyFormat
from desktop.store.tables.chats import new_key
from desktop.store.tables.records import Picture

_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class DraftPicture:
    """A picture on its way into a message; `picture` is None until the engine has looked at it."""

    name: str
    path: Path | None = None
    picture: Picture | None = None
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(slots=True, eq=False)
class Draft:
    """Text and pictures, in order, and the messages `queued` before them.

    Where no chat is yet, `key`, `system` and `format` are those the new one will have.
    """

    text: str = ""
    pictures: list[DraftPicture] = field(default_factory=list)
    key: str = field(default_factory=new_key)
    system: str = ""
    format: ReplyFormat | None = None
    queued: list[Draft] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every picture has been looked at."""
        return all(each.picture is not None for each in self.pictures)

    @property
    def empty(self) -> bool:
        return not self.text.strip() and not self.pictures

    def ready_pictures(self) -> tuple[Picture, ...]:
        return tuple(each.picture for each in self.pictures if each.picture is not None)

    def all_text(self) -> str:
        """The text with that of the queued messages before it."""
        return "\n\n".join(each.text for each in (*self.queued, self) if each.text.strip())

    def all_pictures(self) -> tuple[Picture, ...]:
        """The pictures with those of the queued messages before them."""
        return tuple(picture for each in (*self.queued, self) for picture in each.ready_pictures())
