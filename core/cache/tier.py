"""The disk tier: the newest message end, a stopped reply's end, the last picture's edge and the
system prompt's end survive a restart, with the runs above them."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import Tensor

from core.api.prompt import Image, Run
from core.cache.disk.segment import SegmentDamagedError, SegmentId, SegmentKind, largest_copy
from core.cache.disk.store import Rows, SegmentStore, Window
from core.cache.embeddings import EmbeddingCache
from core.cache.kv_buffer import KVBuffer, KVRows
from core.cache.ledger import Held, Ledger
from core.cache.node import Node, last_edge
from core.cache.policy import Throughput
from core.cache.state import Checkpoint, RecurrentState
from core.cache.tree import PrefixTree

# Reading again must be estimated so many times as fast before what is on disk is passed by.
CLEARLY = 2.0
# Runs of short messages are written together, up to the tokens of a long run.
TOGETHER = 512
Writing = tuple[Sequence[Mapping[str, Tensor]], Callable[[], bool]]
"""Tensors, and a call that writes them; it returns False without room."""


class DiskTier:
    """One model's segments; without a store it holds nothing and wants nothing."""

    def __init__(
        self,
        store: SegmentStore | None,
        ledger: Ledger,
        throughput: Throughput,
        make_room: Callable[[Held, int], bool],
        kv_buffer: KVBuffer,
        state_bytes: int,
    ) -> None:
        """`state_bytes` are a checkpoint's, without its windows."""
        self.store = store
        self._ledger, self._throughput, self._make_room = ledger, throughput, make_room
        self._kv_buffer, self._state_bytes = kv_buffer, state_bytes
        self._wanted: dict[bytes, Node] = {}

    @property
    def num_bytes(self) -> int:
        return self.store.num_bytes if self.store is not None else 0

    @property
    def trouble(self) -> str | None:
        return self.store.trouble if self.store is not None else None

    @property
    def cap(self) -> int:
        return self.store.cap if self.store is not None else 0

    def limit(self, cap: int) -> None:
        if self.store is not None and self.store.cap != cap:
            self.store.cap = cap

    def holds_state(self, node: Node) -> bool:
        return self._has(SegmentKind.STATE, node.key)

    def holds_rows(self, key: bytes) -> bool:
        return self._has(SegmentKind.KV, key)

    def num_held(self, keys: Sequence[bytes], least: int = 0) -> int:
        """The number of leading runs whose rows are on disk, at least `least`. Rows are held only
        with those of all runs before them."""
        return bisect_left(keys, True, lo=least, key=lambda key: not self.holds_rows(key))

    def holds_embedding(self, key: bytes) -> bool:
        return self._has(SegmentKind.EMBEDDING, key)

    def reach(self, keys: Sequence[bytes], held: int, above: int, passed: set[bytes]) -> int:
        """The most runs, beyond `above`, that the disk can restore, else 0. The first `held` are in
        memory; places in `passed` are skipped."""
        if self.store is None:
            return 0
        for depth in range(self.num_held(keys, held), above, -1):
            key = keys[depth - 1]
            if key not in passed and self._has(SegmentKind.STATE, key):
                return depth
        return 0

    def slower_than_reading(self, runs: Sequence[Run], num_fetched: int) -> bool:
        """True if prefilling `runs` is clearly quicker than fetching the state and the last
        `num_fetched`."""
        if self._throughput.disk is None:
            return False
        pictures = sum(run.num_tokens for run in runs if isinstance(run.content, Image))
        text = sum(run.num_tokens for run in runs) - pictures
        reading = self._throughput.read_seconds(text, pictures)
        num_bytes = self.bytes_to_fetch(runs, num_fetched)
        return CLEARLY * reading <= self._throughput.fetch_seconds(num_bytes)

    def bytes_to_fetch(self, runs: Sequence[Run], num_fetched: int) -> int:
        tokens = sum(run.num_tokens for run in runs[len(runs) - num_fetched :])
        kv_buffer = self._kv_buffer
        window = min(kv_buffer.tail, runs[-1].end.token.value) * kv_buffer.tail_bytes_per_token
        return tokens * kv_buffer.bytes_per_token + self._state_bytes + window

    def checkpoint(
        self, key: bytes, window: Sequence[tuple[bytes, int]] = ()
    ) -> tuple[Checkpoint | None, list[KVRows]]:
        """`window` has the key of each run, and how many of its last rows to return."""
        stored = self.store.window(key) if self.store is not None else {}
        parts = (SegmentId(SegmentKind.WINDOW, run, stored.get(run, 0)) for run, _ in window)
        tensors, *tails = self._get(SegmentId(SegmentKind.STATE, key), *parts) or ({},)
        if "last_hidden" not in tensors:
            return None, []
        layers: dict[int, dict[int, Tensor]] = {}
        for name, tensor in tensors.items():
            if name != "last_hidden":
                layer, index = map(int, name.split("."))
                layers.setdefault(layer, {})[index] = tensor
        states = {
            layer: tuple(found[index] for index in sorted(found)) for layer, found in layers.items()
        }
        rows = [_rows_of(part).last(count) for part, (_, count) in zip(tails, window, strict=True)]
        return Checkpoint(RecurrentState(states), tensors["last_hidden"]), rows

    def rows(self, node: Node) -> KVRows | None:
        found = self._get(SegmentId(SegmentKind.KV, node.key))
        return _rows_of(found[0]) if found is not None else None

    def embedding(self, key: bytes) -> Tensor | None:
        found = self._get(SegmentId(SegmentKind.EMBEDDING, key))
        return found[0]["embedding"] if found is not None else None

    def own(self, owner: str, keys: Sequence[bytes]) -> None:
        """A chat resumes from a path, given from its end, and shares what is on disk of it."""
        if self.store is None:
            return
        # Whoever owns a segment owns the runs above it too.
        deepest = next((key for key in keys if self.holds_rows(key)), None)
        if deepest is not None:
            self.store.own(owner, SegmentKind.KV, deepest)
        self.store.own(owner, SegmentKind.STATE, *keys)
        if keys:
            self.store.touch(SegmentKind.STATE, keys[0])

    def forget(self, owner: str | None) -> None:
        self._wanted = {
            key: node for key, node in self._wanted.items() if owner and node.owners - {owner}
        }
        if self.store is not None:
            self.store.forget(owner)

    def want(self, path: Sequence[Node]) -> None:
        """Note places to write; a prefilled reply replaces a user message's end."""
        if self.store is None:
            return
        held = [node for node in path if node.checkpoint is not None]
        ends = [node for node in held if node.ends_message]
        for node in ends[:-1]:
            if node.role == "user":
                self._wanted.pop(node.key, None)
        system = [node for node in held if node.role == "system"]
        for node in (*system[-1:], *last_edge(held), *_last_pause(held), *ends[-1:]):
            if not self.holds_state(node):
                self._wanted[node.key] = node

    def write_some(self, tree: PrefixTree, embeddings: EmbeddingCache) -> bool:
        while self.store is not None and self._wanted:
            key, node = next(iter(self._wanted.items()))
            missing = self._missing(self.store, node, tree, embeddings) if node in tree else None
            if missing is None:
                del self._wanted[key]
                continue
            tensors, write = missing
            copied = max(map(largest_copy, tensors))
            if copied > max(0, self._ledger.room(Held.IN_FLIGHT)):
                return False
            with self._ledger.passing(Held.IN_FLIGHT, copied):
                if not write():
                    del self._wanted[key]
            return True
        return False

    def _missing(
        self, store: SegmentStore, node: Node, tree: PrefixTree, embeddings: EmbeddingCache
    ) -> Writing | None:
        """The first segments that restoring a node after a restart lacks, top runs first."""
        if node.checkpoint is None:
            return None
        path = node.path()
        depth = self.num_held([at.key for at in path])
        if depth < len(path):
            return self._runs(store, path[depth:])
        if not self.holds_state(node):
            tensors = {
                f"{layer}.{index}": tensor
                for layer, state in node.checkpoint.state.layers.items()
                for index, tensor in enumerate(state)
            }
            tensors["last_hidden"] = node.checkpoint.last_hidden
            windows = _windows(store, tree, node)
            state = SegmentKind.STATE, node.key, _parent(node), tensors, node.owners, windows
            return [tensors], partial(store.put, *state)
        for at in path:
            picture = at.run.content if at.run is not None else None
            held = embeddings.peek(picture.key) if isinstance(picture, Image) else None
            if not isinstance(picture, Image) or held is None:
                continue
            if not self._has(SegmentKind.EMBEDDING, picture.key):
                tensors = {"embedding": held.embedding}
                segment = SegmentKind.EMBEDDING, picture.key, None, tensors, held.owners
                return [tensors], partial(store.put, *segment)
        return None

    def _runs(self, store: SegmentStore, path: Sequence[Node]) -> Writing | None:
        """The first of these nodes, with those that are written together with it."""
        runs: list[Rows] = []
        tokens = 0
        for node in path:
            assert node.run is not None
            tokens += node.run.num_tokens
            rows = node.rows
            if rows is None and node.in_kv_buffer:
                rows = self._kv_buffer.view(node.run.start.token.value, node.end.token.value)
            if rows is None or (runs and tokens > TOGETHER):
                break
            runs.append((node.key, _named(rows), node.owners))
        if not runs:
            return None
        return [named for _, named, _ in runs], partial(store.put_runs, _parent(path[0]), runs)

    def _get(self, *names: SegmentId) -> list[dict[str, Tensor]] | None:
        if (store := self.store) is None:
            return None
        places = [(name.kind, name.key, name.num_rows) for name in names]
        sizes = [store.size(*place) for place in places]
        # Each is read through one buffer of its own size.
        passing = sum(sizes) + max(sizes)
        if not all(sizes) or not self._make_room(Held.IN_FLIGHT, passing):
            return None
        with self._ledger.passing(Held.IN_FLIGHT, passing):
            began = time.perf_counter()
            try:
                found = [tensors for place in places if (tensors := store.get(*place)) is not None]
            except SegmentDamagedError:
                return None
            self._throughput.note_disk(sum(sizes), time.perf_counter() - began)
            return found if len(found) == len(names) else None

    def _has(self, kind: SegmentKind, key: bytes) -> bool:
        return self.store is not None and self.store.has(kind, key)


def _windows(store: SegmentStore, tree: PrefixTree, node: Node) -> list[Window]:
    windows: list[Window] = []
    for (at, count), rows in zip(tree.window(node), tree.tails(node), strict=True):
        held = store.enough_rows(at.key, count)
        windows.append((at.key, held or count, {} if held else _named(rows)))
    return windows


def _named(rows: KVRows) -> dict[str, Tensor]:
    return {
        f"{layer}.{name}": tensor
        for layer, held in rows.layers.items()
        for name, tensor in zip(("keys", "values"), held, strict=False)
    }


def _rows_of(tensors: Mapping[str, Tensor]) -> KVRows:
    layers: dict[int, tuple[Tensor, ...]] = {}
    for name in sorted(tensors):  # keys before values
        layer = int(name.split(".")[0])
        layers[layer] = (*layers.get(layer, ()), tensors[name])
    return KVRows(layers)


def _last_pause(held: Sequence[Node]) -> Sequence[Node]:
    for node in reversed(held):
        if node.role == "user":
            break
        if node.role == "pause":
            return [node]
    return ()


def _parent(node: Node) -> bytes | None:
    above = node.parent
    return above.key if above is not None and above.parent is not None else None
