"""The window's command to the process that reads the headers of models, and its events."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from core.api.errors import ErrorInfo
from core.api.model_info import KVSize
from core.api.params import Frozen, Precision

Count = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Rate(Frozen):
    """Seconds for a byte of the weights, one row at a time, and for a weight and a prompt row."""

    byte_s: Seconds
    product_s: Seconds

    def faster(self, other: Rate) -> Rate:
        return Rate(
            byte_s=min(self.byte_s, other.byte_s), product_s=min(self.product_s, other.product_s)
        )


class Way(KVSize):
    """A precision in which this computer can run a model.

    If none fits, an automatic choice reads `mapped_bytes` of the weights from disk as needed. A
    generated token reads `token_bytes` of them. `step_s` is its expected time, `prompt_s` that of
    1,000 prompt tokens; 0 if not measured.
    """

    precision: Precision
    num_bytes: Count
    mapped_bytes: Count = 0
    token_bytes: Count = 0
    step_s: Seconds = 0.0
    prompt_s: Seconds = 0.0


class ModelFacts(Frozen):
    """`digest` is equal for copies of the same files. `published` is the precision of the files.
    The first `automatic` of `ways` are sorted as an automatic choice tries them. With `trouble`
    only `path` and `size` mean anything."""

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
    """Facts read before come from the file `cache`, the engine's measurements from its folder
    `contexts`; with `again` nothing does."""

    type: Literal["describe"] = "describe"
    paths: tuple[str, ...]
    cache: str
    contexts: str
    again: bool = False


class Reading(Frozen):
    """The model at `path` is next: if the process ends now, it is to blame."""

    type: Literal["reading"] = "reading"
    path: str


class Described(Frozen):
    type: Literal["described"] = "described"
    models: tuple[ModelFacts, ...]


class Speed(Frozen):
    """Seconds for a billion weights: `step_s` for a generated token, `prompt_s` for 1,000 prompt
    tokens."""

    precision: Precision
    step_s: Seconds
    prompt_s: Seconds


class Device(Frozen):
    """`free` and `total` are the bytes of a graphics card's memory; 0 on a processor."""

    type: Literal["device"] = "device"
    name: str
    free: Count = 0
    total: Count = 0
    speeds: tuple[Speed, ...] = ()


class Move(Frozen):
    """The last of the files, moved from `base` to `target`, makes it a model. Those in `kept` are
    copied, as another model needs them too. With `tidy` it was killed, and what it left is removed.
    Answered by Moving, then Moved."""

    type: Literal["move"] = "move"
    files: Annotated[tuple[str, ...], Field(min_length=1)]
    kept: tuple[str, ...] = ()
    tidy: bool = False
    base: str
    target: str


class Moving(Frozen):
    """Bytes, each counted when it is copied and when it is compared."""

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
