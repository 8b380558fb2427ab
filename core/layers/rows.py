"""Running a row-wise layer over a long run in blocks, so that its temporaries stay small."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# A picture has up to 16,384 tokens; an MLP of width 17,408 over all of them at once would take
# 1.1 GB for each temporary in bfloat16. The size is fixed: equal runs give equal calls.
ROWS_PER_BLOCK = 1024
# Of temporaries. No published model reaches it: an MLP of width 53,248 takes 327 MB in bfloat16.
BYTES_PER_BLOCK = 512 * 2**20


def in_row_blocks(layer: Callable[[Tensor], Tensor], inputs: Tensor, numbers: int = 0) -> Tensor:
    """`layer` over `inputs` [n, width], whose rows must not depend on each other.

    `numbers` are those of a row's temporaries, in the inputs' type.
    """
    most = BYTES_PER_BLOCK // max(numbers * inputs.element_size(), 1)
    rows = max(min(ROWS_PER_BLOCK, most), 1)
    if inputs.shape[0] <= rows:
        return layer(inputs)
    return torch.cat([layer(block) for block in torch.split(inputs, rows)])
