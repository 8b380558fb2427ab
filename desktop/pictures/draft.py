"""An unsent message of one chat."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.api.reply_format import ReplyFormat
from desktop.store.tables.chats import new_key
from desktop.store.tables.records import Attachment, Begin, Document, Folder, Picture

_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class DraftPicture:
    """`picture` is None until the engine has described it."""

    name: str
    picture: Picture | None = None
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(slots=True, eq=False)
class DraftDocument:
    """`document` is None until its text is read, `path` after a restart.

    `progress` tells how far reading is; `counted` is the tokenizer that counted it.
    """

    name: str
    path: Path | None = None
    document: Document | None = None
    progress: str = ""
    counted: str = ""
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(slots=True, eq=False)
class Draft:
    """`queued` are messages before it. `adding` counts calls whose files aren't known yet, `lost`
    files refused or removed. `key` to `folder` are for the chat to be created."""

    text: str = ""
    pictures: list[DraftPicture] = field(default_factory=list)
    documents: list[DraftDocument] = field(default_factory=list)
    key: str = field(default_factory=new_key)
    system: str = ""
    format: ReplyFormat | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    folder: Folder | None = None
    queued: list[Draft] = field(default_factory=list)
    adding: int = 0
    lost: int = 0

    @property
    def begin(self) -> Begin:
        return Begin(self.system, self.format, self.settings)

    def begin_with(self, begin: Begin) -> None:
        self.system, self.format, self.settings = begin.system, begin.format, dict(begin.settings)

    @property
    def complete(self) -> bool:
        pictures = all(each.picture is not None for each in self.pictures)
        documents = all(each.document is not None for each in self.documents)
        return pictures and documents and not self.adding

    @property
    def empty(self) -> bool:
        return not (self.text.strip() or self.pictures or self.documents)

    def document(self, number: int) -> DraftDocument | None:
        return next((each for each in self.documents if each.number == number), None)

    def ready_pictures(self) -> tuple[Picture, ...]:
        return tuple(each.picture for each in self.pictures if each.picture is not None)

    def ready_documents(self) -> tuple[Document, ...]:
        return tuple(each.document for each in self.documents if each.document is not None)

    def attachments(self) -> tuple[Attachment, ...]:
        return (*self.ready_documents(), *self.ready_pictures())

    def all_text(self) -> str:
        return "\n\n".join(each.text for each in (*self.queued, self) if each.text.strip())

    def all_attachments(self) -> tuple[Attachment, ...]:
        return tuple(found for each in (*self.queued, self) for found in each.attachments())
