"""Packing known numbers by the formats' definitions, number by number, with nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.weights.published.quantised import Float8Blocks, Quantised

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # number i of a word is output AWQ_ORDER[i] of its eight


@dataclass(frozen=True)
class Known:
    """A layer: numbers and zero points from 0 to 15, [out, in] and [out, groups]; scales."""

    numbers: Tensor
    zeros: Tensor
    scales: Tensor
    groups: Tensor  # of every input

    @property
    def weights(self) -> Tensor:
        """[out, in] float32; exact, as every product has fewer than 24 bits."""
        zeros, scales = self.zeros.double(), self.scales.double()
        return ((self.numbers - zeros[:, self.groups]) * scales[:, self.groups]).float()


def known(
    outputs: int,
    inputs: int,
    group_size: int,
    *,
    symmetric: bool = False,
    shuffled: bool = False,
    lowest_zero: int = 0,
    dtype: torch.dtype = torch.float16,
    seed: int = 0,
) -> Known:
    """Random numbers; `shuffled` gives the inputs to the groups in any order."""
    generator = torch.Generator().manual_seed(seed)
    size = inputs if group_size == -1 else group_size
    groups = torch.arange(inputs) // size
    if shuffled:
        groups = groups[torch.randperm(inputs, generator=generator)]
    count = -(-inputs // size)
    numbers = torch.randint(0, 16, (outputs, inputs), generator=generator)
    zeros = torch.randint(lowest_zero, 16, (outputs, count), generator=generator)
    if symmetric:
        zeros = torch.full_like(zeros, 8)
    spread = inputs**-0.5 / 8
    scales = (spread * (0.5 + torch.rand(outputs, count, generator=generator))).to(dtype)
    return Known(numbers, zeros, scales, groups)


def pack(numbers: Tensor, order: tuple[int, ...] = tuple(range(8))) -> Tensor:
    """[rows, columns] 0 to 15 -> int32 [rows, ceil(columns / 8)], unused numbers 5.

    Number i of a word, in bits 4i to 4i + 3, is column order[i] of its eight.
    """
    rows, columns = numbers.shape
    words = torch.zeros(rows, -(-columns // 8), dtype=torch.int64)
    for word in range(words.shape[1]):
        for place in range(8):
            column = 8 * word + order[place]
            number = numbers[:, column] if column < columns else torch.tensor(5)
            words[:, word] += number * 16**place
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def gptq(layer: Known, *, version: int = 1) -> dict[str, Tensor]:
    """Inputs are packed, so the numbers are laid [in, out] and packed along the first axis."""
    stored_zeros = layer.zeros - (1 if version == 1 else 0)
    assert stored_zeros.min() >= 0
    return {
        "qweight": pack(layer.numbers).T.contiguous(),
        "qzeros": pack(stored_zeros.T),
        "scales": layer.scales.T.contiguous(),
        "g_idx": layer.groups.int(),
    }


def awq(layer: Known) -> dict[str, Tensor]:
    return {
        "qweight": pack(layer.numbers.T, AWQ_ORDER),
        "qzeros": pack(layer.zeros.T, AWQ_ORDER),
        "scales": layer.scales.T.contiguous(),
    }


def compressed(
    layer: Known, *, symmetric: bool = False, reordered: bool = False
) -> dict[str, Tensor]:
    """Stored numbers are signed ones plus 8, and so are zero points: ours, both of them."""
    parts = {
        "weight_packed": pack(layer.numbers),
        "weight_scale": layer.scales.clone(),
        "weight_shape": torch.tensor(layer.numbers.shape),
    }
    if not symmetric:
        parts["weight_zero_point"] = pack(layer.zeros.T).T.contiguous()
    if reordered:
        parts["weight_g_idx"] = layer.groups.int()
    return parts


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def fp4(outputs: int, inputs: int, group_size: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Bytes of random 4-bit floats, codes of scales, and the floats [out, in]."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 16, (outputs, inputs), generator=generator)
    scales = torch.randint(52, 64, (outputs, inputs // group_size), generator=generator)
    octets = codes[:, ::2] + 16 * codes[:, 1::2]
    return octets.to(torch.uint8), scales.to(torch.uint8), E2M1[codes]


def nvfp4(outputs: int, inputs: int, *, whole: str, seed: int) -> tuple[dict[str, Tensor], Tensor]:
    """A layer's parts, and its weights [out, in] in float32."""
    octets, codes, numbers = fp4(outputs, inputs, 16, seed)
    divides, scales = whole == "weight_global_scale", codes.view(torch.float8_e4m3fn)
    number = torch.tensor(inputs**0.5 * 8 if divides else inputs**-0.5 / 8)
    factors = scales.float() / number if divides else scales.float() * number
    parts = {
        "weight_packed" if divides else "weight": octets,
        "weight_scale": scales,
        whole: number.reshape(1) if divides else number,
    }
    return parts, numbers * factors.repeat_interleave(16, dim=1)


def mxfp4(outputs: int, inputs: int, seed: int) -> tuple[dict[str, Tensor], Tensor]:
    octets, codes, numbers = fp4(outputs, inputs, 32, seed)
    exponents = codes % 3 + 124 - inputs.bit_length() // 2
    factors = 2.0 ** (exponents.float() - 127)
    parts = {"weight_packed": octets, "weight_scale": exponents}
    return parts, numbers * factors.repeat_interleave(32, dim=1)


def fp8(outputs: int, inputs: int, *, dtype: torch.dtype, seed: int = 0) -> dict[str, Tensor]:
    """Random float8 numbers, and a scale for every 128 x 128."""
    generator = torch.Generator().manual_seed(seed)
    numbers = 60 * torch.randn(outputs, inputs, generator=generator)
    blocks = (-(-outputs // 128), -(-inputs // 128))
    scales = (0.5 + torch.rand(blocks, generator=generator)) * inputs**-0.5 / 60
    return {
        "weight": numbers.to(torch.float8_e4m3fn),
        "weight_scale_inv": scales.to(dtype),
    }


def dequantised(matrix: Quantised | Float8Blocks, dtype: torch.dtype = torch.float32) -> Tensor:
    target = torch.empty(matrix.shape, dtype=dtype)
    matrix.write_to(target)
    return target


def fp8_weights(parts: dict[str, Tensor]) -> Tensor:
    """[out, in] float32, element by element's block."""
    numbers, scales = parts["weight"].float(), parts["weight_scale_inv"].float()
    rows = torch.arange(numbers.shape[0]) // 128
    columns = torch.arange(numbers.shape[1]) // 128
    return numbers * scales[rows][:, columns]
