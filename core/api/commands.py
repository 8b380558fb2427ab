"""The window's commands to the engine, each with the event that ends it."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter

from core.api.chat import AssistantMessage, Conversation, ImagePart
from core.api.events import (
    Counted,
    Done,
    Edited,
    Finished,
    ImageDescribed,
    ImageRendered,
    Last,
    Loaded,
    Predicted,
    Prepared,
)
from core.api.params import (
    CacheSettings,
    DraftSettings,
    Frozen,
    ModelSettings,
    Probe,
    SamplingParams,
    Thinking,
)
from core.api.reply_format import ReplyFormat

PROTOCOL_VERSION = 12

# The pixels of a square of this edge fit into a frame.
MAX_RENDERED_EDGE = 4_000

# A chat's name in the cache: deleting the chat deletes what only it used.
ChatKey = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{0,64}$")]


def tenant_of(chat: str) -> str:
    """The program that a chat belongs to: its key before "_"; "" is the window."""
    return chat.rpartition("_")[0]


Last_co = TypeVar("Last_co", bound=Last, covariant=True)


class Command(Frozen):
    """`RequestTable.open` sets `request`, which answers carry."""

    request: Annotated[int, Field(ge=0)] = 0
    type: str


class Answered(Command, Generic[Last_co]):
    """Ends with a Last_co or Failed."""

    @classmethod
    def last_event(cls) -> type[Last_co]:
        bases = (base for base in cls.__mro__ if issubclass(base, BaseModel))
        arguments = (base.__pydantic_generic_metadata__["args"] for base in bases)
        found: type[Last_co] = next(each[0] for each in arguments if each)
        return found


class OfPrompt(Answered[Last_co], Generic[Last_co]):
    """Prefills a conversation for `chat`, which owns the cached result ("": nobody). `thinking`
    None passes nothing to the template. A `guest` is a connected program; the window comes
    first."""

    conversation: Conversation
    chat: ChatKey = ""
    guest: bool = False
    thinking: Thinking = None
    cache: CacheSettings = CacheSettings()


class IdleWork(OfPrompt[Last_co], Generic[Last_co]):
    """Done in idle time; other work interrupts it within one chunk."""


class OfPicture(Answered[Last_co], Generic[Last_co]):
    """Runs in parallel and without a model."""

    image: ImagePart


class LoadModel(Answered[Loaded]):
    """Loading events come before the last."""

    type: Literal["load_model"] = "load_model"
    settings: ModelSettings


class UnloadModel(Answered[Done]):
    type: Literal["unload_model"] = "unload_model"


class Generate(OfPrompt[Finished]):
    """Answer a conversation, or continue the reply that ends it. Queued, Prefilling and Generated
    come before the last event.

    A `side` request (a title, a summary) evicts nothing. An `idle` one waits for idle time, and
    begins again if interrupted. A `format` holds unless a limit or a stop string cuts the reply
    off. `logprobs` is the number of likeliest alternatives to report for each token.
    """

    type: Literal["generate"] = "generate"
    side: bool = False
    idle: bool = False
    sampling: SamplingParams = SamplingParams()
    draft: DraftSettings = DraftSettings()
    format: ReplyFormat | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    probe: Probe | None = None


class PrefillReply(IdleWork[Prepared]):
    """Prefill the reply that ends `conversation` as later turns show it."""

    type: Literal["prefill_reply"] = "prefill_reply"


class PrefillDraft(IdleWork[Prepared]):
    """Prefill the draft that ends `conversation`, up to the last cut that typing can't move."""

    type: Literal["prefill_draft"] = "prefill_draft"


class Predict(IdleWork[Predicted]):
    """Ask how much Generate, or the turn after the last reply, would prefill."""

    type: Literal["predict"] = "predict"


class Cancel(Command):
    """Stop request `target`, unless unknown or ended."""

    type: Literal["cancel"] = "cancel"
    target: Annotated[int, Field(ge=0)]


class Ping(Command):
    """Answered by a Beat at once, whatever the engine does."""

    type: Literal["ping"] = "ping"


class DescribeImage(OfPicture[ImageDescribed]):
    """Get a picture's size and tokens, and a thumbnail with this longest edge in pixels."""

    type: Literal["describe_image"] = "describe_image"
    thumbnail: Annotated[int, Field(ge=16, le=1024)] = 256


class RenderImage(OfPicture[ImageRendered]):
    type: Literal["render_image"] = "render_image"
    width: Annotated[int, Field(ge=1, le=MAX_RENDERED_EDGE)]
    height: Annotated[int, Field(ge=1, le=MAX_RENDERED_EDGE)]


class CountTokens(Answered[Counted]):
    """Runs in parallel. Fails with NoModelError."""

    type: Literal["count_tokens"] = "count_tokens"
    text: str


class EditReply(Answered[Edited]):
    """Get the ids of a reply whose answer was changed to `text`. Runs in parallel."""

    type: Literal["edit_reply"] = "edit_reply"
    reply: AssistantMessage
    text: str


class CountPrompt(Answered[Counted]):
    """Count a conversation's tokens after earlier requests; answered with the ids, too."""

    type: Literal["count_prompt"] = "count_prompt"
    conversation: Conversation
    guest: bool = False
    thinking: Thinking = None


class ClearCache(Answered[Done]):
    type: Literal["clear_cache"] = "clear_cache"


class Forget(Answered[Done]):
    """Delete what only `chat` used (None: everything), in memory and in every model's part of
    `cache_folder`. Needs no model."""

    type: Literal["forget"] = "forget"
    chat: ChatKey | None
    cache_folder: str | None = None


class DeleteMatrices(Answered[Done]):
    """Delete all quantised matrices; a loaded model keeps its own."""

    type: Literal["delete_matrices"] = "delete_matrices"
    cache_folder: str


class Flush(Answered[Done]):
    type: Literal["flush"] = "flush"
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5.0


AnyCommand = Annotated[
    LoadModel
    | UnloadModel
    | Generate
    | PrefillReply
    | PrefillDraft
    | Predict
    | Cancel
    | Ping
    | DescribeImage
    | RenderImage
    | CountTokens
    | EditReply
    | CountPrompt
    | ClearCache
    | Forget
    | DeleteMatrices
    | Flush,
    Field(discriminator="type"),
]

COMMANDS: TypeAdapter[AnyCommand] = TypeAdapter(AnyCommand)
