"""Eight 4-bit numbers in a 32-bit word, lowest bits first: how all int4 formats pack theirs."""

from __future__ import annotations

import torch
from torch import Tensor

PER_WORD = 8
# Stored 0 to 15; taken off, they are what a signed 4-bit number holds.
OFFSET = 8


def unpack(words: Tensor) -> Tensor:
    """int32 [rows, columns] -> uint8 [rows, columns, 8]; number i lies in bits 4i to 4i + 3."""
    rows, columns = words.shape
    # Little-endian, as safetensors is: byte b holds number 2b in its low half, 2b + 1 above.
    octets = words.reshape(-1).view(torch.uint8)
    pairs = torch.empty((octets.shape[0], 2), dtype=torch.uint8, device=words.device)
    torch.bitwise_and(octets, 15, out=pairs[..., 0])
    torch.bitwise_right_shift(octets, 4, out=pairs[..., 1])
    return pairs.view(rows, columns, PER_WORD)


def signed(numbers: Tensor) -> Tensor:
    """uint8 0 to 15 -> int8 -8 to 7, in place."""
    return numbers.view(torch.int8).sub_(OFFSET)
