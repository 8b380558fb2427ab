"""The context cache of one model. It never runs the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from core.api.errors import BudgetTooSmallError
from core.api.params import CacheSettings
from core.api.positions import TokenIndex
from core.api.prompt import ORIGIN, Cut, Image, Prompt, Run
from core.cache.disk.store import SegmentStore
from core.cache.embeddings import EmbeddingCache
from core.cache.eviction import Evictor
from core.cache.kv_buffer import KVBuffer, KVRows
from core.cache.ledger import Held, Ledger, Limits
from core.cache.node import Node, Role
from core.cache.policy import Throughput, plan
from core.cache.restore import LivePath, Restored, Restorer
from core.cache.state import Checkpoint, HostCopies, RecurrentState, SideStream
from core.cache.tier import DiskTier
from core.cache.tree import PrefixTree
from core.layers.memory import LayerSpec, RecurrentSpec, checkpoint_bytes

# Embeddings may take this share of host memory: a picture's embedding saves one call of the tower,
# a checkpoint everything before it.
EMBEDDING_SHARE = 0.125


@dataclass(frozen=True, slots=True)
class Usage:
    owner: str = ""
    roles: Mapping[TokenIndex, Role] = field(default_factory=lambda: MappingProxyType({}))
    turn: bool = True


@dataclass(frozen=True, slots=True)
class Budgets(Limits):
    """Bytes the cache may hold if the settings don't say."""

    disk: int = 0


class Foreseen(NamedTuple):
    """`seconds` until the first token; None before any was measured."""

    tokens: int
    encoded: int
    seconds: float | None


