"""The type of a set of operations, and plain torch's set. `dispatch` chooses one for a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kernels.attention import fused
from kernels.causal_conv.reference import causal_conv_step, convolve, short_conv
from kernels.common.scans import DeltaRule, StateSpace
from kernels.experts.reference import LoopedExperts, MakeBank, route, weighted_sum
from kernels.gated_delta.reference import (
    chunked_gated_delta_,
    delta_gates,
    recurrent_gated_delta_step,
)
from kernels.mamba1.reference import mamba1_run_, mamba1_step
from kernels.mamba2.reference import mamba2_run_, mamba2_step, time_steps
from kernels.pointwise.reference import add, geglu, open_gate, squared_relu, swiglu
from kernels.rms_norm.reference import (
    add_rms_norm,
    gated_group_norm,
    gated_rms_norm,
    rms_norm,
)
from kernels.rope.reference import norm_rotate, rotate

Attend = Callable[[Tensor, Tensor, Tensor, float, int | None], Tensor]
"""Like `kernels.attention.reference.causal_attention`."""


Route = Callable[..., tuple[Tensor, Tensor]]
"""Like `kernels.experts.reference.route`."""


@dataclass(frozen=True, slots=True)
class Ops:
    """The operations of layers, except matrix products; each as the function of its name in a
    `reference`.

    Bits depend on a call's inputs and their shapes alone. Recurrent layers process prompts
    `rows_per_part` rows at a time, or at once if None.
    """

    rms_norm: Callable[[Tensor, Tensor, float], Tensor]
    add_rms_norm: Callable[..., tuple[Tensor, Tensor]]
    gated_rms_norm: Callable[[Tensor, Tensor, Tensor, float, torch.dtype], Tensor]
    convolve: Callable[..., Tensor]
    causal_conv_step: Callable[..., Tensor]
    short_conv: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
    chunked_gated_delta_: DeltaRule
    recurrent_gated_delta_step: DeltaRule
    delta_gates: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    time_steps: Callable[[Tensor, Tensor, float, float, float], Tensor]
    mamba1_run_: StateSpace
    mamba1_step: StateSpace
    mamba2_run_: StateSpace
    mamba2_step: StateSpace
    gated_group_norm: Callable[[Tensor, Tensor | None, Tensor, float, float, bool], Tensor]
    rotate: Callable[[Tensor, Tensor, Tensor], Tensor]
    norm_rotate: Callable[[Tensor, Tensor, float, Tensor, Tensor], Tensor]
    causal_attention: Attend
    step_attention: Attend
    run_attention: Attend
    full_attention: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    swiglu: Callable[..., Tensor]
    geglu: Callable[[Tensor, Tensor], Tensor]
    squared_relu: Callable[[Tensor], Tensor]
    open_gate: Callable[[Tensor, Tensor], Tensor]
    add: Callable[..., Tensor]
    route: Route
    experts: MakeBank
    weighted_sum: Callable[[Tensor | None, Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
    rows_per_part: int | None


def composed(ops: Ops) -> Ops:
    """`ops`, with each fused operation replaced by its two parts."""

    def add_rms_norm(
        inputs: Tensor, residual: Tensor, scale: Tensor, epsilon: float, multiplier: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        total = ops.add(residual, inputs, multiplier)
        return ops.rms_norm(total, scale, epsilon), total

    def norm_rotate(
        heads: Tensor, scale: Tensor, epsilon: float, cosine: Tensor, sine: Tensor
    ) -> Tensor:
        return ops.rotate(ops.rms_norm(heads, scale, epsilon), cosine, sine)

    return replace(ops, add_rms_norm=add_rms_norm, norm_rotate=norm_rotate)


PLAIN_OPS = Ops(
    rms_norm=rms_norm,
    add_rms_norm=add_rms_norm,
    gated_rms_norm=gated_rms_norm,
    convolve=convolve,
    causal_conv_step=causal_conv_step,
    short_conv=short_conv,
    chunked_gated_delta_=chunked_gated_delta_,
    recurrent_gated_delta_step=recurrent_gated_delta_step,
    delta_gates=delta_gates,
    time_steps=time_steps,
    mamba1_run_=mamba1_run_,
    mamba1_step=mamba1_step,
    mamba2_run_=mamba2_run_,
    mamba2_step=mamba2_step,
    gated_group_norm=gated_group_norm,
    rotate=rotate,
    norm_rotate=norm_rotate,
    causal_attention=fused.causal_attention,
    step_attention=fused.step_attention,
    run_attention=fused.run_attention,
    full_attention=fused.full_attention,
    swiglu=swiglu,
    geglu=geglu,
    squared_relu=squared_relu,
    open_gate=open_gate,
    add=add,
    route=route,
    experts=LoopedExperts,
    weighted_sum=weighted_sum,
    # A dozen float32 temporaries of 64 rows stay in a processor's cache, those of a whole run go
    # out to memory and back.
    rows_per_part=64,
)
