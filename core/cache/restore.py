"""Restoring a prompt from where it can be resumed: in the slab, from memory, or from disk.

The deepest place is tried first; one that fails is dropped with what can't be restored without it,
and the next best is taken. What is held, and what goes when room is short, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from core.api.prompt import Cut, Prompt
from core.cache.eviction import Evictor
from core.cache.live import FROM_DISK, FROM_SLAB, LivePath, RestoreFailedError
from core.cache.node import Node
from core.cache.state import Checkpoint, RecurrentState
from core.cache.tier import DiskTier
from core.cache.tree import PrefixTree
from core.layers.memory import LayerSpec

MemoryTier = Literal["slab", "memory", "disk"]
TIERS: tuple[MemoryTier, ...] = ("slab", "memory", "disk")


@dataclass(frozen=True, slots=True)
class Restored:
    """Where a request goes on from: everything needed to prefill the runs after `num_runs`.

    `last_hidden` is set when the place was reached by a checkpoint; a prompt that ends there needs
    no forward at all. `failed` says that a better place was tried and could not be restored,
    `faster` that one on disk was passed because reading again is quicker.
    """

    node: Node
    num_runs: int
    state: RecurrentState
    last_hidden: Tensor | None
    tier: MemoryTier | None
    failed: bool
    keys: tuple[bytes, ...]
    faster: bool = False

    @property
    def cut(self) -> Cut:
        return self.node.end


class Restorer:
    """Brings the runs above a place into the slab, and its state to where the model computes."""

    def __init__(
        self,
        specs: Sequence[LayerSpec],
        device: torch.device,
        tree: PrefixTree,
        live: LivePath,
        disk: DiskTier,
        evictor: Evictor,
    ) -> None:
        self._specs = specs
        self._device = device
        self._tree = tree
        self._live = live
        self._disk = disk
        self._evictor = evictor

    def go(self, prompt: Prompt, always: bool, mark: Callable[[Node], None]) -> Restored:
        """To the deepest place of `prompt`. What is on disk is fetched even where reading it again
        is quicker if `always`; `mark` is told of each node made for it."""
        keys = self._tree.keys(prompt)
        failed = False
        passed: set[bytes] = set()
        while True:
            node = self._tree.restorable(self._tree.match(keys), len(keys))
            depth = len(node.path()) if node is not None else 0
            checkpoint = node.checkpoint if node is not None else None
            deeper, faster = self._deeper(prompt, keys, depth, passed, always)
            try:
                if deeper:
                    passed.add(keys[deeper - 1])
                    node, checkpoint = self._from_disk(prompt, keys, deeper, mark)
                tier = max(self._bring(node), FROM_DISK if deeper else FROM_SLAB)
            except RestoreFailedError:
                failed = True
                continue
            if node is None:
                return self.start(keys, failed, faster)
            state = checkpoint.state if checkpoint is not None else RecurrentState({})
            if not state.matches(self._specs):
                self._tree.drop_checkpoint(node)
                failed = True
                continue
            return self.at(node, checkpoint, TIERS[tier], keys, failed, faster)

    def start(self, keys: Sequence[bytes], failed: bool = False, faster: bool = False) -> Restored:
        """The very start, for a prompt of which nothing can be brought back."""
        zeros = RecurrentState.zeros(self._specs, self._device)
        return Restored(self._tree.root, 0, zeros, None, None, failed, tuple(keys), faster)

    def at(
        self,
        node: Node,
        checkpoint: Checkpoint | None,
        tier: MemoryTier,
        keys: Sequence[bytes],
        failed: bool = False,
        faster: bool = False,
    ) -> Restored:
        """A node whose runs are in a slab, with the state to go on from on the device."""
        here = checkpoint.to(self._device) if checkpoint is not None else None
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

    def _deeper(
        self, prompt: Prompt, keys: Sequence[bytes], depth: int, passed: set[bytes], always: bool
    ) -> tuple[int, bool]:
        """How many runs the disk can bring back beyond `depth`, 0 for none; and whether it could,
        but reading them again is quicker."""
        if self._evictor.is_off:
            return 0, False
        held = len(self._tree.match(keys))
        deeper = self._disk.reach(keys, held, depth, passed)
        if deeper and not always:
            fetched = max(0, deeper - held)
            if self._disk.slower_than_reading(prompt.runs[depth:deeper], fetched):
                return 0, True
        return deeper, False

    def _from_disk(
        self, prompt: Prompt, keys: Sequence[bytes], depth: int, mark: Callable[[Node], None]
    ) -> tuple[Node, Checkpoint]:
        """The node after `depth` runs with its checkpoint, their rows still to be fetched."""
        checkpoint = self._disk.checkpoint(keys[depth - 1])
        if checkpoint is None or not checkpoint.state.matches(self._specs):
            raise RestoreFailedError("the state on disk is gone or damaged")
        node = self._tree.root
        for run in prompt.runs[:depth]:
            node = self._tree.place(node, run)
            mark(node)
        self._evictor.path = node.path()
        self._tree.pinned = node
        if self._evictor.admit(node, checkpoint):
            self._tree.hold(node, checkpoint)
        return node, checkpoint

    def _bring(self, node: Node | None) -> int:
        """Bring a node's runs into the slab; nothing that makes room meanwhile may drop it."""
        self._evictor.path = node.path() if node is not None else []
        self._tree.pinned = node
        try:
            return self._live.leave_for(node)
        finally:
            self._tree.pinned = None
