"""What a request tells the window while it runs: bursts of text at most thirty times a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from core.api.events import Event, Generated

FLUSH_S = 1 / 30


class Counts(Protocol):
    """Counts and times the tokens of a reply."""

    @property
    def ttft_s(self) -> float | None: ...

    @property
    def decode_tokens_per_s(self) -> float | None: ...

    def count_token(self) -> None:
        """One more was drawn."""
        ...


class ReplyStream:
    """Collects text and ids by channel and emits them in bursts. The first token goes at once."""

    def __init__(self, request: int, counts: Counts, emit: Callable[[Event], None]) -> None:
        self._request = request
        self._counts = counts
        self._emit = emit
        self._answer: list[str] = []
        self._reasoning: list[str] = []
        self._ids: list[int] = []
        self._flushed = 0.0

    def push(self, answer: str, reasoning: str, ids: list[int]) -> None:
        self._answer.append(answer)
        self._reasoning.append(reasoning)
        self._ids.extend(ids)
        if time.monotonic() - self._flushed >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Emit what was collected, if anything."""
        answer, reasoning = "".join(self._answer), "".join(self._reasoning)
        if answer or reasoning or self._ids:
            self._emit(
                Generated(
                    request=self._request,
                    answer=answer,
                    reasoning=reasoning,
                    ids=tuple(self._ids),
                    ttft_s=self._counts.ttft_s,
                    decode_tokens_per_s=self._counts.decode_tokens_per_s,
                )
            )
        self._answer, self._reasoning, self._ids = [], [], []
        self._flushed = time.monotonic()
