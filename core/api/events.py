"""The engine's events. All but Hello and Beat answer a request by its number."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter

from core.api.chat import AssistantMessage, ReplyIds
from core.api.errors import ErrorInfo
from core.api.model_info import ModelInfo
from core.api.params import Frozen
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
and "size" are those of `core.api.params`."""

CUT_SHORT: frozenset[FinishReason] = frozenset(
    ("length", "format_length", "thought_length", "repetition")
)
"""After these ends the reply can be continued."""


class Hello(Frozen):
    type: Literal["hello"] = "hello"
    protocol: int
    pid: int


class Beat(Frozen):
    """Answers a Ping.

    While `busy`, `progress` rises at least every `step_limit_s` seconds, or the work hangs.
    """

    type: Literal["beat"] = "beat"
    busy: bool
    progress: int
    step_limit_s: float


class _Answer(Frozen):
    request: int


class Last(_Answer):
    """Base of the events that end a request."""


class Loading(_Answer):
    """Progress in bytes; `done` restarts if matrices of an earlier load are damaged."""

    type: Literal["loading"] = "loading"
    done: int
    total: int


class Loaded(Last):
    type: Literal["loaded"] = "loaded"
    model: ModelInfo


class Done(Last):
    """`bytes` are the totals after a Flush."""

    type: Literal["done"] = "done"
    bytes: CacheBytes | None = None


class Queued(_Answer):
    type: Literal["queued"] = "queued"
    ahead: int


class Prefilling(_Answer):
    """`done` of the prompt's tokens are in the cache. `begun` are the ids of a continued reply; one
    Prefilling precedes every Generated."""

    type: Literal["prefilling"] = "prefilling"
    done: int
    stats: RequestStats
    begun: ReplyIds | None = None


class TokenLogprob(Frozen):
    """`bytes` are the token's text, or the spelling of a token without one."""

    bytes: bytes
    logprob: float


class AnswerToken(TokenLogprob):
    """A token of the answer, from character `start` to `end` of all events' text; `top` are the
    likeliest in its place."""

    start: int
    end: int
    top: tuple[TokenLogprob, ...] = ()


class Generated(_Answer):
    """New text by channel, and its ids. `logprobs`, if asked for, has each token of the answer in
    the event of its first character."""

    type: Literal["generated"] = "generated"
    answer: str = ""
    reasoning: str = ""
    ids: tuple[int, ...] = ()
    logprobs: tuple[AnswerToken, ...] = ()
    ttft_s: float | None = None
    decode_tokens_per_s: float | None = None


class Finished(Last):
    """`reply` is sent back with the next request; `reply_ids` are all sampled ids, also the one
    that ended it, as `stop_string` may have."""

    type: Literal["finished"] = "finished"
    reason: FinishReason
    reply: AssistantMessage
    prompt_ids: tuple[int, ...] = ()
    reply_ids: tuple[int, ...]
    stop_string: str = ""
    stats: RequestStats

    @classmethod
    def unbegun(cls, request: int) -> Finished:
        return cls(
            request=request,
            reason="cancelled",
            reply=AssistantMessage(text=""),
            reply_ids=(),
            stats=RequestStats(),
        )


class Prepared(Last):
    """`tokens` went through the model and `encoded` pictures through the tower.

    `bytes` are totals; `parts` and `checkpoints` show what is cached of the next prompt.
    """

    type: Literal["prepared"] = "prepared"
    tokens: int
    encoded: int
    bytes: CacheBytes
    prompt_tokens: int = 0
    parts: tuple[ContextPart, ...] = ()
    checkpoints: tuple[HeldCheckpoint, ...] = ()
    message_starts: tuple[int, ...] = ()


class Predicted(Last):
    """`seconds` is None before any were measured."""

    type: Literal["predicted"] = "predicted"
    prompt_tokens: int
    tokens: int
    encoded: int = 0
    seconds: float | None = None


class Failed(Last):
    """`no_model`: a failed load also cost the model before it."""

    type: Literal["failed"] = "failed"
    error: ErrorInfo
    no_model: bool = False


class Counted(Last):
    type: Literal["counted"] = "counted"
    tokens: int
    ids: tuple[int, ...] = ()


class Edited(Last):
    """`ids` are None if another tokenizer made the reply's."""

    type: Literal["edited"] = "edited"
    ids: ReplyIds | None


class ImageDescribed(Last):
    """Sizes are (width, height) in pixels, upright; without a model with vision `tokens` and
    `resized` are None. `thumbnail` is a PNG."""

    type: Literal["image_described"] = "image_described"
    digest: str
    size: tuple[int, int]
    resized: tuple[int, int] | None
    tokens: int | None
    thumbnail: bytes


class ImageRendered(Last):
    """`pixels` are rows of RGBA bytes without padding, sent after the JSON."""

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
    | Predicted
    | Failed
    | Counted
    | Edited
    | ImageDescribed
    | ImageRendered
)
Event = Annotated[Hello | Beat | Answer, Field(discriminator="type")]

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
