"""The engine's counters for one request, and the state of its cache."""

from __future__ import annotations

from typing import Literal

from core.api.params import Frozen

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
    token: int
    position: int


class HeldCheckpoint(Place):
    """`bytes` counts the recurrent states only."""

    bytes: int


class Miss(Frozen):
    """Why tokens were prefilled again, from `token` on, in which message (the system's not
    counted)."""

    reason: MissReason
    token: int
    message: int | None


class ContextPart(Frozen):
    """`tier` is the fastest that holds its keys and values."""

    start: int
    end: int
    kind: Literal["text", "image"]
    source: Literal["reused", "evaluated", "reply"]
    tier: Tier = "slab"
    on_disk: bool = False


class CacheBytes(Frozen):
    """Totals in bytes, and their budgets. `kv` includes the slab."""

    kv: int = 0
    slab: int = 0
    checkpoints: int = 0
    embeddings: int = 0
    in_flight: int = 0
    disk: int = 0
    device_budget: int = 0
    host_budget: int = 0
    disk_budget: int = 0


class DraftCounts(Frozen):
    """`cycles` are all steps but the first token's; `empty` had no draft, of `rejected` the whole
    was rejected."""

    cycles: int = 0
    drafted: int = 0
    accepted: int = 0
    empty: int = 0
    rejected: int = 0


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
    remote: RemoteReport | None = None
