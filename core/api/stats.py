"""The engine's counters for one request, and the state of its cache."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.api.params import Frozen

# Qt and SQLite hold these; imported chats bring theirs.
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Real = Annotated[float, Field(gt=-(2.0**63), lt=2.0**63, allow_inf_nan=False)]
Tier = Literal["slab", "memory", "disk"]
MissReason = Literal[
    "cold",
    "diverged",
    "tools_changed",
    "unsettled",
    "evicted",
    "off",
    "restore_failed",
    "faster_to_read",
]


class Place(Frozen):
    token: Whole
    position: Whole


class HeldCheckpoint(Place):
    """`bytes` counts the recurrent states only."""

    bytes: Whole


class Miss(Frozen):
    """Why tokens were prefilled again, from `token` on, in which message (the system's not
    counted)."""

    reason: MissReason
    token: Whole
    message: Whole | None


class ContextPart(Frozen):
    """`tier` is the fastest that holds its keys and values."""

    start: Whole
    end: Whole
    kind: Literal["text", "image"]
    source: Literal["reused", "evaluated", "reply"]
    tier: Tier = "slab"
    on_disk: bool = False


class CacheBytes(Frozen):
    """Totals in bytes, and their budgets. `kv` includes the slab."""

    kv: Whole = 0
    slab: Whole = 0
    checkpoints: Whole = 0
    embeddings: Whole = 0
    in_flight: Whole = 0
    disk: Whole = 0
    device_budget: Whole = 0
    host_budget: Whole = 0
    disk_budget: Whole = 0


class DraftCounts(Frozen):
    """`cycles` are all steps but the first token's; `empty` had no draft, of `rejected` the whole
    was rejected."""

    cycles: Whole = 0
    drafted: Whole = 0
    accepted: Whole = 0
    empty: Whole = 0
    rejected: Whole = 0


class RemoteReport(Frozen):
    """A reply's host, and the counters that it reported."""

    host: str
    prompt: bool = False
    cached: bool = False


class RequestStats(Frozen):
    """prompt = reused + evaluated tokens.

    `ttft_s` is the time to the first token, `prefill_s` the model's part of it. `disk_trouble`: why
    contexts can't be kept on disk now. `message_starts` are token indices, without the system
    message's.
    """

    prompt_tokens: Whole = 0
    prompt_positions: Whole = 0
    reused_tokens: Whole = 0
    evaluated_tokens: Whole = 0
    reply_tokens: Whole = 0
    images_in_prompt: Whole = 0
    images_encoded: Whole = 0
    restored_from: Tier | None = None
    restored_at: Place | None = None
    checkpoints: tuple[HeldCheckpoint, ...] = ()
    checkpoints_held: Whole = 0
    miss: Miss | None = None
    ttft_s: Real | None = None
    prefill_s: Real | None = None
    decode_tokens_per_s: Real | None = None
    bytes: CacheBytes = CacheBytes()
    parts: tuple[ContextPart, ...] = ()
    disk_trouble: str | None = None
    context_length: Whole = 0
    message_starts: tuple[Whole, ...] = ()
    seed: Whole | None = None
    draft: DraftCounts | None = None
    remote: RemoteReport | None = None
