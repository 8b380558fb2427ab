"""What recurrent layers do alike: several runs in a forward, long ones in blocks, those in parts.

A run's tail and state are handed from part to part and from block to block, so that what a layer
computes of a run depends on no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from core.layers.memory import LayerMemory, LayerState
from core.layers.rows import ROWS_PER_BLOCK
from kernels.ops import Ops

Runs = Iterable[tuple[int, LayerState]]
"""The rows of each run and the state before it, which is asked for when the run before has moved
its own on."""


def in_runs(
    layer_of: Callable[[Tensor, Runs], Tensor], hidden: Tensor, memory: LayerMemory, layer: int
) -> Tensor:
    """`layer_of` over `hidden` [n, width] and its runs; one that is long goes in blocks."""
    if len(memory.runs) > 1:
        states = (memory.state(layer, run) for run in range(len(memory.runs)))
        return layer_of(hidden, zip(memory.runs, states, strict=True))
    state = memory.state(layer)
    blocks = torch.split(hidden, ROWS_PER_BLOCK)
    outputs = [layer_of(block, [(block.shape[0], state)]) for block in blocks]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def convolved_parts(
    ops: Ops,
    columns: Tensor,
    tail: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Iterator[tuple[slice, Tensor]]:
    """The rows of each part of a run, and its `columns` after the causal convolution as `dtype`.

    Once all parts are taken `tail`, the K - 1 rows before the run, has become its last.
    """
    before, rows = tail.shape[0], tail
    rows_per_part = ops.rows_per_part or columns.shape[0]
    for start in range(0, columns.shape[0], rows_per_part):
        part = slice(start, start + rows_per_part)
        inside = columns[max(0, start - before) : part.stop]
        rows = inside if start else torch.cat((tail, inside))
        yield part, ops.convolve(rows, weight, bias, dtype)
    tail.copy_(rows[rows.shape[0] - before :])
