"""The counters of one request, and why tokens were prefilled again."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from core.api.chat import Conversation
from core.api.positions import TokenIndex
from core.api.prompt import CutKind, Image, Prompt, Run
from core.api.stats import (
    CacheBytes,
    ContextPart,
    DraftCounts,
    HeldCheckpoint,
    Miss,
    MissReason,
    Place,
    RequestStats,
    Tier,
)
from core.cache.context import ContextCache
from core.cache.ledger import Held
from core.cache.node import Role
from core.cache.restore import Restored
from core.engine.images import Pictures


@dataclass
class Report:
    """`started` is a `time.perf_counter()` moment."""

    started: float
    prompt: Prompt
    restored: Restored
    cache: ContextCache
    pictures: Pictures
    miss: Miss | None
    context_length: int
    message_starts: tuple[int, ...]
    seed: int
    drafts: Callable[[], DraftCounts | None] = lambda: None
    evaluated_to: int = field(init=False)
    reply_tokens: int = 0
    prefill_s: float | None = None
    _first_token_at: float | None = None

    def __post_init__(self) -> None:
        self.evaluated_to = self.restored.cut.token.value
        # Asked once: contexts are written while nothing is prefilled.
        self._num_on_disk = self.cache.disk.num_held(self.restored.keys)

    def count_token(self) -> None:
        self.reply_tokens += 1
        if self._first_token_at is None:
            self._first_token_at = time.perf_counter()

    @property
    def evaluated_tokens(self) -> int:
        return self.evaluated_to - self.restored.cut.token.value

    def stats(self) -> RequestStats:
        restored, prompt = self.restored, self.prompt
        token, position = restored.cut.token.value, restored.cut.position.value
        return RequestStats(
            prompt_tokens=prompt.num_tokens,
            prompt_positions=prompt.end.position.value,
            reused_tokens=token,
            evaluated_tokens=self.evaluated_tokens,
            reply_tokens=self.reply_tokens,
            images_in_prompt=len(prompt.images),
            images_encoded=self.pictures.num_encoded,
            restored_from=restored.tier,
            restored_at=Place(token=token, position=position) if restored.num_runs else None,
            checkpoints=held_checkpoints(self.cache, restored.keys),
            checkpoints_held=self.cache.num_states(),
            miss=self.miss,
            ttft_s=self.ttft_s,
            prefill_s=self.prefill_s,
            decode_tokens_per_s=self.decode_tokens_per_s,
            bytes=cache_bytes(self.cache),
            parts=self._parts(),
            disk_trouble=self.cache.disk.trouble,
            context_length=self.context_length,
            message_starts=self.message_starts,
            seed=self.seed,
            draft=self.drafts(),
        )

    @property
    def ttft_s(self) -> float | None:
        return self._first_token_at and self._first_token_at - self.started

    @property
    def decode_tokens_per_s(self) -> float | None:
        steps = self.reply_tokens - 1
        if self._first_token_at is None or steps < 1:
            return None
        return steps / max(1e-9, time.perf_counter() - self._first_token_at)

    def _parts(self) -> tuple[ContextPart, ...]:
        restored = self.restored
        parts = context_parts(
            self.prompt, restored.num_runs, restored.keys, self.cache, self._num_on_disk
        )
        if not self.reply_tokens:
            return parts
        end = self.prompt.num_tokens
        reply = ContextPart(start=end, end=end + self.reply_tokens, kind="text", source="reply")
        return (*parts, reply)


def note_throughput(
    cache: ContextCache, num_tokens: int, prefill_s: float, pictures: Pictures
) -> None:
    cache.throughput.note_prefill(num_tokens, max(0.0, prefill_s - pictures.seconds))
    cache.throughput.note_encode(pictures.encoded_tokens, pictures.seconds)


@dataclass(frozen=True, slots=True)
class MessageMap:
    """Maps tokens to messages; the system message has no number."""

    starts: tuple[TokenIndex, ...]
    replies: frozenset[int]

    @classmethod
    def of(cls, conversation: Conversation, starts: Sequence[TokenIndex]) -> MessageMap:
        numbered = [message for message in conversation.messages if message.role != "system"]
        replies = (index for index, message in enumerate(numbered) if message.role == "assistant")
        return cls(tuple(starts), frozenset(replies))

    def at(self, token: TokenIndex) -> int | None:
        # Called per message: a linear search takes 13 s for a chat of 1,600 messages.
        index = bisect_right(self.starts, token) - 1
        return index if index >= 0 else None

    def roles(self, prompt: Prompt) -> dict[TokenIndex, Role]:
        ends = (run for run in prompt.runs if run.ends(CutKind.MESSAGE_END))
        roles = {run.end.token: self._role_before(run.end.token) for run in ends}
        for pause in prompt.pauses:
            roles.setdefault(TokenIndex(pause), "pause")
        return roles | dict.fromkeys(self._edges(prompt, roles), "edge")

    def _edges(self, prompt: Prompt, roles: Mapping[TokenIndex, Role]) -> Iterator[TokenIndex]:
        """The grid cuts in the last one and a half steps of the last question, or of a prompt
        without messages: an edit of half a step is at most a step after one."""
        runs, grid = prompt.runs, prompt.grid
        asked = [
            index
            for index, run in enumerate(runs)
            if roles.get(run.end.token) == ("user" if self.starts else "system")
        ]
        last = asked[-1] if asked else len(runs) - 1
        first = runs[last].end.token.value - 3 * grid // 2
        for run in reversed(runs[:last]):
            is_step = run.kind == CutKind.GRID and run.num_tokens == grid
            if not is_step or run.end.token.value < first:
                break
            yield run.end.token

    def _role_before(self, end: TokenIndex) -> Role:
        message = self.at(TokenIndex(end.value - 1))
        if message is None:
            return "system"
        return "reply" if message in self.replies else "user"

    def replies_after(self, token: TokenIndex) -> list[int]:
        ends = (*self.starts[1:], None)
        return [
            index
            for index in sorted(self.replies)
            if (end := ends[index]) is None or end > max(token, self.starts[index])
        ]


def explain(
    prompt: Prompt,
    restored: Restored,
    messages: MessageMap,
    cache: ContextCache,
    chat: str,
    tools_changed: bool,
) -> Miss | None:
    """None if every evaluated token is new. Call before the prefill."""
    miss = _explain(prompt, restored, messages, cache, chat)
    if miss is not None and tools_changed and miss.reason in ("cold", "diverged", "unsettled"):
        return miss.model_copy(update={"reason": "tools_changed"})
    return miss


def _explain(
    prompt: Prompt, restored: Restored, messages: MessageMap, cache: ContextCache, chat: str
) -> Miss | None:
    tree, runs, keys = cache.tree, prompt.runs, restored.keys
    # A prompt end is prefilled again with what follows it, unless it had a checkpoint.
    again = [
        index
        for index in range(restored.num_runs, len(runs))
        if tree.was_read(keys[index])
        and (not runs[index].is_stop or tree.had_checkpoint(keys[index]))
    ]
    if not again and restored.faster:
        start = restored.cut.token
        return Miss(reason="faster_to_read", token=start.value, message=messages.at(start))
    if not again:
        return _first_reading(prompt, restored, messages, cache.tree.knows(chat))
    reason: MissReason = "diverged"
    token = prompt.runs[again[0]].start.token
    if cache.recurrent and cache.count == 0:
        reason = "off"
    elif restored.faster:
        reason = "faster_to_read"
    elif restored.failed:
        reason = "restore_failed"
    elif any(tree.had_checkpoint(restored.keys[index]) for index in again):
        reason = "evicted"
    else:
        token = _parting(prompt, restored, cache)
    return Miss(reason=reason, token=token.value, message=messages.at(token))


def _first_reading(
    prompt: Prompt, restored: Restored, messages: MessageMap, known: bool
) -> Miss | None:
    """The reason if only replies are prefilled, each for the first time. With several, the engine
    hasn't read this chat or, if it is `known`, its beginning has changed."""
    start = restored.cut.token
    replies = messages.replies_after(start)
    if not replies or start == prompt.end.token:
        return None
    if restored.num_runs == 0 and known:
        return Miss(reason="diverged", token=start.value, message=messages.at(start))
    if restored.num_runs == 0 or len(replies) > 1:
        return Miss(reason="cold", token=start.value, message=messages.at(start))
    reply = replies[0]
    # A reply prefilled in part while idle continues from there.
    token = max(start, messages.starts[reply])
    return Miss(reason="unsettled", token=token.value, message=reply)


