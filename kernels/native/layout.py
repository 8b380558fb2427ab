"""How a tensor lies in memory, as far as the compiled kernels ask."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.native.library import TYPES


def is_bfloat(tensor: Tensor) -> bool:
    """Whether its numbers are bfloat16."""
    return tensor.dtype == torch.bfloat16


def is_plain(tensor: Tensor) -> bool:
    """Whether it is float32 without gaps."""
    return tensor.dtype == torch.float32 and tensor.is_contiguous()


def in_rows(tensor: Tensor) -> bool:
    """Whether the numbers of a row lie side by side, and are of a type that kernels read."""
    return tensor.dtype in TYPES and tensor.stride(-1) == 1


def together(tensor: Tensor) -> bool:
    """Whether all numbers of a token lie side by side."""
    heads_join = tensor.dim() == 2 or tensor.shape[1] == 1 or tensor.stride(1) == tensor.shape[2]
    return tensor.stride(-1) == 1 and heads_join
