"""Long and joined runs: row-wise layers in blocks of rows, recurrent layers run by run, so a run's
result depends on no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from core.layers.memory import LayerMemory, LayerState
from core.weights.plan import Weights
from kernels.ops import Ops

# A picture has up to 16,384 tokens; an MLP of width 17,408 over all of them at once would take
# 1.1 GB for each temporary in bfloat16. The size is fixed: equal runs make equal calls.
ROWS_PER_BLOCK = 1024
# Of temporaries. No published model reaches it: an MLP of width 53,248 takes 327 MB in bfloat16.
BYTES_PER_BLOCK = 512 * 2**20

Runs = Iterable[tuple[int, LayerState]]
"""Length of each run and the state before it. Iterating asks for a state only after the previous
run has been computed."""


def in_row_blocks(layer: Callable[[Tensor], Tensor], inputs: Tensor, numbers: int) -> Tensor:
    """`layer` over `inputs` [n, width], whose rows must be independent. `numbers` of temporaries
    are needed for a row, in the inputs' type."""
    most = BYTES_PER_BLOCK // max(numbers * inputs.element_size(), 1)
    rows = max(min(ROWS_PER_BLOCK, most), 1)
    if inputs.shape[0] <= rows:
        return layer(inputs)
    return torch.cat([layer(block) for block in torch.split(inputs, rows)])


def in_runs(
    layer_of: Callable[[Tensor, Runs], Tensor], hidden: Tensor, memory: LayerMemory, slot: int
) -> Tensor:
    """`layer_of` over `hidden` [n, width] and its runs; a long run alone goes in blocks."""
    if len(memory.runs) > 1:
        states = (memory.state(slot, run) for run in range(len(memory.runs)))
        return layer_of(hidden, zip(memory.runs, states, strict=True))
    state = memory.state(slot)
    blocks = torch.split(hidden, ROWS_PER_BLOCK)
    outputs = [layer_of(block, [(block.shape[0], state)]) for block in blocks]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def run_by_run(
    compute: Callable[..., None], like: Tensor, columns: tuple[Tensor, ...], runs: Runs
) -> Tensor:
    """Call `compute(result, *columns, *state)` with the rows of each run; return all results, of
    the shape and type of `like`."""
    result, start = torch.empty_like(like), 0
    for num_rows, state in runs:
        rows = slice(start, start + num_rows)
        compute(result[rows], *(each[rows] for each in columns), *state)
        start += num_rows
    return result


def convolution_taps(weights: Weights, channels: int, taps: int) -> Tensor:
    weight = weights.tensor("weight", (channels, 1, taps), torch.float32)
    return weight.squeeze(1).T.contiguous()


def convolved_parts(
    ops: Ops,
    columns: Tensor,
    tail: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Iterator[tuple[slice, Tensor]]:
    """The rows of each part of a run, and its `columns` after the causal convolution. `tail` holds
    the K - 1 rows before the run, then its last rows."""
    before, rows = tail.shape[0], tail
    rows_per_part = ops.rows_per_part or columns.shape[0]
    for start in range(0, columns.shape[0], rows_per_part):
        part = slice(start, start + rows_per_part)
        inside = columns[max(0, start - before) : part.stop]
        rows = inside if start else torch.cat((tail, inside))
        yield part, ops.convolve(rows, weight, bias, dtype)
    tail.copy_(rows[rows.shape[0] - before :])
