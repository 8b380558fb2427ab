"""Restoring a prompt from the deepest place possible. A place that fails is dropped with what
depends on it, and the next best tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import torch
from torch import Tensor

from core.api.prompt import Cut, Prompt
from core.api.stats import Tier
from core.cache.eviction import Evictor
from core.cache.kv_buffer import KVBuffer, KVRows
from core.cache.ledger import Held, Ledger
from core.cache.node import Node
from core.cache.state import Checkpoint, RecurrentState, own
from core.cache.tier import DiskTier
from core.cache.tree import PrefixTree, num_common
from core.layers.memory import LayerSpec

TIERS: tuple[Tier, ...] = ("slab", "memory", "disk")
# Places in TIERS: where a run came from into the KV buffer.
FROM_KV_BUFFER, FROM_MEMORY, FROM_DISK = range(3)


@dataclass(frozen=True, slots=True)
class Restored:
    """The place where a request resumes, after `num_runs` runs. With `last_hidden`, a prompt that
    ends there needs no forward. `failed`: a better place could not be restored; `faster`: one on
    disk was passed because prefilling is quicker."""

    node: Node
    num_runs: int
    state: RecurrentState
    last_hidden: Tensor | None
    tier: Tier | None
    failed: bool
    keys: tuple[bytes, ...]
    faster: bool = False

    @property
    def cut(self) -> Cut:
        return self.node.end


@dataclass(eq=False)
class Restorer:
    specs: Sequence[LayerSpec]
    device: torch.device
    tree: PrefixTree
    live: LivePath
    disk: DiskTier
    evictor: Evictor

    def go(self, prompt: Prompt, always: bool, mark: Callable[[Node], None]) -> Restored:
        """`always` fetches from disk even if prefilling is quicker."""
        keys = self.tree.keys(prompt)
        failed = False
        passed: set[bytes] = set()
        while True:
            node, deeper, faster = self._choose(prompt, keys, passed, always, self.evictor.is_off)
            checkpoint = node.checkpoint if node is not None else None
            tails = self.tree.tails(node) if node is not None else []
            try:
                if deeper:
                    passed.add(keys[deeper - 1])
                    node, checkpoint, tails = self._from_disk(prompt, keys, deeper, mark)
                tier = max(self._bring(node, tails), FROM_DISK if deeper else FROM_KV_BUFFER)
            except RestoreFailedError:
                failed = True
                continue
            if node is None:
                return self.start(keys, failed, faster)
            state = checkpoint.state if checkpoint is not None else RecurrentState({})
            if not state.matches(self.specs):
                self.tree.drop_checkpoint(node)
                failed = True
                continue
            return self.at(node, checkpoint, TIERS[tier], keys, failed, faster)

    def foresee(self, prompt: Prompt, always: bool, off: bool) -> tuple[int, int]:
        """The runs that `go` would restore if no place fails, and the bytes it would fetch from
        disk."""
        keys = self.tree.keys(prompt)
        node, deeper, _ = self._choose(prompt, keys, set(), always, off)
        if deeper:
            held = min(deeper, len(self.tree.match(keys)))
            return deeper, self.disk.bytes_to_fetch(prompt.runs[:deeper], deeper - held)
        return len(node.path()) if node is not None else 0, 0

    def start(self, keys: Sequence[bytes], failed: bool = False, faster: bool = False) -> Restored:
        zeros = RecurrentState.zeros(self.specs, self.device)
        return Restored(self.tree.root, 0, zeros, None, None, failed, tuple(keys), faster)

    def at(
        self,
        node: Node,
        checkpoint: Checkpoint | None,
        tier: Tier,
        keys: Sequence[bytes],
        failed: bool = False,
        faster: bool = False,
    ) -> Restored:
        here = checkpoint.to(self.device) if checkpoint is not None else None
        return Restored(
            node=node,
            num_runs=len(node.path()),
            state=here.state if here is not None else RecurrentState({}),
            last_hidden=here.last_hidden if here is not None else None,
            tier=tier,
            failed=failed,
            keys=tuple(keys),
            faster=faster,
        )

    def _choose(
        self, prompt: Prompt, keys: Sequence[bytes], passed: set[bytes], always: bool, off: bool
    ) -> tuple[Node | None, int, bool]:
        """The deepest place in memory, how many runs the disk restores beyond it, and if prefilling
        those is quicker."""
        if off:
            return None, 0, False
        matched = self.tree.match(keys)
        node = self.tree.restorable(matched, len(keys))
        depth = len(node.path()) if node is not None else 0
        deeper = self.disk.reach(keys, len(matched), depth, passed)
        if deeper and not always:
            fetched = max(0, deeper - len(matched))
            if self.disk.slower_than_reading(prompt.runs[depth:deeper], fetched):
                return node, 0, True
        return node, deeper, False

    def _from_disk(
        self, prompt: Prompt, keys: Sequence[bytes], depth: int, mark: Callable[[Node], None]
    ) -> tuple[Node, Checkpoint, list[KVRows]]:
        counts = self.tree.window_rows(run.num_tokens for run in reversed(prompt.runs[:depth]))
        window = list(zip(reversed(keys[:depth]), counts, strict=False))
        checkpoint, tails = self.disk.checkpoint(keys[depth - 1], window)
        if checkpoint is None or not checkpoint.state.matches(self.specs):
            raise RestoreFailedError("the state on disk is gone or damaged")
        windowed = self.live.kv_buffer.windowed
        if not all(map(KVRows.matches, tails, repeat(windowed), counts)):
            raise RestoreFailedError("the windows on disk are of another kind")
        node = self.tree.root
        for run in prompt.runs[:depth]:
            node = self.tree.place(node, run)
            mark(node)
        self.evictor.path = node.path()
        self.tree.pinned = node
        if self.evictor.admit(node, checkpoint):
            self.tree.hold(node, checkpoint, [rows.map(own) for rows in tails])
        return node, checkpoint, tails

    def _bring(self, node: Node | None, tails: Sequence[KVRows]) -> int:
        """Pinned, so that making room can't drop the node."""
        self.evictor.path = node.path() if node is not None else []
        self.tree.pinned = node
        try:
            return self.live.leave_for(node, tails)
        finally:
            self.tree.pinned = None


