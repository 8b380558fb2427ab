"""An unsent message of one chat."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.api.reply_format import ReplyFormat
from desktop.store.tables.chats import new_key
from desktop.store.tables.records import Picture

_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class DraftPicture:
    """`picture` is None until the engine has described it."""

    name: str
    path: Path | None = None
    picture: Picture | None = None
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(slots=True, eq=False)
class Draft:
    """`queued` are messages before it. `key`, `system` and `format` are for the chat that will be
    created, if there is none yet."""

    text: str = ""
    pictures: list[DraftPicture] = field(default_factory=list)
    key: str = field(default_factory=new_key)
    system: str = ""
    format: ReplyFormat | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    queued: list[Draft] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return all(each.picture is not None for each in self.pictures)

    @property
    def empty(self) -> bool:
        return not self.text.strip() and not self.pictures

    def ready_pictures(self) -> tuple[Picture, ...]:
        return tuple(each.picture for each in self.pictures if each.picture is not None)

    def all_text(self) -> str:
        return "\n\n".join(each.text for each in (*self.queued, self) if each.text.strip())

    def all_pictures(self) -> tuple[Picture, ...]:
        return tuple(picture for each in (*self.queued, self) for picture in each.ready_pictures())
