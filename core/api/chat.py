"""A conversation, sent whole with every request."""

from __future__ import annotations

import array
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from core.api.params import Frozen


class TextPart(Frozen):
    """Typed by a user; never becomes control tokens."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(Frozen):
    """`digest` is the file's SHA-256 in hex; errors call it `name`, by default the file's."""

    type: Literal["image"] = "image"
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    path: str
    name: str = ""

    @property
    def called(self) -> str:
        return self.name or Path(self.path).name


ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class SystemMessage(Frozen):
    role: Literal["system"] = "system"
    text: str


class UserMessage(Frozen):
    role: Literal["user"] = "user"
    content: tuple[ContentPart, ...]


class ReplyIds(Frozen):
    """Sampled ids as little-endian 32-bit bytes, without the id that ended the turn.

    `starts_in_reasoning`: a thought was open before the first id. The reply paused after `pauses`
    ids.
    """

    data: bytes
    tokenizer: str
    starts_in_reasoning: bool = False
    pauses: tuple[int, ...] = ()

    @classmethod
    def pack(
        cls,
        ids: Iterable[int],
        tokenizer: str,
        starts_in_reasoning: bool,
        pauses: tuple[int, ...] = (),
    ) -> ReplyIds:
        packed = array.array("I", ids)
        if sys.byteorder == "big":
            packed.byteswap()
        return cls(
            data=packed.tobytes(),
            tokenizer=tokenizer,
            starts_in_reasoning=starts_in_reasoning,
            pauses=pauses,
        )

    @property
    def num_ids(self) -> int:
        return len(self.data) // 4

    @property
    def is_paused(self) -> bool:
        return self.num_ids > 0 and self.pauses[-1:] == (self.num_ids,)

    def extended(self, ids: Iterable[int]) -> ReplyIds:
        ids = [*self.unpack(), *ids]
        return self.pack(ids, self.tokenizer, self.starts_in_reasoning, self.pauses)

    def paused(self) -> ReplyIds:
        if self.is_paused or not self.num_ids:
            return self
        return self.model_copy(update={"pauses": (*self.pauses, self.num_ids)})

    def unpack(self) -> list[int]:
        packed = array.array("I")
        packed.frombytes(self.data)
        if sys.byteorder == "big":
            packed.byteswap()
        return packed.tolist()


class Tool(Frozen):
    """`definition` is the JSON object that templates get."""

    name: str
    definition: str


class ToolCall(Frozen):
    """`arguments` is a JSON object."""

    name: str
    arguments: str
    id: str = ""


class AssistantMessage(Frozen):
    """`calls` follow the text. The `ids`, if any, hold all of it."""

    role: Literal["assistant"] = "assistant"
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    ids: ReplyIds | None = None


class ToolMessage(Frozen):
    role: Literal["tool"] = "tool"
    text: str
    call: str = ""
    name: str = ""


Message = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class Conversation(Frozen):
    """`created` (seconds since the epoch) is the only time that templates know. A `raw` prompt
    replaces messages and template; added tokens spelled in it are tokens."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    created: float = 0.0
    raw: str | None = None

    @property
    def pictures(self) -> list[ImagePart]:
        asked = (message for message in self.messages if isinstance(message, UserMessage))
        parts = (part for message in asked for part in message.content)
        return [part for part in parts if isinstance(part, ImagePart)]