class RestoreFailedError(Exception):
    """The tree has already dropped what depended on the run."""


@dataclass(eq=False)
class LivePath:
    """The `nodes` whose KV is in the KV buffer, without a gap. `make_room(num_bytes, needed)` makes
    room for copies outside it; `fetch` reads rows from disk."""

    kv_buffer: KVBuffer
    tree: PrefixTree
    ledger: Ledger
    make_room: Callable[[int, Callable[[], bool]], bool]
    fetch: Callable[[Node], KVRows | None]
    nodes: list[Node] = field(default_factory=list)

    def leave_for(self, target: Node | None, tails: Sequence[KVRows]) -> int:
        """Make the buffer hold exactly the runs down to `target`, with their windows' `tails`;
        returns the slowest tier used. Raises RestoreFailedError with the path cut to complete
        runs."""
        wanted = target.path() if target is not None else []
        shared = num_common(self.nodes, wanted)
        self._copy_out(shared)
        if shared < len(wanted):
            # Runs that come in have no windows yet, and one of them may fail.
            self.kv_buffer.drop_window()
        tier = max((self._copy_in(node) for node in wanted[shared:]), default=FROM_KV_BUFFER)
        end = target.end.token.value if target is not None else 0
        if not self.kv_buffer.holds_window(end):
            self.kv_buffer.put_window(end, tails)
        return tier

    def leave_dropped(self) -> None:
        kept = 0
        while kept < len(self.nodes) and self.nodes[kept] in self.tree:
            kept += 1
        del self.nodes[kept:]

    def _copy_out(self, keep: int) -> None:
        """End the path after `keep` nodes, saving rows that the tree still needs."""
        leaving = self.nodes[keep:]
        del self.nodes[keep:]
        for node in reversed(leaving):
            self._save(node)
            node.in_kv_buffer = False
            self.tree.prune(node)

    def _save(self, node: Node) -> None:
        if not self.tree.needs_rows(node):
            return
        assert node.run is not None
        num_bytes = node.num_tokens * self.kv_buffer.bytes_per_token

        def needed() -> bool:
            # Making room can drop the very checkpoints that needed this run.
            return self.tree.needs_rows(node)

        if not (self.make_room(num_bytes, needed) and needed()):
            self._lose(node)
            return
        self.ledger.reserve(Held.ROWS, num_bytes)
        try:
            rows = self.kv_buffer.copy_out(node.run.start.token.value, node.end.token.value)
        except (RuntimeError, MemoryError):
            self.ledger.release(Held.ROWS, num_bytes)
            self._lose(node)
        else:
            self.tree.hold_rows(node, rows)

    def _lose(self, node: Node) -> None:
        if self.tree.needs_rows(node):
            self.tree.drop_subtree(node)

    def _copy_in(self, node: Node) -> int:
        assert node.run is not None
        tier = FROM_MEMORY if node.rows is not None else FROM_DISK
        try:
            rows = node.rows if node.rows is not None else self.fetch(node)
            if rows is None or not rows.matches(self.kv_buffer.specs, node.num_tokens):
                raise ValueError("the run's rows are gone or of another kind")
            # Rows read from disk are a copy until they are in the KV buffer.
            passing = rows.num_bytes if node.rows is None else 0
            with self.ledger.passing(Held.IN_FLIGHT, passing):
                self.kv_buffer.copy_in(node.run.start.token.value, rows)
        except (ValueError, RuntimeError, MemoryError) as error:
            self.tree.drop_subtree(node)
            raise RestoreFailedError(str(error)) from error
        self.tree.release_rows(node)
        node.in_kv_buffer = True
        self.nodes.append(node)
        return tier