def _parting(prompt: Prompt, restored: Restored, cache: ContextCache) -> TokenIndex:
    index = restored.num_runs
    while index < len(prompt.runs) and cache.tree.was_read(restored.keys[index]):
        index += 1
    if index == len(prompt.runs):
        return prompt.end.token
    run = prompt.runs[index]
    held = cache.tree.match(restored.keys[:index])
    if len(held) < index:
        return run.start.token
    return run.start.token + cache.tree.common_tokens(held[-1], run)


class _Look(NamedTuple):
    kind: Literal["text", "image"]
    source: Literal["reused", "evaluated"]
    tier: Tier
    on_disk: bool


def context_parts(
    prompt: Prompt,
    num_reused_runs: int,
    keys: Sequence[bytes],
    cache: ContextCache,
    num_on_disk: int,
) -> tuple[ContextPart, ...]:
    # Called after every forward of a prefill: objects are made per part, not per run.
    parts: list[tuple[Run, Run, _Look]] = []
    for index, run in enumerate(prompt.runs):
        node, stored = cache.tree.get(keys[index]), index < num_on_disk
        in_memory = node is not None and not node.in_kv_buffer
        look = _Look(
            kind="image" if isinstance(run.content, Image) else "text",
            source="reused" if index < num_reused_runs else "evaluated",
            tier="memory" if in_memory else "disk" if stored and node is None else "slab",
            on_disk=stored,
        )
        first, _, before = parts[-1] if parts else (run, run, None)
        if look.kind == "text" and look == before:
            parts[-1] = (first, run, look)
        else:
            parts.append((run, run, look))
    return tuple(
        ContextPart(start=first.start.token.value, end=last.end.token.value, **look._asdict())
        for first, last, look in parts
    )


def held_checkpoints(cache: ContextCache, keys: Sequence[bytes]) -> tuple[HeldCheckpoint, ...]:
    return tuple(
        HeldCheckpoint(token=cut.token.value, position=cut.position.value, bytes=num_bytes)
        for cut, num_bytes in cache.checkpoints_on(keys)
    )


def cache_bytes(cache: ContextCache) -> CacheBytes:
    return CacheBytes(
        kv=cache.kv_bytes(),
        slab=cache.kv_buffer.num_bytes,
        checkpoints=cache.state_bytes(),
        embeddings=cache.embeddings.num_bytes,
        in_flight=cache.ledger.used(Held.IN_FLIGHT),
        disk=cache.disk.num_bytes,
        device_budget=cache.ledger.limits.device,
        host_budget=cache.ledger.limits.host,
        disk_budget=cache.disk.cap,
    )
