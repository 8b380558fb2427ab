"""The numbers of one running request, gathered as it goes and told at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.api.prompt import Prompt
from core.api.stats import ContextPart, DraftCounts, Miss, RequestStats
from core.cache.context import ContextCache
from core.cache.restore import Restored
from core.engine.images import Pictures
from core.engine.stats import cache_bytes, context_parts, held_checkpoints, place


@dataclass
class Report:
    """What is known of a request so far. `started` is a `time.perf_counter()` moment."""

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

    def count_token(self) -> None:
        """One more token of the reply was drawn."""
        self.reply_tokens += 1
        if self._first_token_at is None:
            self._first_token_at = time.perf_counter()

    @property
    def evaluated_tokens(self) -> int:
        return self.evaluated_to - self.restored.cut.token.value

    def note_throughput(self) -> None:
        """Let the cache learn how fast this prompt was read."""
        note_throughput(self.cache, self.evaluated_tokens, self.prefill_s or 0.0, self.pictures)

    def stats(self) -> RequestStats:
        """The counters as they stand now."""
        restored, prompt = self.restored, self.prompt
        reused = restored.cut.token.value
        return RequestStats(
            prompt_tokens=prompt.num_tokens,
            prompt_positions=prompt.end.position.value,
            reused_tokens=reused,
            evaluated_tokens=self.evaluated_tokens,
            reply_tokens=self.reply_tokens,
            images_in_prompt=len(prompt.images),
            images_encoded=self.pictures.num_encoded,
            restored_from=restored.tier,
            restored_at=place(restored),
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
        """Seconds from the request's start to its first token."""
        return self._first_token_at and self._first_token_at - self.started

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Tokens after the first over the time since the first."""
        steps = self.reply_tokens - 1
        if self._first_token_at is None or steps < 1:
            return None
        return steps / max(1e-9, time.perf_counter() - self._first_token_at)

    def _parts(self) -> tuple[ContextPart, ...]:
        parts = context_parts(self.prompt, self.restored.num_runs, self.restored.keys, self.cache)
        if not self.reply_tokens:
            return parts
        end = self.prompt.num_tokens
        reply = ContextPart(start=end, end=end + self.reply_tokens, kind="text", source="reply")
        return (*parts, reply)


def note_throughput(
    cache: ContextCache, num_tokens: int, prefill_s: float, pictures: Pictures
) -> None:
    """Let the cache learn from a prefill, the tower's time taken apart."""
    cache.throughput.note_prefill(num_tokens, max(0.0, prefill_s - pictures.seconds))
    cache.throughput.note_encode(pictures.encoded_tokens, pictures.seconds)
