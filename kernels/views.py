"""What a kernel may ask of a view: it steps through memory itself and would not notice."""

from __future__ import annotations

import ctypes
from typing import Any

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
    tensor = tensor.cpu().contiguous()
    # Tensors offer no buffer, and numpy, which could make one, is not among what we install.
    array = (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
    array.__dict__["tensor"] = tensor  # the memory lives as long as what looks at it
    return memoryview(array).cast("B")
