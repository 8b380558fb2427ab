"""What the cache itself costs: cuts, checkpoints, copies, memory. Each beside a peer of one run."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import psutil

from core.api.chat import Message
from core.api.params import CacheSettings
from core.api.prompt import Prompt
from tests.bench.beside import read_beside
from tests.bench.rig import Rig
from tests.bench.words import Words

OFF = CacheSettings(count=0)
UNSPLIT = 1 << 30  # a grid that no prompt reaches


@dataclass(frozen=True)
class Compared:
    """The same work done two ways, seconds of each."""

    name: str
    tokens: int
    runs: int
    seconds: float
    peer: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.peer


@dataclass(frozen=True)
class Moved:
    """What bringing a chat back from memory moved, and how long that took."""

    tokens: int
    num_bytes: int
    seconds: float
    evaluated: int


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


def chats_in_turn(rig: Rig, words: Words, tokens: int, repeats: int) -> Moved:
    """Two chats in turn: each time one leaves the KV buffer for memory and the other comes back."""
    chats = [[words.user(tokens, 20 + number)] for number in range(2)]
    rig.clear()
    for chat in chats:
        rig.ask(chat)
    seconds = []
    evaluated = 0
    for _ in range(repeats):
        for chat in chats:
            reading = rig.ask(chat)
            evaluated += reading.evaluated
            assert reading.stats.restored_from == "memory"
            seconds.append(reading.restore)
    moved = 2 * tokens * rig.loaded.info.kv_bytes_per_token
    return Moved(tokens, moved, median(seconds), evaluated)


@dataclass(frozen=True)
class Tight:
    """A long read under the smallest budget that a chat can have, with a little room."""

    tokens: int
    budget: int
    peak: int
    checkpoints: int


def tight(rig: Rig, words: Words, tokens: int) -> Tight:
    """What the ledger held at most while chats were read under a tight budget."""
    info = rig.loaded.info
    budget = info.smallest_host_budget + 2 * info.checkpoint_bytes
    settings = rig.cache_settings.model_copy(update={"host_bytes": budget})
    rig.clear()
    rig.ask([words.user(16, 30)], cache=settings)
    rig.peak_host = max(rig.peak_host, rig.cache.ledger.peak_host)
    rig.cache.ledger.peak_host = 0
    for seed in (31, 32, 33):
        rig.ask([words.user(tokens, seed)], cache=settings)
    peak = rig.cache.ledger.peak_host
    assert peak <= budget
    return Tight(tokens, budget, peak, rig.cache.num_states())


class Resident:
    """The most memory the process held while the block ran, beyond what it held before."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.before = self.peak = 0
        self._done = threading.Event()

    def __enter__(self) -> Resident:
        self.before = self.peak = self._rss()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.peak = max(self.peak, self._rss())

    @property
    def growth(self) -> int:
        return self.peak - self.before

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.peak = max(self.peak, self._rss())

    def _rss(self) -> int:
        return int(self._process.memory_info().rss)
