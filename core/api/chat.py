"""A conversation as it is sent with every request: the engine keeps no chats.

User text and images travel in the order given. A reply travels as the ids that were sampled, opaque
bytes with the fingerprint of the tokenizer that made them, and as text for a model that cannot use
those ids.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from core.api.frozen import Frozen


class TextPart(Frozen):
    """Text typed by a user; never read as control tokens."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(Frozen):
    """A picture file: `digest` is its SHA-256 in hex, `path` where it can be read.

    `name` is what people call it, for errors; without one the file's own name is taken.
    """

    type: Literal["image"] = "image"
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    path: str
    name: str = ""

    @property
    def called(self) -> str:
        """What to call it in an error."""
        return self.name or Path(self.path).name


ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class SystemMessage(Frozen):
    """Instructions that stand before everything else."""

    role: Literal["system"] = "system"
    text: str


class UserMessage(Frozen):
    """Text and pictures in the order they are shown to the model."""

    role: Literal["user"] = "user"
    content: tuple[ContentPart, ...]


class ReplyIds(Frozen):
    """Sampled ids as opaque bytes (little-endian 32-bit), without the id that ended the turn.

    `starts_in_reasoning` says that the generation prompt had opened a thought before the first id.
    `pauses` are the numbers of ids after which the reply was stopped or cut off, in order.
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
        """True if the reply was stopped or cut off where it ends now."""
        return self.num_ids > 0 and self.pauses[-1:] == (self.num_ids,)

    def extended(self, ids: Iterable[int]) -> ReplyIds:
        """The same reply with more ids after its own."""
        ids = [*self.unpack(), *ids]
        return self.pack(ids, self.tokenizer, self.starts_in_reasoning, self.pauses)

    def paused(self) -> ReplyIds:
        """The same reply, stopped or cut off where it ends now."""
        if self.is_paused or not self.num_ids:
            return self
        return self.model_copy(update={"pauses": (*self.pauses, self.num_ids)})

    def unpack(self) -> list[int]:
        """The ids; raises ValueError when the bytes are no whole number of ids."""
        packed = array.array("I")
        packed.frombytes(self.data)
        if sys.byteorder == "big":
            packed.byteswap()
        return packed.tolist()


class AssistantMessage(Frozen):
    """A reply: what a person reads, and the ids it was sampled as."""

    role: Literal["assistant"] = "assistant"
    text: str
    reasoning: str = ""
    ids: ReplyIds | None = None


Message = Annotated[SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")]


class Conversation(Frozen):
    """Messages in order, the system message (if any) first; `created` is the chat's own clock.

    `created` is seconds since the epoch: the only time a template ever sees.
    """

    messages: tuple[Message, ...]
    created: float = 0.0
