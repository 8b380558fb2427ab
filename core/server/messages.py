"""Messages between the window, whose engine gets the server's commands, and its local server's
process."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from core.api.commands import Answered as Command
from core.api.commands import Cancel, CountPrompt, Generate, PrefillReply
from core.api.errors import ErrorInfo
from core.api.events import Answer, Loaded
from core.api.model_info import ModelInfo
from core.api.params import Frozen

RequestState = Literal["waiting", "reading", "writing", "done", "refused", "gone"]


class Serve(Frozen):
    """The first message, before ModelIs. `key` is the key's digest, `replies` the file that keeps
    replies, "" for none; `steady`: see `core.server.held`. Answered by Listening or
    NotListening."""

    type: Literal["serve"] = "serve"
    port: int
    lan: bool
    key: str
    origins: tuple[str, ...] = ()
    pictures: str
    replies: str = ""
    steady: bool = True


class ModelIs(Frozen):
    """The window's model from now on. `names` are those that it loads for a request; `asleep`: see
    `core.server.answering.Engine`."""

    type: Literal["model_is"] = "model_is"
    model: ModelInfo | None
    names: tuple[str, ...] = ()
    asleep: bool = False


class TellContent(Frozen):
    """Send a ContentSeen for each request that begins from now on, or for none."""

    type: Literal["tell_content"] = "tell_content"
    on: bool


class UseModel(Command[Loaded]):
    """Load a model by its name, or wake the one that sleeps."""

    type: Literal["use_model"] = "use_model"
    name: str


class Answered(Frozen):
    type: Literal["answered"] = "answered"
    event: Annotated[Answer, Field(discriminator="type")]


class Listening(Frozen):
    type: Literal["listening"] = "listening"
    address: str


class NotListening(Frozen):
    """The process ends."""

    type: Literal["not_listening"] = "not_listening"
    error: ErrorInfo


class Asked(Frozen):
    type: Literal["asked"] = "asked"
    command: Annotated[
        Generate | PrefillReply | CountPrompt | UseModel | Cancel, Field(discriminator="type")
    ]


class RequestSeen(Frozen):
    """Sent at every change of a client's request; nothing that was said. `status` is the HTTP
    status of a refusal."""

    type: Literal["request_seen"] = "request_seen"
    number: int
    client: str
    path: str
    state: RequestState
    status: int = 0
    reused: int = 0
    read: int = 0
    written: int = 0
    tokens_per_s: float | None = None
    volatile: tuple[str, ...] = ()
    disk_trouble: str | None = None


class ContentSeen(Frozen):
    """The conversation and the reply of a request that has ended, as text."""

    type: Literal["content_seen"] = "content_seen"
    number: int
    text: str


ToServer = Annotated[Serve | ModelIs | Answered | TellContent, Field(discriminator="type")]
FromServer = Annotated[
    Listening | NotListening | Asked | RequestSeen | ContentSeen, Field(discriminator="type")
]

TO_SERVER: TypeAdapter[ToServer] = TypeAdapter(ToServer)
FROM_SERVER: TypeAdapter[FromServer] = TypeAdapter(FromServer)
