"""What the engine tells the window. Every event but Hello and Beat answers a request by its id."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter

from core.api.chat import AssistantMessage, ReplyIds
from core.api.errors import ErrorInfo
from core.api.frozen import Frozen
from core.api.model_info import ModelInfo
from core.api.stats import CacheBytes, ContextPart, HeldCheckpoint, RequestStats

FinishReason = Literal[
    "stop",
    "length",
    "context",
    "format_length",
    "thought_length",
    "repetition",
    "size",
    "cancelled",
    "error",
]
"""Why a reply ended. "length" is the user's limit; "format_length", "thought_length", "repetition"
and "size" are those of `core.api.limits`."""

CUT_SHORT: frozenset[FinishReason] = frozenset(
    ("length", "format_length", "thought_length", "repetition")
)
"""Ends at which there is room for more: the reply can be continued."""


class Hello(Frozen):
    """First event of a worker: which protocol it speaks."""

    type: Literal["hello"] = "hello"
    protocol: int
    pid: int


class Beat(Frozen):
    """The worker's heartbeat, every two seconds and in answer to Ping.

    `progress` counts what was computed. While the worker is `busy` it rises at least every
    `step_limit_s` seconds, unless the work hangs.
    """

    type: Literal["beat"] = "beat"
    busy: bool
    progress: int
    step_limit_s: float


class _Answer(Frozen):
    request: int


class Last(_Answer):
    """Base of what ends a request."""


class Loading(_Answer):
    """How far loading is: `done` of `total` bytes, of weights read and of matrices packed.

    `done` starts anew where what was kept of an earlier load turns out to be damaged.
    """

    type: Literal["loading"] = "loading"
    done: int
    total: int


class Loaded(Last):
    """The model is in place."""

    type: Literal["loaded"] = "loaded"
    model: ModelInfo


class Done(Last):
    """The command was carried out and has nothing to say; `bytes` are the totals after a Flush."""

    type: Literal["done"] = "done"
    bytes: CacheBytes | None = None


class Queued(_Answer):
    """The request waits behind `ahead` others."""

    type: Literal["queued"] = "queued"
    ahead: int


class Prefilling(_Answer):
    """How far the prompt is: `stats` as known so far, `done` of its tokens are in the cache.

    `begun` is what the reply's ids begin with: none yet, or those of a reply that is gone on with.
    The first one precedes every Generated, so `begun` with the ids that follow is the reply so far.
    """

    type: Literal["prefilling"] = "prefilling"
    done: int
    stats: RequestStats
    begun: ReplyIds | None = None


class Generated(_Answer):
    """More of the reply: new text by channel, and the new ids it came from.

    `ttft_s` and `decode_tokens_per_s` are those of RequestStats as they stand now.
    """

    type: Literal["generated"] = "generated"
    answer: str = ""
    reasoning: str = ""
    ids: tuple[int, ...] = ()
    ttft_s: float | None = None
    decode_tokens_per_s: float | None = None


class Finished(Last):
    """The reply is complete. `reply` is what the next request sends back; `reply_ids` holds every
    sampled id, the one that ended the reply included; `prompt_ids` is filled for a probed request.
    """

    type: Literal["finished"] = "finished"
    reason: FinishReason
    reply: AssistantMessage
    prompt_ids: tuple[int, ...] = ()
    reply_ids: tuple[int, ...]
    stats: RequestStats

    @classmethod
    def unbegun(cls, request: int) -> Finished:
        """The end of a request that was stopped before anything of it was read."""
        return cls(
            request=request,
            reason="cancelled",
            reply=AssistantMessage(text=""),
            reply_ids=(),
            stats=RequestStats(),
        )


class Prepared(Last):
    """Idle work is done: `tokens` went through the model and `encoded` pictures through the tower.

    `bytes` are the engine's totals afterwards; `parts` and `checkpoints` show what is held of the
    prompt that was prepared for, as a request's stats would: after settling with the reply as later
    turns show it. `prompt_tokens` and `message_starts` are of the conversation as it was given.
    """

    type: Literal["prepared"] = "prepared"
    tokens: int
    encoded: int
    bytes: CacheBytes
    prompt_tokens: int = 0
    parts: tuple[ContextPart, ...] = ()
    checkpoints: tuple[HeldCheckpoint, ...] = ()
    message_starts: tuple[int, ...] = ()


class Failed(Last):
    """The request ended in an error; nothing of it is left in the engine.

    `no_model` says of a load that the model before it had to be given up too.
    """

    type: Literal["failed"] = "failed"
    error: ErrorInfo
    no_model: bool = False


class Counted(Last):
    """The tokens of a text, without those that a chat template adds around it."""

    type: Literal["counted"] = "counted"
    tokens: int


class ImageDescribed(Last):
    """A picture that can be sent. Sizes are (width, height) in pixels, upright.

    `tokens` and `resized` are None while no model with vision is loaded. `thumbnail` is a PNG.
    """

    type: Literal["image_described"] = "image_described"
    digest: str
    size: tuple[int, int]
    resized: tuple[int, int] | None
    tokens: int | None
    thumbnail: bytes


class ImageRendered(Last):
    """A picture's pixels, upright, within the size that was asked for and never enlarged.

    `pixels` are rows of red, green, blue and opacity, a byte each, with nothing between the rows.
    They travel behind the JSON.
    """

    ATTACHED: ClassVar[str] = "pixels"

    type: Literal["image_rendered"] = "image_rendered"
    width: int
    height: int
    pixels: Annotated[bytes, Field(exclude=True)] = b""


Answer = (
    Loading
    | Loaded
    | Done
    | Queued
    | Prefilling
    | Generated
    | Finished
    | Prepared
    | Failed
    | Counted
    | ImageDescribed
    | ImageRendered
)
Event = Annotated[Hello | Beat | Answer, Field(discriminator="type")]

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
