"""Where weights lie that stay: one behind the other, in large pages."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.common.pages import enlarge, mapped

_CHUNK = 64 * 2**20
_ALIGNED_TO = 64  # a cache line


class Arena:
    """Places tensors. A chunk goes when the last tensor in it has gone."""

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def place(self, tensor: Tensor) -> Tensor:
        """The same numbers, contiguous, in memory of the arena or, if they are many, where they
        are: a copy of the largest matrix would be the most that a load takes."""
        if tensor.nbytes == 0 or (tensor.nbytes > _CHUNK and tensor.is_contiguous()):
            enlarge(tensor)
            return tensor
        if self._used + tensor.nbytes > self._chunk.nbytes:
            self._chunk, self._used = _chunk(max(_CHUNK, tensor.nbytes)), 0
        octets = self._chunk[self._used : self._used + tensor.nbytes]
        self._used += -(-tensor.nbytes // _ALIGNED_TO) * _ALIGNED_TO
        return octets.view(tensor.dtype).view(tensor.shape).copy_(tensor)


def _chunk(num_bytes: int) -> Tensor:
    try:
        return mapped(num_bytes)
    except OSError:  # torch says what is missing as it does for any other tensor
        return torch.empty(num_bytes, dtype=torch.uint8)