class ContextCache:
    """`context_length` bounds the KV buffer in tokens."""

    def __init__(
        self,
        specs: Sequence[LayerSpec],
        device: torch.device,
        context_length: int,
        fingerprint: bytes,
        budgets: Budgets | None = None,
        store: SegmentStore | None = None,
        copier: SideStream | None = None,
    ) -> None:
        self._specs = tuple(specs)
        self._device = device
        self.context_length = context_length
        self.budgets = budgets or Budgets()
        self.throughput = Throughput()
        self.ledger = Ledger(device.type != "cpu", self.budgets)
        self.kv_buffer = KVBuffer(specs, device, context_length, self._grow)
        tail = self.kv_buffer.tail
        stateful = any(isinstance(spec, RecurrentSpec) for spec in specs)
        # Without what windows have passed, few places can be resumed without a checkpoint.
        self.recurrent = stateful or tail > 0
        in_window = self._in_window if tail and not stateful else None
        self.tree = PrefixTree(fingerprint, self.recurrent, self.ledger, tail, in_window)
        self.embeddings = EmbeddingCache(int(self.budgets.host * EMBEDDING_SHARE), self.ledger)
        self._evictor = Evictor(
            self.tree,
            self.embeddings,
            self.ledger,
            self.throughput,
            self._is_stored,
            self.kv_buffer.tail_bytes_per_token,
        )
        self.disk = DiskTier(
            store,
            self.ledger,
            self.throughput,
            self._evictor.make_room,
            self.kv_buffer,
            checkpoint_bytes(specs),
        )
        self.embeddings.fetch = self.disk.embedding
        self.embeddings.stored = self.disk.holds_embedding
        self.embeddings.admit = self._evictor.admit_picture
        room_for_rows = partial(self._evictor.make_room, Held.ROWS)
        self._live = LivePath(self.kv_buffer, self.tree, self.ledger, room_for_rows, self.disk.rows)
        self.restorer = Restorer(
            self._specs, device, self.tree, self._live, self.disk, self._evictor
        )
        self._copies = HostCopies(copier)
        self._settings = CacheSettings()
        self._usage = Usage()

    @property
    def count(self) -> int:
        return self._evictor.count

    @property
    def smallest(self) -> Limits:
        kv_buffer = self.kv_buffer.bytes_of(self.context_length)
        return Limits(kv_buffer, 0) if self._device.type == "cpu" else Limits(0, kv_buffer)

    def clear(self) -> None:
        self.tree.clear()
        self.embeddings.clear()
        self._leave_dropped()
        self.disk.forget(None)

    def forget(self, owner: str | None) -> None:
        """Drop what only `owner` used (None: everything). Raises NotDeletedError."""
        if owner is None:
            self.clear()
        elif owner:
            self.tree.forget(owner)
            self.embeddings.forget(owner)
            self._leave_dropped()
            self.disk.forget(owner)

    def apply(self, settings: CacheSettings) -> None:
        """Raises BudgetTooSmallError and keeps the old bounds."""
        limits = self._limits(settings)
        self._settings = settings
        self._evictor.count = settings.count
        self.ledger.limits = limits
        self.embeddings.limit(int(limits.host * EMBEDDING_SHARE))
        self._evictor.fit()
        disk = self.budgets.disk if settings.disk_bytes is None else settings.disk_bytes
        self.disk.limit(disk)

    def planned(self, prompt: Prompt, settings: CacheSettings) -> frozenset[Run]:
        edges = {token for token, role in self._usage.roles.items() if role == "edge"}
        at_edges = {run for run in prompt.runs if run.end.token in edges}
        return frozenset(plan(prompt, settings.interval)) | at_edges | {prompt.runs[-1]}

    def restore(self, prompt: Prompt, usage: Usage | None = None) -> Restored:
        self._copies.wait()
        self._usage = usage or Usage()
        self.embeddings.owner = self._usage.owner
        self._evictor.begin(self._usage.owner)
        restored = self.restorer.go(prompt, self._settings.restore == "always", self._mark)
        if restored.num_runs:
            self._use(restored.node)
            if self._usage.turn and restored.node.is_stop:
                self._evictor.drop_older_pauses(restored.node)
        return restored

    def foresee(self, prompt: Prompt, settings: CacheSettings) -> Foreseen:
        """Doesn't see what lower limits in `settings` would evict first."""
        off = self.recurrent and self.tree.in_window is None and settings.count == 0
        num_runs, num_bytes = self.restorer.foresee(prompt, settings.restore == "always", off)
        runs = prompt.runs[num_runs:]
        pictures = {
            run.content.key: run.num_tokens for run in runs if isinstance(run.content, Image)
        }
        new = [key for key in pictures if not self.embeddings.has(key)]
        tokens = sum(run.num_tokens for run in runs)
        seconds = self.throughput.request_seconds(
            tokens, sum(pictures[key] for key in new), num_bytes
        )
        return Foreseen(tokens, len(new), seconds)

    def holds(self, prompt: Prompt, usage: Usage) -> bool:
        """True if memory can resume from the prompt's end; only its owner is noted."""
        keys = self.tree.keys(prompt)
        nodes = self.tree.match(keys)
        if len(nodes) < len(keys) or nodes[-1].checkpoint is None:
            return False
        self._usage = usage
        for node in nodes:
            self._mark(node)
        self.disk.own(usage.owner, keys[::-1])
        # A reply that the next turn read before it could be settled is worth a restart as well.
        self.disk.want(nodes)
        return True

    def add(self, parent: Node, run: Run) -> Node:
        node = self.tree.add(parent, run)
        self._mark(node)
        self._live.nodes.append(node)
        self._evictor.path.append(node)
        return node

    def keep(self, node: Node, state: RecurrentState, last_hidden: Tensor) -> bool:
        checkpoint = Checkpoint(state, last_hidden)
        if node.checkpoint is None:
            # A picture that was cut short may have moved windows too far.
            whole = self.kv_buffer.holds_window(node.end.token.value)
            if not (whole and self._evictor.admit(node, checkpoint)):
                return False
            checkpoint = self._copies.take(checkpoint)
        self.tree.hold(node, checkpoint, self._tails(node))
        if self._usage.turn and node.is_stop:
            self._evictor.drop_older_pauses(node)
        elif self._usage.turn:
            self._evictor.drop_older_stops(node)
        return True

    def _is_stored(self, node: Node) -> bool:
        return self.disk.holds_state(node)

    def _in_window(self, node: Node) -> bool:
        return node.in_kv_buffer and self.kv_buffer.holds_window(node.end.token.value)

    def _tails(self, node: Node) -> list[KVRows | None]:
        """Copies of the rows that windows read at the live path's end, if none are held."""
        if node.checkpoint is not None:
            return []
        lacking = {at for at, _ in self.tree.lacking(node)}
        return [
            self.kv_buffer.copy_out(at.end.token.value - count, at.end.token.value, window=True)
            if at in lacking
            else None
            for at, count in self.tree.window(node)
        ]

    def end_use(self) -> None:
        """Notes which places to write to disk."""
        self._copies.wait()
        self.disk.want(self._evictor.path)

    def write_some(self) -> bool:
        """False if nothing is left to write."""
        self._copies.wait()
        return self.disk.write_some(self.tree, self.embeddings)

    def checkpoints_on(self, keys: Sequence[bytes]) -> list[tuple[Cut, int]]:
        """Checkpoints and their bytes; shared rows in windows count at the first."""
        counted: dict[Node, int] = {}
        found = []
        for node in self.tree.match(keys) if self.recurrent else ():
            if node.checkpoint is not None:
                before = sum(counted.values())
                for at, count in self.tree.window(node):
                    counted[at] = max(count, counted.get(at, 0))
                rows = sum(counted.values()) - before
                num_bytes = rows * self.kv_buffer.tail_bytes_per_token
                found.append((node.end, node.checkpoint.num_bytes + num_bytes))
        return found

    def num_states(self) -> int:
        return self.tree.num_checkpoints if self.recurrent else 0

    def state_bytes(self) -> int:
        """Recurrent states, and rows before checkpoints in sliding windows."""
        checkpoints = (node.checkpoint for node in self.tree.checkpoints())
        hidden = sum(each.last_hidden.nbytes for each in checkpoints if each is not None)
        return self.ledger.used(Held.STATES) - hidden

    def kv_bytes(self) -> int:
        return self.kv_buffer.num_bytes + self.ledger.used(Held.ROWS)

    def check_integrity(self) -> None:
        assert not self.recurrent or self.num_states() <= self.count
        assert self.ledger.room(Held.KV_BUFFER) >= 0 and self.ledger.room(Held.ROWS) >= 0
        assert self.ledger.used(Held.KV_BUFFER) == self.kv_buffer.num_bytes
        assert self.ledger.used(Held.IN_FLIGHT) == 0
        self.tree.check_integrity()
        self.embeddings.check_integrity()
        at = ORIGIN
        for node in self._live.nodes:
            assert node.run is not None and node.run.start == at
            at = node.end
        live = set(map(id, self._live.nodes))
        assert live >= {id(node) for node in self.tree if node.in_kv_buffer}

    def _limits(self, settings: CacheSettings) -> Limits:
        wished = Limits(
            self.budgets.host if settings.host_bytes is None else settings.host_bytes,
            self.budgets.device if settings.device_bytes is None else settings.device_bytes,
        )
        smallest = self.smallest
        for kind, wish, least in (
            ("host memory", wished.host, smallest.host),
            ("device memory", wished.device, smallest.device),
        ):
            if wish < least:
                raise BudgetTooSmallError(
                    f"The budget for {kind} is {wish:,} bytes. A context of "
                    f"{self.context_length:,} tokens alone takes {least:,} bytes: allow at least "
                    "that, or load the model with a shorter context."
                )
        return wished

    def _use(self, node: Node) -> None:
        """Only `node` counts as used, all above it get the owner."""
        self.tree.touch(node)
        for at in node.upwards():
            self._mark(at)
        self.disk.own(self._usage.owner, [at.key for at in node.upwards()])

    def _mark(self, node: Node) -> None:
        self.tree.own(node, self._usage.owner)
        node.role = self._usage.roles.get(node.end.token, node.role)

    def _grow(self, num_bytes: int) -> None:
        if not self._evictor.make_room(Held.KV_BUFFER, num_bytes):
            raise MemoryError("the budget has no room for a longer context")
        self.ledger.reserve(Held.KV_BUFFER, num_bytes)

    def _leave_dropped(self) -> None:
        self._live.leave_dropped()
        self._evictor.path = []
