"""What a kernel may ask of a view: it steps through memory itself and would not notice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def dense_rows(*tensors: Tensor) -> bool:
    """Whether the numbers of each last axis follow each other; other axes may have gaps."""
    return all(each.stride(-1) == 1 or each.shape[-1] <= 1 for each in tensors)


def lies_in(found: Any, tensor: Tensor) -> bool:
    """Whether a tensor, or each of some, lies in the memory of another.

    Operations that may give views copy if the tensor does not lie as they like.
    """
    parts = (found,) if isinstance(found, Tensor) else found
    place = tensor.untyped_storage().data_ptr()
    return all(each.untyped_storage().data_ptr() == place for each in parts)


def octets(tensor: Tensor) -> memoryview:
    """A tensor's bytes; a contiguous one on the CPU is not copied, and can be written to."""
    if tensor.nbytes == 0:
        return memoryview(b"")
    return tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data
