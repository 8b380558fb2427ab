"""What the engine counts for one request, and how contexts lie in its cache."""

from __future__ import annotations

from typing import Literal

from core.api.frozen import Frozen

Tier = Literal["slab", "memory", "disk"]
MissReason = Literal[
    "cold", "diverged", "unsettled", "evicted", "off", "restore_failed", "faster_to_read"
]


class Place(Frozen):
    """A place in a prompt: token index and RoPE position of what follows it."""

    token: int
    position: int


class HeldCheckpoint(Frozen):
    """A checkpoint on the request's path; `bytes` counts the recurrent states only."""

    token: int
    position: int
    bytes: int


class Miss(Frozen):
    """Why tokens were read again: from which token on, in which message (system not counted)."""

    reason: MissReason
    token: int
    message: int | None


class ContextPart(Frozen):
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


class CacheBytes(Frozen):
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


class DraftCounts(Frozen):
    """What became of a reply's drafts: `cycles` are the steps of its tokens but the first.

    Of these so many were `empty`, without a draft, and of so many the whole draft was `rejected`.
    """

    cycles: int = 0
    drafted: int = 0
    accepted: int = 0
    empty: int = 0
    rejected: int = 0


class RequestStats(Frozen):
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
