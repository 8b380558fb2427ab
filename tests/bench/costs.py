"""Costs of the cache itself: cuts and checkpoints, each against the same run without."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from core.api.chat import Message
from core.api.params import CacheSettings
from core.api.prompt import Prompt
from tests.bench.beside import read_beside
from tests.bench.rig import Rig

OFF = CacheSettings(count=0)
UNSPLIT = 1 << 30  # a grid that no prompt reaches


@dataclass(frozen=True)
class Compared:
    name: str
    tokens: int
    runs: int
    seconds: float
    peer: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.peer


def cuts(rig: Rig, name: str, messages: Sequence[Message], repeats: int) -> Compared:
    """A cold prefill along the canonical cuts beside one unsplit pass over the same tokens."""
    split = rig.prompt(messages)
    whole = Prompt(split.segments, frozenset(), UNSPLIT)
    assert len(whole.runs) == 1 and not whole.images
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for prompt, taken in zip((split, whole), times, strict=True):
            taken.append(_prefill(rig, prompt))
    return Compared(name, split.num_tokens, len(split.runs), median(times[0]), median(times[1]))


def _prefill(rig: Rig, prompt: Prompt) -> float:
    """Seconds to read a prompt beside the tree."""
    kv_buffer = rig.cache.kv_buffer.beside(prompt.num_tokens)
    began = time.perf_counter()
    read_beside(rig.loaded, kv_buffer, prompt)
    return time.perf_counter() - began


def on_and_off(rig: Rig, messages: Sequence[Message], repeats: int) -> Compared:
    """A cold request with checkpoints beside the same with the cache off: M7."""
    times: tuple[list[float], list[float]] = ([], [])
    fed = set()
    for _ in range(repeats):
        for settings, taken in zip((rig.cache_settings, OFF), times, strict=True):
            rig.clear()
            reading = rig.ask(messages, cache=settings)
            fed.add(reading.evaluated)
            taken.append(reading.seconds)
    assert len(fed) == 1, "the cache costs no token"
    prompt = rig.prompt(messages)
    on, off = map(median, times)
    return Compared("cold request, cache on / off", prompt.num_tokens, len(prompt.runs), on, off)
