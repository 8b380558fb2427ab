"""Running a row-wise layer over a long run in blocks, so that its temporaries stay small."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# A picture has up to 16,384 tokens; an MLP of width 17,408 over all of them at once would take
# 1.1 GB for each temporary in bfloat16. The size is fixed: equal runs give equal calls.
ROWS_PER_BLOCK = 1024


def in_row_blocks(layer: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """`layer` over `inputs` [n, width], whose rows must not depend on each other."""
    if inputs.shape[0] <= ROWS_PER_BLOCK:
        return layer(inputs)
    return torch.cat([layer(block) for block in torch.split(inputs, ROWS_PER_BLOCK)])
