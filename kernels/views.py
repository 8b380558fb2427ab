"""What a GPU kernel may ask of a view. It steps through memory itself and would not notice."""

from __future__ import annotations

from torch import Tensor


def dense_rows(*tensors: Tensor) -> bool:
    """Whether the numbers of each last axis follow each other; other axes may have gaps."""
    return all(each.stride(-1) == 1 or each.shape[-1] <= 1 for each in tensors)
