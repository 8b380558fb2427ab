"""The window's messages to the process that talks to servers, and its answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from core.api.commands import Answered, Cancel, Generate
from core.api.events import Failed, Finished, Generated, Last, Prefilling
from core.api.params import Frozen, Settings

Kind = Literal["vllm", "sglang", "llamacpp", "ollama", "lmstudio", "waymark", "other"]
"""The program that answers, as far as it can be recognised."""
KIND_NAMES: dict[Kind, str] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "ollama": "Ollama",
    "lmstudio": "LM Studio",
    "waymark": "Waymark",
    "other": "",
}

Text = Annotated[str, Field(max_length=500)]


class RemoteModel(Settings):
    """None is unknown."""

    name: Text
    context_length: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    vision: bool | None = None


class RemoteServer(Settings):
    """`address` is the part before `/chat/completions`. The key isn't stored here."""

    address: Text
    kind: Kind = "other"
    keyed: bool = False
    models: tuple[RemoteModel, ...] = ()


class Place(Settings):
    address: Text
    model: Text


class Connect(Frozen):
    """Use this proxy, or the system's. Loopback never has one."""

    type: Literal["connect"] = "connect"
    proxy: str = ""


class Looked(Last):
    type: Literal["looked"] = "looked"
    server: RemoteServer


class Look(Answered[Looked]):
    """Recognise a server and list its models."""

    type: Literal["look"] = "look"
    address: str
    key: str = ""


class Reply(Frozen):
    """Have a server answer a conversation, without cache and draft settings. Answered as Generate
    is."""

    type: Literal["reply"] = "reply"
    server: RemoteServer
    model: str
    key: str = ""
    generate: Generate


ToRemote = Annotated[Connect | Look | Reply | Cancel, Field(discriminator="type")]
FromRemote = Annotated[
    Looked | Prefilling | Generated | Finished | Failed, Field(discriminator="type")
]
TO_REMOTE: TypeAdapter[ToRemote] = TypeAdapter(ToRemote)
FROM_REMOTE: TypeAdapter[FromRemote] = TypeAdapter(FromRemote)
