"""The window's commands to the process of downloads, and its events."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from core.api.commands import Answered
from core.api.errors import ErrorInfo
from core.api.events import Failed, Last
from core.api.params import Frozen

HUB = "https://huggingface.co"

Count = Annotated[int, Field(ge=0, lt=2**63)]
Sha256 = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
Sha1 = Annotated[str, Field(pattern=r"^([0-9a-f]{40})?$")]


class Connection(Frozen):
    """An empty `proxy` is the system's; a limit of 0 is none."""

    hub: str = HUB
    proxy: str = ""
    token: Annotated[str, Field(repr=False)] = ""
    bytes_per_second: Count = 0


class RemoteFile(Frozen):
    """Has its SHA-256 or, if small, its Git blob's SHA-1."""

    path: str
    size: Count
    sha256: Sha256 = ""
    git_blob: Sha1 = ""


class Repository(Frozen):
    """`family` is the model_type, or the GGUF files' architecture.

    A search gives neither `commit` nor `files`.
    """

    name: str
    family: str
    parameters: Count = 0
    downloads: Count = 0
    gated: bool = False
    licence: str = ""
    commit: Sha1 = ""
    files: tuple[RemoteFile, ...] = ()


class Plan(Frozen):
    """`opens` is the path to load, "" for the whole folder."""

    repository: str
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    choice: str
    opens: str
    files: Annotated[tuple[RemoteFile, ...], Field(min_length=1)]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class Configure(Frozen):
    """Downloads in progress use it from their next request on."""

    type: Literal["configure"] = "configure"
    connection: Connection


class Found(Last):
    type: Literal["found"] = "found"
    repositories: tuple[Repository, ...]


class Search(Answered[Found]):
    type: Literal["search"] = "search"
    text: str


class Look(Answered[Found]):
    """Answered with one repository."""

    type: Literal["look"] = "look"
    repository: str


class Fetch(Frozen):
    """Start or resume the download in `work`. Answered by Progress, then an end."""

    type: Literal["fetch"] = "fetch"
    work: str


class Pause(Frozen):
    """Answered by Paused; ignored after the end."""

    type: Literal["pause"] = "pause"
    work: str


class Progress(Frozen):
    """`speed` is that of the last seconds; `waiting` is why no attempt is made yet; `checking`:
    digests are compared; `elsewhere`: another process downloads it."""

    type: Literal["progress"] = "progress"
    work: str
    done: Count
    total: Count
    speed: float = 0.0
    waiting: str = ""
    checking: bool = False
    elsewhere: bool = False


class Paused(Frozen):
    type: Literal["paused"] = "paused"
    work: str


class Stopped(Frozen):
    type: Literal["stopped"] = "stopped"
    work: str
    error: ErrorInfo


class Completed(Frozen):
    """`path` is the model to load."""

    type: Literal["completed"] = "completed"
    work: str
    path: str


DownloadCommand = Annotated[Configure | Search | Look | Fetch | Pause, Field(discriminator="type")]
DownloadEvent = Annotated[
    Found | Failed | Progress | Paused | Stopped | Completed, Field(discriminator="type")
]
COMMANDS: TypeAdapter[DownloadCommand] = TypeAdapter(DownloadCommand)
EVENTS: TypeAdapter[DownloadEvent] = TypeAdapter(DownloadEvent)
