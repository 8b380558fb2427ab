"""The type of a set of operations, and plain torch's set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from kernels.attention import fused
from kernels.causal_conv import reference as conv
from kernels.common.shapes import DeltaRule, StateSpace
from kernels.experts import reference as sparse
from kernels.gated_delta import reference as delta
from kernels.mamba1 import reference as mamba1
from kernels.mamba2 import reference as mamba2
from kernels.pointwise import reference as pointwise
from kernels.rms_norm import reference as norms
from kernels.rope import reference as rope

Attend = Callable[..., Tensor]
"""Like `kernels.attention.reference.causal_attention`."""

Route = Callable[..., tuple[Tensor, Tensor]]
"""Like `kernels.experts.reference.route`."""


@dataclass(frozen=True, slots=True)
class Ops:
    """The operations of layers, except matrix products; by default plain torch's.

    Bits depend on a call's inputs and their shapes alone. Recurrent layers process prompts
    `rows_per_part` rows at a time, or at once if None.
    """

    rms_norm: Callable[[Tensor, Tensor, float], Tensor] = norms.rms_norm
    add_rms_norm: Callable[..., tuple[Tensor, Tensor]] = norms.add_rms_norm
    gated_rms_norm: Callable[..., Tensor] = norms.gated_rms_norm
    convolve: Callable[..., Tensor] = conv.convolve
    causal_conv_step: Callable[..., Tensor] = conv.causal_conv_step
    short_conv: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor] = conv.short_conv
    chunked_gated_delta_: DeltaRule = delta.chunked_gated_delta_
    recurrent_gated_delta_step: DeltaRule = delta.recurrent_gated_delta_step
    delta_gates: Callable[..., tuple[Tensor, Tensor]] = delta.delta_gates
    time_steps: Callable[[Tensor, Tensor, float, float, float], Tensor] = mamba2.time_steps
    mamba1_run_: StateSpace = mamba1.mamba1_run_
    mamba1_step: StateSpace = mamba1.mamba1_step
    mamba2_run_: StateSpace = mamba2.mamba2_run_
    mamba2_step: StateSpace = mamba2.mamba2_step
    gated_group_norm: Callable[[Tensor, Tensor | None, Tensor, float, float, bool], Tensor] = (
        norms.gated_group_norm
    )
    rotate: Callable[[Tensor, Tensor, Tensor], Tensor] = rope.rotate
    norm_rotate: Callable[[Tensor, Tensor, float, Tensor, Tensor], Tensor] = rope.norm_rotate
    causal_attention: Attend = fused.causal_attention
    step_attention: Attend = fused.step_attention
    run_attention: Attend = fused.run_attention
    full_attention: Callable[[Tensor, Tensor, Tensor, float], Tensor] = fused.full_attention
    swiglu: Callable[..., Tensor] = pointwise.swiglu
    geglu: Callable[[Tensor, Tensor], Tensor] = pointwise.geglu
    clamped_swiglu: Callable[[Tensor, Tensor, float, float], Tensor] = pointwise.clamped_swiglu
    squared_relu: Callable[[Tensor], Tensor] = pointwise.squared_relu
    gelu: Callable[[Tensor], Tensor] = pointwise.gelu
    open_gate: Callable[[Tensor, Tensor], Tensor] = pointwise.open_gate
    add: Callable[..., Tensor] = pointwise.add
    route: Route = sparse.route
    experts: sparse.MakeBank = sparse.LoopedExperts
    weighted_sum: Callable[..., Tensor] = sparse.weighted_sum
    # A dozen float32 temporaries of 64 rows stay in a processor's cache, those of a whole run go
    # out to memory and back.
    rows_per_part: int | None = 64


PLAIN_OPS = Ops()


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
