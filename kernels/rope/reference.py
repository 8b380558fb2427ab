"""Rotary position embedding in plain torch, half-split layout (Su et al., arXiv:2104.09864)."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.rms_norm.reference import rms_norm


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate the pairs (i, i + r) of `heads` [n, num_heads, head_dim] by their angles.

    `cosine` and `sine` are [n, r] in the type of `heads` or float32, in which the rotation is then
    computed; dimensions from 2 r on stay as they are.
    """
    if cosine.dtype != heads.dtype:
        return rotate(heads.to(cosine.dtype), cosine, sine).to(heads.dtype)
    half = cosine.shape[-1]
    cosine, sine = cosine.unsqueeze(1), sine.unsqueeze(1)
    first, second = heads[..., :half], heads[..., half : 2 * half]
    # Written where they belong: the products by themselves, and then put together, would go through
    # memory twice more.
    rotated = torch.empty(heads.shape, dtype=heads.dtype, device=heads.device)
    torch.mul(first, cosine, out=rotated[..., :half]).addcmul_(second, sine, value=-1)
    torch.mul(second, cosine, out=rotated[..., half : 2 * half]).addcmul_(first, sine)
    rotated[..., 2 * half :] = heads[..., 2 * half :]
    return rotated


def norm_rotate(
    heads: Tensor, scale: Tensor, epsilon: float, cosine: Tensor, sine: Tensor
) -> Tensor:
    return rotate(rms_norm(heads, scale, epsilon), cosine, sine)
