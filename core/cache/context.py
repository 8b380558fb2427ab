"""The context cache of one loaded model: tree, slab, live path and embeddings behind one door.

A request restores the deepest place it can go on from, adds run after run as they are prefilled,
and ends in a stop. Nothing here runs the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from core.api.params import CacheSettings
from core.api.prompt import ORIGIN, Cut, Prompt, Run
from core.cache.embeddings import EmbeddingCache
from core.cache.live import LivePath, RestoreFailedError
from core.cache.node import Node
from core.cache.policy import plan
from core.cache.slab import KVSlab
from core.cache.specs import LayerSpec, RecurrentSpec
from core.cache.state import Checkpoint, RecurrentState
from core.cache.tree import PrefixTree

# The embeddings of about 60 pictures of 1,024 tokens at a hidden size of 2,048 in bfloat16.
EMBEDDING_BYTES = 256 * 2**20
# A model without states keeps this many contexts' worth of tokens beside the live path.
FREE_CONTEXTS = 4


@dataclass(frozen=True, slots=True)
class Restored:
    """Where a request goes on from: everything needed to prefill the runs after `num_runs`.

    `last_hidden` is set when the place was reached by a checkpoint; a prompt that ends there needs
    no forward at all. `failed` says that a better place was tried and could not be restored.
    """

    node: Node
    num_runs: int
    state: RecurrentState
    last_hidden: Tensor | None
    tier: Literal["slab", "memory"] | None
    failed: bool
    keys: tuple[bytes, ...]

    @property
    def cut(self) -> Cut:
        return self.node.end


class ContextCache:
    """Everything remembered for one model; `context_length` bounds the slab in tokens."""

    def __init__(
        self,
        specs: Sequence[LayerSpec],
        device: torch.device,
        context_length: int,
        fingerprint: bytes,
    ) -> None:
        self._specs = tuple(specs)
        self._device = device
        self._context_length = context_length
        self._fingerprint = fingerprint
        self.recurrent = any(isinstance(spec, RecurrentSpec) for spec in specs)
        self.slab = KVSlab(specs, device, context_length)
        self.embeddings = EmbeddingCache(EMBEDDING_BYTES)
        self.clear()

    def clear(self) -> None:
        """Forget every prefix and every key; the slab keeps its room."""
        self.tree = PrefixTree(
            self._fingerprint, self.recurrent, FREE_CONTEXTS * self._context_length
        )
        self._live = LivePath(self.slab, self.tree)
        self.embeddings.clear()

    def forget(self, chat: str | None) -> None:
        """Drop what only `chat` used; None drops everything."""
        if chat is None:
            self.clear()

    def write_some(self) -> bool:
        """Write one segment to disk; False when nothing is left to write."""
        return False

    def apply(self, settings: CacheSettings) -> None:
        """Bound the states by the count from now on; the interval acts through `planned`."""
        self.tree.set_count(settings.count, self._live.newest_message_end)

    def planned(self, prompt: Prompt, settings: CacheSettings) -> frozenset[Run]:
        """The runs whose ends get a checkpoint: the plan's, and the prompt's own end."""
        if not self.recurrent and settings.count == 0:
            return frozenset({prompt.runs[-1]})
        return frozenset(plan(prompt, settings.interval)) | {prompt.runs[-1]}

    def restore(self, prompt: Prompt) -> Restored:
        """Bring back the deepest place of `prompt`; one that fails is dropped and passed."""
        keys = self.tree.keys(prompt)
        failed = False
        while True:
            node = self.tree.restorable(self.tree.match(keys), len(keys))
            try:
                copied = self._live.leave_for(node)
            except RestoreFailedError:
                failed = True
                continue
            if node is None:
                return self._origin(keys, failed)
            state = node.checkpoint.state if node.checkpoint is not None else RecurrentState({})
            if not state.matches(self._specs):
                self.tree.drop_checkpoint(node)
                failed = True
                continue
            self.tree.touch(node)
            return Restored(
                node=node,
                num_runs=len(node.path()),
                state=state,
                last_hidden=node.checkpoint.last_hidden if node.checkpoint is not None else None,
                tier="memory" if copied else "slab",
                failed=failed,
                keys=tuple(keys),
            )

    def add(self, parent: Node, run: Run) -> Node:
        """A run was prefilled behind `parent`, the live path's end; its KV is in the slab."""
        node = self.tree.add(parent, run)
        self._live.append(node)
        return node

    def keep(self, node: Node, state: RecurrentState, last_hidden: Tensor) -> bool:
        """Hold a checkpoint at `node` if the count leaves room for it."""
        return self.tree.keep(node, Checkpoint(state, last_hidden), self._live.newest_message_end)

    def checkpoints_on(self, keys: Sequence[bytes]) -> list[tuple[Cut, int]]:
        """Place and bytes of each state held along a prompt."""
        return [
            (node.end, node.checkpoint.num_bytes)
            for node in self.tree.match(keys)
            if node.checkpoint is not None and self.recurrent
        ]

    def num_states(self) -> int:
        return len(self.tree.checkpoints()) if self.recurrent else 0

    def state_bytes(self) -> int:
        """Bytes of all recurrent states held."""
        return sum(node.checkpoint.num_bytes for node in self.tree if node.checkpoint is not None)

    def kv_bytes(self) -> int:
        """Bytes of the slab and of the runs kept outside it."""
        return self.slab.num_bytes + sum(
            node.rows.num_bytes for node in self.tree if node.rows is not None
        )

    def check_integrity(self) -> None:
        """Assert that tree and live path agree; for tests."""
        self.tree.check_integrity()
        at = ORIGIN
        for node in self._live.nodes:
            assert node.run is not None and node.run.start == at
            at = node.end
        live = set(map(id, self._live.nodes))
        assert live >= {id(node) for node in self.tree if node.in_slab}

    def _origin(self, keys: Sequence[bytes], failed: bool) -> Restored:
        zeros = RecurrentState.zeros(self._specs, self._device)
        return Restored(self.tree.root, 0, zeros, None, None, failed, tuple(keys))
