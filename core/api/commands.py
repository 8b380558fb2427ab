"""What the window may ask of the engine. Each command carries a request id chosen by the sender."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from core.api.chat import Conversation, ImagePart
from core.api.params import CacheSettings, ModelSettings, SamplingParams

PROTOCOL_VERSION = 5

# The pixels of a square of this edge fit into a frame.
MAX_RENDERED_EDGE = 4_000

# Names a chat to the cache, so that deleting the chat forgets what only it used.
ChatKey = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{0,64}$")]


class _Command(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
    )

    request: Annotated[int, Field(ge=0)]


class LoadModel(_Command):
    """Replace the loaded model. Answered by Loading events, then Loaded or Failed."""

    type: Literal["load_model"] = "load_model"
    settings: ModelSettings


class UnloadModel(_Command):
    """Drop the model and everything cached for it. Answered by Done."""

    type: Literal["unload_model"] = "unload_model"


class Generate(_Command):
    """Answer a conversation, or go on with the reply that ends it. Answered by Queued, Prefilling,
    Generated, then Finished or Failed.

    `chat` owns what is read ("" is nobody). A `side` request (a title, a summary) reads on a branch
    of its own that is gone when it ends; it evicts nothing. `thinking` None passes nothing to the
    template. `stop_after_tokens` stops the reply as a user would, after exactly so many sampled
    ids; `cancel_prefill_after_tokens` stops the prefill at the first cut at or after so many
    evaluated tokens. `logits_file` receives the float32 logits of the first drawn token.
    """

    type: Literal["generate"] = "generate"
    conversation: Conversation
    chat: ChatKey = ""
    side: bool = False
    sampling: SamplingParams = SamplingParams()
    thinking: bool | None = None
    cache: CacheSettings = CacheSettings()
    stop_after_tokens: Annotated[int, Field(ge=1)] | None = None
    cancel_prefill_after_tokens: Annotated[int, Field(ge=0)] | None = None
    logits_file: str | None = None


class _Ahead(_Command):
    """Prefill in idle time what the next request is sure to need. Answered by Prepared.

    Any other work goes first: it interrupts this within one chunk, and what is finished is kept.
    """

    conversation: Conversation
    chat: ChatKey = ""
    thinking: bool | None = None
    cache: CacheSettings = CacheSettings()


class Settle(_Ahead):
    """Read the reply that ends `conversation` as the template shows it in history."""

    type: Literal["settle"] = "settle"


class ReadAhead(_Ahead):
    """Read the draft that ends `conversation` up to the last cut that more typing can't move."""

    type: Literal["read_ahead"] = "read_ahead"


class Cancel(_Command):
    """Stop request `target`, whatever its stage; one that has ended or never was is ignored."""

    type: Literal["cancel"] = "cancel"
    target: Annotated[int, Field(ge=0)]


class Ping(_Command):
    """Say that you live, whatever you do. Answered by a Beat at once."""

    type: Literal["ping"] = "ping"


class DescribeImage(_Command):
    """Decode a picture: size, tokens it will cost and a thumbnail. Works without a model.

    Answered by ImageDescribed or Failed; `thumbnail` is the longest edge in pixels.
    """

    type: Literal["describe_image"] = "describe_image"
    image: ImagePart
    thumbnail: Annotated[int, Field(ge=16, le=1024)] = 256


class RenderImage(_Command):
    """Decode a picture for a screen: its pixels within `width` x `height`, never enlarged.

    Works without a model. Answered by ImageRendered or Failed.
    """

    type: Literal["render_image"] = "render_image"
    image: ImagePart
    width: Annotated[int, Field(ge=1, le=MAX_RENDERED_EDGE)]
    height: Annotated[int, Field(ge=1, le=MAX_RENDERED_EDGE)]


class ClearCache(_Command):
    """Forget every prefix in memory and on disk: the next request is cold. Answered by Done."""

    type: Literal["clear_cache"] = "clear_cache"


class Forget(_Command):
    """Delete what only `chat` used, in memory and in every model's part of `cache_folder`; None
    deletes everything. Works without a model. Answered by Done once it is gone.
    """

    type: Literal["forget"] = "forget"
    chat: ChatKey | None
    cache_folder: str | None = None


class DeleteMatrices(_Command):
    """Delete all quantised matrices that loads kept in `cache_folder`: the next load of each model
    quantises again. Works without a model, and leaves a loaded one as it is. Answered by Done.
    """

    type: Literal["delete_matrices"] = "delete_matrices"
    cache_folder: str


class Flush(_Command):
    """Write to disk what is computed and worth keeping, for `seconds` at most. Answered by Done."""

    type: Literal["flush"] = "flush"
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5.0


Command = Annotated[
    LoadModel
    | UnloadModel
    | Generate
    | Settle
    | ReadAhead
    | Cancel
    | Ping
    | DescribeImage
    | RenderImage
    | ClearCache
    | Forget
    | DeleteMatrices
    | Flush,
    Field(discriminator="type"),
]

COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
