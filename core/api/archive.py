"""A chat as it is exported and imported, with all branches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from core.api.chat import ReplyIds
from core.api.errors import ErrorInfo
from core.api.events import FinishReason
from core.api.limits import MAX_DOCUMENT_CHARACTERS
from core.api.params import Frozen
from core.api.reply_format import ReplyFormat
from core.api.stats import RequestStats

VERSION = 1
# Qt and SQLite hold these.
Pixels = Annotated[int, Field(ge=0, le=2**31 - 1)]
Moment = Annotated[float, Field(ge=0, le=253_402_300_799)]


class ArchivedPicture(Frozen):
    """`digest` is the file's SHA-256; '' if another program names only the file's beginning
    (`file`)."""

    digest: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]
    name: str = ""
    resized: tuple[Pixels, Pixels] | None = None
    tokens: Pixels | None = None
    file: str = ""


class ArchivedDocument(Frozen):
    """`parts` are pages if `paged`, else sections; a form feed separates them."""

    paged: bool
    text: Annotated[str, Field(max_length=2 * MAX_DOCUMENT_CHARACTERS)]


class AttachedDocument(Frozen):
    """`document` is an index into the chat's list; `chosen` are indices of the parts to read."""

    document: Annotated[int, Field(ge=0)]
    name: str
    chosen: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    tokens: Pixels | None = None


class ArchivedReply(Frozen):
    state: Literal["complete", "stopped", "failed"] = "complete"
    reasoning: str = ""
    ids: ReplyIds | None = None
    finish_reason: FinishReason | None = None
    error: ErrorInfo | None = None
    stats: RequestStats | None = None
    format: ReplyFormat | None = None
    model: str = ""
    edited: bool = False


class ArchivedMessage(Frozen):
    """`parent` is an index into the chat's list; of siblings, the highest `chosen` is shown."""

    parent: Annotated[int, Field(ge=0)] | None
    text: str
    created: Moment = 0.0
    chosen: Annotated[int, Field(ge=0, le=2**53)] = 0
    pictures: tuple[ArchivedPicture, ...] = ()
    documents: tuple[AttachedDocument, ...] = ()
    reply: ArchivedReply | None = None


class ArchivedFolder(Frozen):
    """A chat's folder. Unless `preset` is None, its new chats begin with `system`, `format` and
    `settings`, copied from that preset ('': from a chat)."""

    name: str
    preset: str | None = None
    system: str = ""
    format: ReplyFormat | None = None
    settings: str = ""


class ArchivedChat(Frozen):
    """`settings` is a JSON object."""

    title: str
    created: Moment
    used: Moment
    pinned: bool = False
    forked: bool = False
    system: str = ""
    format: ReplyFormat | None = None
    settings: str = ""
    folder: ArchivedFolder | None = None
    left_out: Annotated[int, Field(ge=0)] | None = None
    messages: tuple[ArchivedMessage, ...] = ()
    documents: tuple[ArchivedDocument, ...] = ()

    @model_validator(mode="after")
    def _check_tree(self) -> ArchivedChat:
        """Parents come first, so there is no circle."""
        for place, message in enumerate(self.messages):
            if message.parent is not None and message.parent >= place:
                raise ValueError("a parent comes after its message")
            if any(each.document >= len(self.documents) for each in message.documents):
                raise ValueError("a document is missing")
        if self.left_out is not None and self.left_out >= len(self.messages):
            raise ValueError("no message is left out")
        return self
