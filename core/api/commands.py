"""What the window may ask of the engine, and with what event each command is answered.

A command is written without its number: `EngineClient.ask` gives it one.
"""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter

from core.api.chat import Conversation, ImagePart
from core.api.events import (
    Answer,
    Counted,
    Done,
    Finished,
    ImageDescribed,
    ImageRendered,
    Loaded,
    Prepared,
)
from core.api.frozen import Frozen
from core.api.params import CacheSettings, DraftSettings, ModelSettings, Probe, SamplingParams
from core.api.reply_format import ReplyFormat

PROTOCOL_VERSION = 7

# The pixels of a square of this edge fit into a frame.
MAX_RENDERED_EDGE = 4_000

# Names a chat to the cache, so that deleting the chat forgets what only it used.
ChatKey = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{0,64}$")]


Last_co = TypeVar("Last_co", bound=Answer, covariant=True)


class Command(Frozen):
    """Base of all commands. `request` is what its answers are told apart by."""

    request: Annotated[int, Field(ge=0)] = 0
    type: str


class Answered(Command, Generic[Last_co]):
    """A command that ends with a Last_co or, as any may, with Failed."""

    @classmethod
    def last_event(cls) -> type[Last_co]:
        """The class that Last_co is."""
        bases = (base for base in cls.__mro__ if issubclass(base, BaseModel))
        arguments = (base.__pydantic_generic_metadata__["args"] for base in bases)
        found: type[Last_co] = next(each[0] for each in arguments if each)
        return found


class OfPrompt(Answered[Last_co], Generic[Last_co]):
    """Reads a conversation for `chat`, which owns what is read ("" is nobody). `thinking` None
    passes nothing to the template."""

    conversation: Conversation
    chat: ChatKey = ""
    thinking: bool | None = None
    cache: CacheSettings = CacheSettings()


class IdleWork(OfPrompt[Prepared]):
    """Prefill in idle time what the next request is sure to need.

    Any other work goes first: it interrupts this within one chunk, and what is finished is kept.
    """


class OfPicture(Answered[Last_co], Generic[Last_co]):
    """Decodes a picture, while other commands are carried out. Works without a model."""

    image: ImagePart


class LoadModel(Answered[Loaded]):
    """Replace the loaded model. Answered by Loading events before the last."""

    type: Literal["load_model"] = "load_model"
    settings: ModelSettings


class UnloadModel(Answered[Done]):
    """Drop the model and everything cached for it."""

    type: Literal["unload_model"] = "unload_model"


class Generate(OfPrompt[Finished]):
    """Answer a conversation, or go on with the reply that ends it. Answered by Queued, Prefilling
    and Generated before the last.

    A `side` request (a title, a summary) reads on a branch of its own that is gone when it ends; it
    evicts nothing. With a `format` only tokens are drawn that the answer can have at their place;
    the reply may end only where it is complete, unless a limit or a stop string cuts it off.
    """

    type: Literal["generate"] = "generate"
    side: bool = False
    sampling: SamplingParams = SamplingParams()
    draft: DraftSettings = DraftSettings()
    format: ReplyFormat | None = None
    probe: Probe | None = None


class Settle(IdleWork):
    """Read the reply that ends `conversation` as the template shows it in history."""

    type: Literal["settle"] = "settle"


class ReadAhead(IdleWork):
    """Read the draft that ends `conversation` up to the last cut that more typing can't move."""

    type: Literal["read_ahead"] = "read_ahead"


class Cancel(Command):
    """Stop request `target`, whatever its stage; one that has ended or never was is ignored."""

    type: Literal["cancel"] = "cancel"
    target: Annotated[int, Field(ge=0)]


class Ping(Command):
    """Ask for a Beat, which is sent at once whatever the worker does."""

    type: Literal["ping"] = "ping"


class DescribeImage(OfPicture[ImageDescribed]):
    """A picture's size, the tokens it will cost and a thumbnail, of this longest edge in pixels."""

    type: Literal["describe_image"] = "describe_image"
    thumbnail: Annotated[int, Field(ge=16, le=1024)] = 256


class RenderImage(OfPicture[ImageRendered]):
    """A picture's pixels for a screen, within `width` x `height` and never enlarged."""

    type: Literal["render_image"] = "render_image"
    width: Annotated[int, Field(ge=1, le=MAX_RENDERED_EDGE)]
    height: Annotated[int, Field(ge=1, le=MAX_RENDERED_EDGE)]


class CountTokens(Answered[Counted]):
    """Count the tokens of a text with the loaded model's tokenizer, while other commands are
    carried out. Fails with NoModelError without a model."""

    type: Literal["count_tokens"] = "count_tokens"
    text: str


class ClearCache(Answered[Done]):
    """Forget every prefix in memory and on disk: the next request is cold."""

    type: Literal["clear_cache"] = "clear_cache"


class Forget(Answered[Done]):
    """Delete what only `chat` used, in memory and in every model's part of `cache_folder`; None
    deletes everything. Works without a model. Answered once it is gone.
    """

    type: Literal["forget"] = "forget"
    chat: ChatKey | None
    cache_folder: str | None = None


class DeleteMatrices(Answered[Done]):
    """Delete all quantised matrices that loads kept in `cache_folder`: the next load of each model
    quantises again. Works without a model, and leaves a loaded one as it is.
    """

    type: Literal["delete_matrices"] = "delete_matrices"
    cache_folder: str


class Flush(Answered[Done]):
    """Write to disk what is computed and worth keeping, for `seconds` at most. Done has totals."""

    type: Literal["flush"] = "flush"
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5.0


AnyCommand = Annotated[
    LoadModel
    | UnloadModel
    | Generate
    | Settle
    | ReadAhead
    | Cancel
    | Ping
    | DescribeImage
    | RenderImage
    | CountTokens
    | ClearCache
    | Forget
    | DeleteMatrices
    | Flush,
    Field(discriminator="type"),
]

COMMANDS: TypeAdapter[AnyCommand] = TypeAdapter(AnyCommand)
