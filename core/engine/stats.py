"""The counters of one request and the reason for what was read again. Nothing here changes
anything.

prompt tokens = reused + evaluated, always: evaluated are the prompt's tokens that went through the
model for this request before its first token was drawn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from core.api.chat import Conversation
from core.api.positions import TokenIndex
from core.api.prompt import CutKind, Image, Prompt, Run
from core.api.stats import CacheBytes, ContextPart, HeldCheckpoint, Miss, MissReason, Place, Tier
from core.cache.context import ContextCache
from core.cache.ledger import Held
from core.cache.node import Role
from core.cache.restore import Restored


@dataclass(frozen=True, slots=True)
class MessageMap:
    """Which message a token belongs to; the system message has no number."""

    starts: tuple[TokenIndex, ...]
    replies: frozenset[int]

    @classmethod
    def of(cls, conversation: Conversation, starts: Sequence[TokenIndex]) -> MessageMap:
        numbered = [message for message in conversation.messages if message.role != "system"]
        replies = (index for index, message in enumerate(numbered) if message.role == "assistant")
        return cls(tuple(starts), frozenset(replies))

    def at(self, token: TokenIndex) -> int | None:
        """The message that holds a token, counted from 0; None before the first."""
        # Asked once a message: a walk over all starts is 13 s for a chat of 1,600 messages.
        index = bisect_right(self.starts, token) - 1
        return index if index >= 0 else None

    def roles(self, prompt: Prompt) -> dict[TokenIndex, Role]:
        """Whose message ends at each message end of a prompt, and where replies paused."""
        ends = (run for run in prompt.runs if run.kind and run.kind & CutKind.MESSAGE_END)
        roles = {run.end.token: self._role_before(run.end.token) for run in ends}
        for pause in prompt.pauses:
            roles.setdefault(TokenIndex(pause), "pause")
        return roles

    def _role_before(self, end: TokenIndex) -> Role:
        message = self.at(TokenIndex(end.value - 1))
        if message is None:
            return "system"
        return "reply" if message in self.replies else "user"

    def replies_after(self, token: TokenIndex) -> list[int]:
        """The replies that end after a token: the one that holds it, and the later ones.

        One that is not in the prompt, for it says nothing, takes no room and is none of them.
        """
        ends = (*self.starts[1:], None)
        return [
            index
            for index in sorted(self.replies)
            if (end := ends[index]) is None or end > max(token, self.starts[index])
        ]


def explain(
    prompt: Prompt, restored: Restored, messages: MessageMap, cache: ContextCache, chat: str = ""
) -> Miss | None:
    """Why tokens are about to be read again for a chat; None when every evaluated token is new.

    Call it before the prefill, which makes all of them known.
    """
    tree, runs, keys = cache.tree, prompt.runs, restored.keys
    # A stop is read anew with what follows it, unless a checkpoint made it a place to resume from.
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
    """No run is read again, but replies that only decode has seen are read for the first time.

    Only the last can be waiting for that. Several were written before this engine knew the chat,
    whatever beginning it shares with others; or the chat is `known` and begins otherwise now, for
    its oldest turns are left out or its instructions are others.
    """
    start = restored.cut.token
    replies = messages.replies_after(start)
    if not replies or start == prompt.end.token:
        return None
    if restored.num_runs == 0 and known:
        return Miss(reason="diverged", token=start.value, message=messages.at(start))
    if restored.num_runs == 0 or len(replies) > 1:
        return Miss(reason="cold", token=start.value, message=messages.at(start))
    reply = replies[0]
    # A reply that was settled in part is read from where settling was interrupted.
    token = max(start, messages.starts[reply])
    return Miss(reason="unsettled", token=token.value, message=reply)


def _parting(prompt: Prompt, restored: Restored, cache: ContextCache) -> TokenIndex:
    """The first token at which the prompt leaves everything that was read before."""
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
    """What a run looks like in the context drawn to scale."""

    kind: Literal["text", "image"]
    source: Literal["reused", "evaluated"]
    tier: Tier
    on_disk: bool


def context_parts(
    prompt: Prompt, num_reused_runs: int, keys: Sequence[bytes], cache: ContextCache
) -> tuple[ContextPart, ...]:
    """The prompt as parts of one kind, one source and one tier, in order."""
    # Told after every run of a prefill, so what is made here is made for parts, not for runs.
    parts: list[tuple[Run, Run, _Look]] = []
    for index, run in enumerate(prompt.runs):
        look = _look(run, index < num_reused_runs, keys[index], cache)
        first, _, before = parts[-1] if parts else (run, run, None)
        if look.kind == "text" and look == before:
            parts[-1] = (first, run, look)
        else:
            parts.append((run, run, look))
    return tuple(
        ContextPart(start=first.start.token.value, end=last.end.token.value, **look._asdict())
        for first, last, look in parts
    )


def _look(run: Run, reused: bool, key: bytes, cache: ContextCache) -> _Look:
    return _Look(
        kind="image" if isinstance(run.content, Image) else "text",
        source="reused" if reused else "evaluated",
        tier=cache.tier_of(key) or "slab",
        on_disk=cache.disk.holds_rows(key),
    )


def held_checkpoints(cache: ContextCache, keys: Sequence[bytes]) -> tuple[HeldCheckpoint, ...]:
    """The states held along a prompt, with their bytes."""
    return tuple(
        HeldCheckpoint(token=cut.token.value, position=cut.position.value, bytes=num_bytes)
        for cut, num_bytes in cache.checkpoints_on(keys)
    )


def cache_bytes(cache: ContextCache) -> CacheBytes:
    """The cache's totals by class, and the budgets in force."""
    return CacheBytes(
        kv=cache.kv_bytes(),
        slab=cache.slab.num_bytes,
        checkpoints=cache.state_bytes(),
        embeddings=cache.embeddings.num_bytes,
        in_flight=cache.ledger.used(Held.IN_FLIGHT),
        disk=cache.disk.num_bytes,
        device_budget=cache.ledger.limits.device,
        host_budget=cache.ledger.limits.host,
        disk_budget=cache.disk.cap,
    )


def place(restored: Restored) -> Place | None:
    """Where the request went on from; None at the very start."""
    if restored.num_runs == 0:
        return None
    cut = restored.cut
    return Place(token=cut.token.value, position=cut.position.value)
