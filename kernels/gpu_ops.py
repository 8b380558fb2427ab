"""The operations of an NVIDIA GPU: Triton kernels, and torch where no kernel fits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor

from kernels.attention import fused
from kernels.attention.gpu import decode_attention
from kernels.causal_conv import gpu as causal_conv
from kernels.common.capability import interpreted
from kernels.common.shapes import DeltaRule, StateSpace
from kernels.common.trace import Capture
from kernels.experts import gpu as experts
from kernels.gated_delta import gpu as gated_delta
from kernels.gated_delta import reference as plain_delta
from kernels.graph import LENGTHS, capture_step, cuda_capture
from kernels.linear.gpu_formats import (
    GpuBlockFormat,
    GpuInt4Format,
    GpuInt8Format,
    multiplies_blocks,
    multiplies_integers,
)
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PLAIN, Integers, PlainFormat, WeightFormat, WeightFormats
from kernels.mamba1 import gpu as mamba1
from kernels.mamba1 import reference as plain_mamba1
from kernels.mamba2 import gpu as mamba2
from kernels.mamba2 import reference as plain_mamba2
from kernels.ops import Ops
from kernels.pointwise.gpu import clamped_swiglu, geglu, swiglu
from kernels.rms_norm.gpu import add_rms_norm, gated_rms_norm, rms_norm
from kernels.rope.gpu import norm_rotate, rotate

# The widest that the kernels are compiled for without a GPU: beyond, shared memory may not do.
_WIDEST_HEAD, _LARGEST_GROUP = 256, 32
_WIDEST_KEY = 128  # of the delta rule
_WIDEST_STATE = 256  # of Mamba-2
_MOST_STATES = 64  # of Mamba-1


def name() -> str:
    """Everything outside this code that can change bits."""
    return f"triton {triton.__version__}" + (", interpreted" if interpreted() else "")


def held(integers: Integers | None) -> tuple[str, WeightFormats]:
    """The formats of matrices, and their name. GPU memory is scarce, so beside an integer head the
    embedding table stays in its file."""
    if integers is None:
        return "reference", PLAIN
    if multiplies_integers(_device()):
        weight_format: WeightFormat = GpuInt8Format() if integers == "int8" else GpuInt4Format()
        return integers, WeightFormats(weight_format, PlainFormat(), rows_from_file=True)
    weight_format = Int8Format(None) if integers == "int8" else Int4Format(packed=False)
    return f"{integers} in floats", WeightFormats(weight_format, PlainFormat(), rows_from_file=True)


def with_blocks(formats: WeightFormats, dtype: torch.dtype) -> tuple[str, WeightFormats]:
    """`formats` that keep GGUF blocks where a kernel multiplies them; and their name."""
    stay = multiplies_blocks(_device())
    blocks = partial(GpuBlockFormat, dtype, stay)
    title = "blocks" if stay else "blocks dequantised on load"
    return title, replace(formats, rows_from_file=True, published=blocks)


def _device() -> torch.device:
    return torch.device("cpu" if interpreted() else "cuda")


def step_capture() -> Capture | None:
    """None in the interpreter, which has no graphs."""
    return None if interpreted() else partial(capture_step, torch.device("cuda"), cuda_capture)


def _delta(kernel: DeltaRule, plain: DeltaRule) -> DeltaRule:
    return lambda given, state: (kernel if given.keys.shape[2] <= _WIDEST_KEY else plain)(
        given, state
    )


def _space(kernel: StateSpace, plain: StateSpace, widest: int) -> StateSpace:
    return lambda given, state: (kernel if given.b.shape[-1] <= widest else plain)(given, state)


def causal_attention(queries: Tensor, keys: Tensor, values: Tensor, *limits: Any) -> Tensor:
    """More tokens than one are torch's."""
    num_queries, num_heads, head_dim = queries.shape
    group = num_heads // keys.shape[1]
    if num_queries > 1 or head_dim > _WIDEST_HEAD or group > _LARGEST_GROUP:
        return fused.causal_attention(queries, keys, values, *limits)
    return decode_attention(queries, keys, values, LENGTHS.of(keys), *limits)


GPU_OPS = Ops(
    rms_norm=rms_norm,
    add_rms_norm=add_rms_norm,
    gated_rms_norm=gated_rms_norm,
    convolve=causal_conv.convolve,
    causal_conv_step=causal_conv.causal_conv_step,
    short_conv=causal_conv.short_conv,
    chunked_gated_delta_=_delta(gated_delta.chunked_gated_delta_, plain_delta.chunked_gated_delta_),
    recurrent_gated_delta_step=_delta(
        gated_delta.recurrent_gated_delta_step, plain_delta.recurrent_gated_delta_step
    ),
    delta_gates=gated_delta.delta_gates,
    mamba1_run_=_space(mamba1.mamba1_run_, plain_mamba1.mamba1_run_, _MOST_STATES),
    mamba1_step=_space(mamba1.mamba1_run_, plain_mamba1.mamba1_step, _MOST_STATES),
    mamba2_run_=_space(mamba2.mamba2_run_, plain_mamba2.mamba2_run_, _WIDEST_STATE),
    mamba2_step=_space(mamba2.mamba2_run_, plain_mamba2.mamba2_step, _WIDEST_STATE),
    rotate=rotate,
    norm_rotate=norm_rotate,
    causal_attention=causal_attention,
    step_attention=partial(fused.each_alone, causal_attention),
    swiglu=swiglu,
    geglu=geglu,
    clamped_swiglu=clamped_swiglu,
    route=experts.route,
    experts=experts.experts,
    weighted_sum=experts.weighted_sum,
    # A kernel spreads a whole run over the GPU; parts would leave most of it idle.
    rows_per_part=None,
)
