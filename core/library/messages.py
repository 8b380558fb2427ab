"""The window's commands to the process that reads models' headers, and its events."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from core.api.errors import ErrorInfo
from core.api.model_info import KVSize
from core.api.params import Frozen, Precision

Count = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Rate(Frozen):
    """Seconds for a byte of weights, row by row, and for a weight and a prompt row."""

    byte_s: Seconds
    product_s: Seconds

    def faster(self, other: Rate) -> Rate:
        return Rate(
            byte_s=min(self.byte_s, other.byte_s), product_s=min(self.product_s, other.product_s)
        )


class Way(KVSize):
    """A precision in which this computer can run a model.

    If none fits, an automatic choice reads `mapped_bytes` of the weights from disk as needed. A
    generated token reads `token_bytes` of them and takes `step_s`, 1,000 prompt tokens `prompt_s`;
    0 if not measured.
    """

    precision: Precision
    num_bytes: Count
    mapped_bytes: Count = 0
    token_bytes: Count = 0
    step_s: Seconds = 0.0
    prompt_s: Seconds = 0.0


class ModelFacts(Frozen):
    """`digest` is equal for copies. `published` is the files' precision. The first `automatic` of
    `ways` are in the order of an automatic choice. With `trouble` only `path` and `size` mean
    anything."""

    path: str
    size: Count = 0
    digest: str = ""
    family: str = ""
    parameters: Count = 0
    published: str = ""
    vision: bool = False
    audio: bool = False
    thinking: bool = False
    context: Count = 0
    licence: str = ""
    checkpoint_bytes: Count = 0
    ways: tuple[Way, ...] = ()
    automatic: Count = 0
    trouble: ErrorInfo | None = None


class Describe(Frozen):
    """The file `cache` has facts read before, the folder `contexts` the engine's measurements; with
    `again` neither is used."""

    type: Literal["describe"] = "describe"
    paths: tuple[str, ...]
    cache: str
    contexts: str
    again: bool = False


class Reading(Frozen):
    """The model at `path` is next, and to blame if the process ends."""

    type: Literal["reading"] = "reading"
    path: str


class Described(Frozen):
    type: Literal["described"] = "described"
    models: tuple[ModelFacts, ...]


class Speed(Frozen):
    """Seconds for a billion weights, as in `Way`."""

    precision: Precision
    step_s: Seconds
    prompt_s: Seconds


class Device(Frozen):
    """`free` and `total` are a graphics card's bytes; 0 on a processor."""

    type: Literal["device"] = "device"
    name: str
    free: Count = 0
    total: Count = 0
    speeds: tuple[Speed, ...] = ()


class Move(Frozen):
    """The last of the files, moved from `base` to `target`, makes it a model. Those in `kept` are
    copied: another model needs them. `tidy` removes what it left when it was killed. Answered by
    Moving, then Moved."""

    type: Literal["move"] = "move"
    files: Annotated[tuple[str, ...], Field(min_length=1)]
    kept: tuple[str, ...] = ()
    tidy: bool = False
    base: str
    target: str


class Moving(Frozen):
    """In bytes, each counted when copied and when compared."""

    type: Literal["moving"] = "moving"
    done: Count
    total: Count


class Moved(Frozen):
    """With an `error` the model is where it was."""

    type: Literal["moved"] = "moved"
    error: ErrorInfo | None = None


LibraryEvent = Annotated[Reading | Described | Device | Moving | Moved, Field(discriminator="type")]
LibraryCommand = Annotated[Describe | Move, Field(discriminator="type")]
COMMAND: TypeAdapter[LibraryCommand] = TypeAdapter(LibraryCommand)
MOVES: TypeAdapter[tuple[Move, ...]] = TypeAdapter(tuple[Move, ...])
EVENTS: TypeAdapter[LibraryEvent] = TypeAdapter(LibraryEvent)
