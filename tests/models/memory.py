"""The plainest LayerMemory: keys and values concatenated, states in a list."""

from __future__ import annotations

import torch
from torch import Tensor

from core.layers.memory import (
    Advance,
    FullAttentionSpec,
    LayerMemory,
    LayerSpec,
    LayerState,
    RecurrentSpec,
)

CPU = torch.device("cpu")


class ConcatenatingMemory(LayerMemory):
    """Starts empty: no rows, all states zero. Counts how often it is asked about a cancel."""

    def __init__(self, specs: tuple[LayerSpec, ...], device: torch.device = CPU) -> None:
        super().__init__((1,), lambda: None, is_step=False)  # one run, however long
        self.rows: dict[int, tuple[Tensor, ...]] = {}
        self.states: dict[int, LayerState] = {}
        self.num_checks = 0
        for layer, spec in enumerate(specs):
            if isinstance(spec, FullAttentionSpec):
                shape = (0, spec.num_kv_heads, spec.head_dim)
                empty = torch.empty(shape, dtype=spec.dtype, device=device)
                self.rows[layer] = (empty,) * spec.num_rows
            elif isinstance(spec, RecurrentSpec):
                self.states[layer] = tuple(
                    torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)
                    for tensor in spec.tensors
                )

    def extend_kv(self, layer: int, *new: Tensor) -> tuple[Tensor, ...]:
        pairs = zip(self.rows[layer], new, strict=True)
        self.rows[layer] = tuple(map(torch.cat, pairs))
        return self.rows[layer]

    def state(self, layer: int, run: int = 0) -> LayerState:
        return self.states[layer]

    def advance(self, layer: int, advance: Advance) -> Tensor:
        return advance(self.states[layer], len(self.runs))

    def check_cancelled(self) -> None:
        self.num_checks += 1
