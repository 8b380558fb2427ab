"""The disk tier: the newest message end, a stopped reply's end, the last picture's edge and the
system prompt's end survive a restart, with the runs above them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from core.api.prompt import Image, Run
from core.cache.disk.segment import SegmentDamagedError, SegmentKind, largest_copy
from core.cache.disk.store import SegmentStore
from core.cache.embeddings import EmbeddingCache
from core.cache.kv_buffer import KVBuffer, KVRows, joined
from core.cache.ledger import Held, Ledger
from core.cache.node import Node
from core.cache.policy import Throughput
from core.cache.state import Checkpoint, RecurrentState
from core.cache.tree import PrefixTree

# A segment is read through one buffer of its own size.
BUFFERS = 2
# Reading again must be estimated so many times as fast before what is on disk is passed by.
CLEARLY = 2.0
_WINDOW = "window."
Segment = tuple[SegmentKind, bytes, bytes | None, Mapping[str, Tensor], set[str]]


class DiskTier:
    """One model's segments; without a store it holds nothing and wants nothing."""

    def __init__(self, store: SegmentStore | None) -> None:
        self.store = store
        self._wanted: dict[bytes, Node] = {}

    def connect(
        self,
        ledger: Ledger,
        throughput: Throughput,
        make_room: Callable[[Held, int], bool],
        row_bytes: int,
        state_bytes: int,
    ) -> None:
        """`row_bytes` are a token's, `state_bytes` a checkpoint's with its windows."""
        self._ledger, self._throughput, self._make_room = ledger, throughput, make_room
        self._row_bytes, self._state_bytes = row_bytes, state_bytes

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

    def holds_embedding(self, key: bytes) -> bool:
        return self._has(SegmentKind.EMBEDDING, key)

    def reach(self, keys: Sequence[bytes], held: int, above: int, passed: set[bytes]) -> int:
        """The most runs, beyond `above`, that the disk can restore, else 0. The first `held` runs
        are in memory; places in `passed` are skipped."""
        if self.store is None:
            return 0
        reach = held
        while reach < len(keys) and self.holds_rows(keys[reach]):
            reach += 1
        for depth in range(reach, above, -1):
            key = keys[depth - 1]
            if key not in passed and self._has(SegmentKind.STATE, key):
                return depth
        return 0

    def slower_than_reading(self, runs: Sequence[Run], num_fetched: int) -> bool:
        """True if prefilling `runs` is clearly quicker than fetching the last `num_fetched` and the
        state."""
        if self._throughput.disk is None:
            return False
        pictures = sum(run.num_tokens for run in runs if isinstance(run.content, Image))
        text = sum(run.num_tokens for run in runs) - pictures
        reading = self._throughput.read_seconds(text, pictures)
        num_bytes = self.bytes_to_fetch(runs[len(runs) - num_fetched :])
        return CLEARLY * reading <= self._throughput.fetch_seconds(num_bytes)

    def bytes_to_fetch(self, runs: Sequence[Run]) -> int:
        """Bytes of a state, and of the rows of `runs` before it."""
        return sum(run.num_tokens for run in runs) * self._row_bytes + self._state_bytes

    def checkpoint(self, key: bytes) -> tuple[Checkpoint | None, KVRows]:
        """A checkpoint, and the rows of its windows."""
        tensors = self._get(SegmentKind.STATE, key)
        if tensors is None or "last_hidden" not in tensors:
            return None, KVRows({})
        layers: dict[int, dict[int, Tensor]] = {}
        window: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            if name.startswith(_WINDOW):
                window[name.removeprefix(_WINDOW)] = tensor
            elif name != "last_hidden":
                layer, index = map(int, name.split("."))
                layers.setdefault(layer, {})[index] = tensor
        states = {
            layer: tuple(found[index] for index in sorted(found)) for layer, found in layers.items()
        }
        return Checkpoint(RecurrentState(states), tensors["last_hidden"]), _rows_of(window)

    def rows(self, node: Node) -> KVRows | None:
        tensors = self._get(SegmentKind.KV, node.key)
        return _rows_of(tensors) if tensors is not None else None

    def embedding(self, key: bytes) -> Tensor | None:
        tensors = self._get(SegmentKind.EMBEDDING, key)
        return tensors["embedding"] if tensors is not None else None

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
        """Note the places of a finished request to write; a prefilled reply replaces a user
        message's end."""
        if self.store is None:
            return
        held = [node for node in path if node.checkpoint is not None]
        ends = [node for node in held if node.ends_message]
        for node in ends[:-1]:
            if node.role == "user":
                self._wanted.pop(node.key, None)
        edges = [node for node in held if node.is_edge]
        system = [node for node in held if node.role == "system"]
        for node in (*system[-1:], *edges[-1:], *_last_pause(held), *ends[-1:]):
            if not self.holds_state(node):
                self._wanted[node.key] = node

    def write_some(self, tree: PrefixTree, kv_buffer: KVBuffer, embeddings: EmbeddingCache) -> bool:
        while self.store is not None and self._wanted:
            key, node = next(iter(self._wanted.items()))
            segment = self._missing(node, kv_buffer, embeddings) if node in tree else None
            tails = tree.tails(node) if segment and segment[0] is SegmentKind.STATE else []
            copied = largest_copy(segment[3]) if segment is not None else 0
            copied += sum(rows.num_bytes for rows in tails)
            if copied > max(0, self._ledger.room(Held.IN_FLIGHT)):
                return False
            if segment is None or not self._put(self.store, segment, tails, copied):
                del self._wanted[key]
            if segment is not None:
                return True
        return False

    def _missing(
        self, node: Node, kv_buffer: KVBuffer, embeddings: EmbeddingCache
    ) -> Segment | None:
        """The first segment that a node's restore after a restart lacks, top runs first."""
        if node.checkpoint is None:
            return None
        path = node.path()
        for at in path:
            if not self.holds_rows(at.key):
                return self._rows_segment(at, kv_buffer)
        if not self.holds_state(node):
            tensors = {
                f"{layer}.{index}": tensor
                for layer, state in node.checkpoint.state.layers.items()
                for index, tensor in enumerate(state)
            }
            tensors["last_hidden"] = node.checkpoint.last_hidden
            return SegmentKind.STATE, node.key, _parent(node), tensors, node.owners
        for at in path:
            picture = at.run.content if at.run is not None else None
            held = embeddings.peek(picture.key) if isinstance(picture, Image) else None
            if not isinstance(picture, Image) or held is None:
                continue
            if not self._has(SegmentKind.EMBEDDING, picture.key):
                tensors = {"embedding": held.embedding}
                return SegmentKind.EMBEDDING, picture.key, None, tensors, held.owners
        return None

    def _rows_segment(self, node: Node, kv_buffer: KVBuffer) -> Segment | None:
        assert node.run is not None
        rows = node.rows
        if rows is None and node.in_kv_buffer:
            rows = kv_buffer.view(node.run.start.token.value, node.end.token.value)
        if rows is None:
            return None
        return SegmentKind.KV, node.key, _parent(node), _named(rows), node.owners

    def _put(
        self, store: SegmentStore, segment: Segment, tails: Sequence[KVRows], copied: int
    ) -> bool:
        kind, key, parent, tensors, owners = segment
        with self._ledger.passing(Held.IN_FLIGHT, copied):
            # One tensor a layer: a header has no room for those of many short runs.
            window = _named(joined(tails[::-1]), _WINDOW)
            return store.put(kind, key, parent, {**tensors, **window}, owners)

    def _get(self, kind: SegmentKind, key: bytes) -> dict[str, Tensor] | None:
        num_bytes = self.store.size(kind, key) if self.store is not None else 0
        if not num_bytes or not self._make_room(Held.IN_FLIGHT, BUFFERS * num_bytes):
            return None
        assert self.store is not None
        with self._ledger.passing(Held.IN_FLIGHT, BUFFERS * num_bytes):
            began = time.perf_counter()
            try:
                tensors = self.store.get(kind, key)
            except SegmentDamagedError:
                return None
            self._throughput.note_disk(num_bytes, time.perf_counter() - began)
            return tensors

    def _has(self, kind: SegmentKind, key: bytes) -> bool:
        return self.store is not None and self.store.has(kind, key)


def _named(rows: KVRows, prefix: str = "") -> dict[str, Tensor]:
    return {
        f"{prefix}{layer}.{name}": tensor
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
