"""Rows of the store as frozen values."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from core.api.chat import ReplyIds
from core.api.errors import ErrorInfo
from core.api.events import FinishReason
from core.api.reply_format import ReplyFormat
from core.api.stats import RequestStats
from core.remote.messages import Place


class ReplyState(enum.StrEnum):
    """`RUNNING` at a start: the app was killed."""

    RUNNING = "running"
    COMPLETE = "complete"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Begin:
    system: str = ""
    format: ReplyFormat | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Folder:
    """Without `begin`, new chats are like others; `preset` is the one that `begin` was copied from,
    '' for a chat."""

    id: int
    name: str
    folded: bool = False
    preset: str = ""
    begin: Begin | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Chat:
    """`deleted` is when it went to the trash, or 0. Times are Unix times."""

    id: int
    title: str
    created: float
    used: float
    pinned: bool = False
    deleted: float = 0.0
    forked: bool = False
    folder: int | None = None


@dataclass(frozen=True, slots=True)
class DeletedMessages:
    """Deleted together; the title is the first one's."""

    chat: int
    title: str
    deleted: float
    count: int


Trashed: TypeAlias = Chat | DeletedMessages


@dataclass(frozen=True, slots=True)
class Picture:
    """`digest` is the file's SHA-256. Sizes are in pixels; `resized` and `tokens` are None if no
    model was loaded."""

    digest: str
    name: str
    size: tuple[int, int]
    resized: tuple[int, int] | None = None
    tokens: int | None = None
    thumbnail: bytes = b""


@dataclass(frozen=True, slots=True)
class Document:
    """`digest` is the SHA-256 of the text, `parts` are pages if `paged`, else sections.

    `chosen` are the places of the parts that the model reads, None for all; `tokens` counts these
    parts, None if uncounted.
    """

    digest: str
    name: str
    paged: bool
    parts: tuple[str, ...]
    chosen: tuple[int, ...] | None = None
    tokens: int | None = None
    source: str = ""

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(range(len(self.parts))) if self.chosen is None else self.chosen


Attachment: TypeAlias = Picture | Document


@dataclass(frozen=True, slots=True)
class Reply:
    """`model` is a name, '' if unknown; `edited` by the user."""

    state: ReplyState
    reasoning: str = ""
    ids: ReplyIds | None = None
    finish_reason: FinishReason | None = None
    error: ErrorInfo | None = None
    stats: RequestStats | None = None
    format: ReplyFormat | None = None
    model: str = ""
    edited: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """`siblings` are all versions in order, itself included."""

    id: int
    chat: int
    parent: int | None
    text: str
    created: float
    pictures: tuple[Picture, ...] = ()
    documents: tuple[Document, ...] = ()
    reply: Reply | None = None
    siblings: tuple[int, ...] = field(default=())

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        return (*self.documents, *self.pictures)

    @property
    def is_reply(self) -> bool:
        return self.reply is not None


@dataclass(frozen=True, slots=True)
class ChatPath:
    """The shown path, and what else a request needs.

    `key` names the chat to the engine's cache, `created` is the templates' clock, `left_out` the
    last message that is not in the prompt, `settings` are the chat's own by their keys. `place`
    writes the next replies, None for this computer; `agreed` are the servers the chat may be sent
    to.
    """

    path: tuple[Message, ...] = ()
    key: str = ""
    created: float = 0.0
    system: str = ""
    left_out: int | None = None
    format: ReplyFormat | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = None
    agreed: tuple[str, ...] = ()
    folder: Folder | None = None

    @property
    def first_in_prompt(self) -> int:
        places = (at for at, message in enumerate(self.path) if message.id == self.left_out)
        return next(places, -1) + 1

    @property
    def in_prompt(self) -> tuple[Message, ...]:
        return self.path[self.first_in_prompt :]

    def with_end(self, message: Message) -> ChatPath:
        """With another state of its last message."""
        if not self.path or self.path[-1].id != message.id:
            return self
        return replace(self, path=(*self.path[:-1], message))

    def before_last(self) -> ChatPath:
        return replace(self, path=self.path[:-1])


def alternating(messages: Sequence[Message]) -> list[Message | None]:
    """With None for each message missing between two of one role or before a first reply: most
    templates want alternating roles."""
    found: list[Message | None] = []
    for message in messages:
        if message.is_reply is (len(found) % 2 == 0):
            found.append(None)
        found.append(message)
    return found
