"""A context cache without a model: rows and states are functions of the key, so any mix-up
shows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.api.params import CacheSettings
from core.api.prompt import Prompt, Run
from core.cache.context import ContextCache, Restored
from core.cache.node import Node
from core.cache.specs import FullAttentionSpec, LayerSpec, RecurrentSpec, StateTensor
from core.cache.state import RecurrentState

CPU = torch.device("cpu")
HYBRID: tuple[LayerSpec, ...] = (
    RecurrentSpec((StateTensor((4,), torch.float32),)),
    FullAttentionSpec(1, 2, torch.float32),
)
PURE: tuple[LayerSpec, ...] = (FullAttentionSpec(1, 2, torch.float32),)


def numbers(key: bytes, count: int) -> Tensor:
    """`count` numbers that belong to one key alone."""
    return torch.tensor([float(key[index % 32]) + index for index in range(count)])


@dataclass
class World:
    """Plays requests on a cache, checking what it restores against what must be there."""

    cache: ContextCache
    specs: tuple[LayerSpec, ...]

    @classmethod
    def new(cls, specs: tuple[LayerSpec, ...] = HYBRID) -> World:
        return cls(ContextCache(specs, CPU, 4096, b"\0" * 32), specs)

    def request(self, prompt: Prompt, settings: CacheSettings, stop_after: int = 10**9) -> Restored:
        """Restore, check, then 'prefill' up to `stop_after` runs; the last state is kept on a
        stop."""
        cache = self.cache
        cache.apply(settings)
        restored = cache.restore(prompt)
        self.check(prompt, restored)
        planned = cache.planned(prompt, settings)
        node = restored.node
        for index in range(restored.num_runs, len(prompt.runs)):
            if index - restored.num_runs == stop_after:
                if node.parent is not None:
                    cache.keep(node, self.state(node.key), numbers(node.key, 3))
                break
            node = self.prefill(node, prompt.runs[index], prompt.runs[index] in planned)
        self.scribble(node.end.token.value)
        cache.check_integrity()
        return restored

    def prefill(self, parent: Node, run: Run, planned: bool) -> Node:
        node = self.cache.add(parent, run)
        rows = self.rows(node.key, run.num_tokens)
        for layer, spec in enumerate(self.specs):
            if isinstance(spec, FullAttentionSpec):
                self.cache.slab.write(layer, run.start.token.value, rows, -rows)
        if planned:
            self.cache.keep(node, self.state(node.key), numbers(node.key, 3))
        return node

    def check(self, prompt: Prompt, restored: Restored) -> None:
        """Slab, state and hidden row are exactly those of the runs said to be restored."""
        if restored.num_runs == 0:
            assert all(not tensor.any() for (tensor,) in restored.state.layers.values())
            return
        assert restored.cut == prompt.runs[restored.num_runs - 1].end
        key = restored.keys[restored.num_runs - 1]
        for (tensor,) in restored.state.layers.values():
            assert torch.equal(tensor, numbers(key, 4))
        if restored.num_runs == len(prompt.runs):
            assert restored.last_hidden is not None
            assert torch.equal(restored.last_hidden, numbers(key, 3))
        layer = len(self.specs) - 1
        end = restored.cut.token.value
        all_rows = self.cache.slab.copy_out(0, end).layers[layer]
        expected = torch.cat(
            [
                self.rows(restored.keys[index], prompt.runs[index].num_tokens)
                for index in range(restored.num_runs)
            ]
        )
        assert torch.equal(all_rows[0], expected) and torch.equal(all_rows[1], -expected)

    def scribble(self, start: int) -> None:
        """What decode leaves behind the prompt must never be found again."""
        junk = torch.full((5, 1, 2), float("nan"))
        self.cache.slab.write(len(self.specs) - 1, start, junk, junk)

    def rows(self, key: bytes, count: int) -> Tensor:
        return numbers(key, 2 * count).reshape(count, 1, 2)

    def state(self, key: bytes) -> RecurrentState:
        if not self.cache.recurrent:
            return RecurrentState({})
        return RecurrentState({0: (numbers(key, 4),)})
