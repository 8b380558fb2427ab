"""What an operation is tried with: random numbers of a model's sizes, and how far it may stray.

The bounds count float32 ULP. Both sides add up, so both err, by half an ULP for each
addition at most; a GPU's roots, exponentials and sigmoids give away a few more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from kernels.common.shapes import (
    AttentionShape,
    DeltaShape,
    ExpertShape,
    FullAttentionShape,
    GateShape,
    GroupNormShape,
    Mamba1Shape,
    Mamba2Shape,
    NormShape,
    OpenGateShape,
    OpShape,
    RotationShape,
    ShortConvShape,
    SquaredReluShape,
    SumShape,
)
from kernels.self_test.attention import attention, full_attention
from kernels.self_test.case import Case, Numbers
from kernels.self_test.experts import experts, routing, weighted_sum
from kernels.self_test.recurrent import recurrent
from kernels.self_test.rows import (
    addition,
    gate,
    group_norm,
    norm,
    open_gate,
    rotation,
    squared_relu,
)


def cases(shapes: Iterable[OpShape], device: torch.device, dtype: torch.dtype) -> Iterator[Case]:
    """Calls like those of a model in `dtype` with these `shapes`, each on numbers of its own."""
    numbers = Numbers(device, dtype)
    for shape in sorted(shapes, key=repr):
        match shape:
            case NormShape():
                yield from norm(shape, numbers)
            case GateShape():
                yield from gate(shape, numbers)
            case SquaredReluShape():
                yield from squared_relu(shape, numbers)
            case OpenGateShape():
                yield from open_gate(shape, numbers)
            case SumShape():
                yield from addition(shape, numbers)
            case RotationShape():
                yield from rotation(shape, numbers)
            case AttentionShape():
                yield from attention(shape, numbers)
            case FullAttentionShape():
                yield from full_attention(shape, numbers)
            case DeltaShape() | Mamba1Shape() | Mamba2Shape() | ShortConvShape():
                yield from recurrent(shape, numbers)
            case GroupNormShape():
                yield from group_norm(shape, numbers)
            case ExpertShape():
                yield from routing(shape, numbers)
                yield from experts(shape, numbers)
                yield from weighted_sum(shape, numbers)
