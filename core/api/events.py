"""What the engine tells the window. Every event but Hello and Beat answers a request by its id.

Longer than other files, because it is a list: whoever follows the pipe finds every event in it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from core.api.chat import AssistantMessage, ReplyIds
from core.api.errors import ErrorInfo
from core.api.params import SamplingParams

FinishReason = Literal["stop", "length", "context", "cancelled", "error"]
Tier = Literal["slab", "memory", "disk"]
MissReason = Literal[
    "cold", "diverged", "unsettled", "evicted", "off", "restore_failed", "faster_to_read"
]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
    )


class Place(_Frozen):
    """A place in a prompt: token index and RoPE position of what follows it."""

    token: int
    position: int


class HeldCheckpoint(_Frozen):
    """A checkpoint on the request's path; `bytes` counts the recurrent states only."""

    token: int
    position: int
    bytes: int


class Miss(_Frozen):
    """Why tokens were read again: from which token on, in which message (system not counted)."""

    reason: MissReason
    token: int
    message: int | None


class ContextPart(_Frozen):
    """A part of the context drawn to scale: what it is, where it came from and where it lives.

    `tier` is the fastest tier that holds its keys and values; `on_disk` says that a restart keeps
    it.
    """

    start: int
    end: int
    kind: Literal["text", "image"]
    source: Literal["reused", "evaluated", "reply"]
    tier: Tier = "slab"
    on_disk: bool = False


class CacheBytes(_Frozen):
    """The engine's totals in bytes, by class, and the budgets they stay under.

    `kv` counts keys and values in the slab and outside it, of which the slab is `slab`.
    """

    kv: int = 0
    slab: int = 0
    checkpoints: int = 0
    embeddings: int = 0
    in_flight: int = 0
    disk: int = 0
    device_budget: int = 0
    host_budget: int = 0
    disk_budget: int = 0


class DraftCounts(_Frozen):
    """What became of a reply's drafts: `cycles` are the steps of its tokens but the first.

    Of these so many were `empty`, without a draft, and of so many the whole draft was `rejected`.
    """

    cycles: int = 0
    drafted: int = 0
    accepted: int = 0
    empty: int = 0
    rejected: int = 0


class RequestStats(_Frozen):
    """The engine's own counters for one request: prompt = reused + evaluated, always.

    Times are seconds; `ttft_s` runs from the request's start to its first token and `prefill_s` is
    the part of it spent in the model. `seed` is the one used, drawn fresh if none was given.
    `disk_trouble` says in words why contexts can't be kept on disk now.
    `message_starts` is the token index at which each message begins, the system message left out.
    `draft` is None where nothing was drafted, by wish or because steps can't be joined here.
    """

    prompt_tokens: int = 0
    prompt_positions: int = 0
    reused_tokens: int = 0
    evaluated_tokens: int = 0
    reply_tokens: int = 0
    images_in_prompt: int = 0
    images_encoded: int = 0
    restored_from: Tier | None = None
    restored_at: Place | None = None
    checkpoints: tuple[HeldCheckpoint, ...] = ()
    checkpoints_held: int = 0
    miss: Miss | None = None
    ttft_s: float | None = None
    prefill_s: float | None = None
    decode_tokens_per_s: float | None = None
    bytes: CacheBytes = CacheBytes()
    parts: tuple[ContextPart, ...] = ()
    disk_trouble: str | None = None
    context_length: int = 0
    message_starts: tuple[int, ...] = ()
    seed: int | None = None
    draft: DraftCounts | None = None


class LoadFacts(_Frozen):
    """How a model was loaded, in `seconds`, of which `packing_s` brought matrices into the layouts
    that the kernels read.

    `from_disk` says that quantised matrices were read as an earlier load had kept them. On disk all
    models' take `kept_bytes` now, and `kept_budget` at most. `slowed_by` is why replies are slower
    than they could be here. `kernels` names the backend, `processor` the widest instructions that
    the processor has.
    """

    seconds: float = 0.0
    packing_s: float = 0.0
    from_disk: bool = False
    kept_bytes: int = 0
    kept_budget: int = 0
    slowed_by: str = ""
    kernels: str = ""
    processor: str = ""


class TooLarge(_Frozen):
    """A precision that did not fit, and the bytes that should have been free for it."""

    precision: str
    needed: int


class PrecisionChoice(_Frozen):
    """Why a precision was chosen automatically.

    `needed` bytes should be free for it, with room for contexts, and `free` were: fewer where even
    the smallest does not fit. `too_large` would have been preferred, the most exact first.
    `faster_than` names the other exact precision where the speed measured on this machine decided
    between the two.
    """

    needed: int
    free: int
    too_large: tuple[TooLarge, ...] = ()
    faster_than: str = ""


class ModelInfo(_Frozen):
    """What the window needs to know of the loaded model. Sizes in bytes, detail in tokens.

    `spliced_replies` is False where this model's template forces history to be tokenised again,
    with `history_note` saying why. The budgets are the defaults in bytes; a host budget below
    `smallest_host_budget` (a device budget below `smallest_device_budget`) is refused. `choice` is
    None where the user named the precision. `joins_steps` says that drafts can be checked, `mtp`
    that the model has an MTP head for them, `mtp_refused` why the one it has is not used.
    """

    name: str
    path: str
    family: str
    device: str
    precision: str
    num_parameters: int
    context_length: int
    model_context_length: int
    vision: bool
    thinking_switch: bool
    max_image_tokens: int
    grid: int
    checkpoint_bytes: int
    kv_bytes_per_token: int
    device_budget: int = 0
    host_budget: int = 0
    disk_budget: int = 0
    smallest_device_budget: int = 0
    smallest_host_budget: int = 0
    sampling: SamplingParams
    tokenizer: str
    fingerprint: str
    spliced_replies: bool = True
    history_note: str = ""
    load: LoadFacts = LoadFacts()
    choice: PrecisionChoice | None = None
    joins_steps: bool = True
    mtp: bool = False
    mtp_refused: str = ""


class Hello(_Frozen):
    """First event of a worker: which protocol it speaks."""

    type: Literal["hello"] = "hello"
    protocol: int
    pid: int


class Beat(_Frozen):
    """The engine lives; said every two seconds, and when it is asked.

    `signs` counts what the work has finished. While it is `busy` the count rises at least every
    `longest_step_s` seconds, or the work hangs.
    """

    type: Literal["beat"] = "beat"
    busy: bool
    signs: int
    longest_step_s: float


class _Answer(_Frozen):
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
    sampled id, the one that ended the reply included."""

    type: Literal["finished"] = "finished"
    reason: FinishReason
    reply: AssistantMessage
    prompt_ids: tuple[int, ...]
    reply_ids: tuple[int, ...]
    stats: RequestStats

    @classmethod
    def unbegun(cls, request: int) -> Finished:
        """The end of a request that was stopped before anything of it was read."""
        return cls(
            request=request,
            reason="cancelled",
            reply=AssistantMessage(text=""),
            prompt_ids=(),
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
    | ImageDescribed
    | ImageRendered
)
Event = Annotated[Hello | Beat | Answer, Field(discriminator="type")]

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
