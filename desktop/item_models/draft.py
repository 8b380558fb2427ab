"""What stands in the composer of one chat and was not sent yet."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from desktop.store.chats import new_key
from desktop.store.records import Picture

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
    """Text and pictures, in order.

    Where no chat is yet, `key` and `system` are those the new one will have.
    """

    text: str = ""
    pictures: list[DraftPicture] = field(default_factory=list)
    key: str = field(default_factory=new_key)
    system: str = ""

    @property
    def complete(self) -> bool:
        """Whether every picture has been looked at."""
        return all(each.picture is not None for each in self.pictures)

    @property
    def empty(self) -> bool:
        return not self.text.strip() and not self.pictures

    def ready_pictures(self) -> tuple[Picture, ...]:
        return tuple(each.picture for each in self.pictures if each.picture is not None)
