"""The operations of a processor that its compiled kernels do, and torch where none fits.

Which of the two runs is decided by shapes and types alone, so equal calls always take the same way.
What a kernel takes is said beside it, in `native.py` of its folder.
"""

from __future__ import annotations

from dataclasses import replace

from kernels.attention.native import NativeAttention
from kernels.causal_conv.native import NativeConvolution
from kernels.experts.native import NativeRouting
from kernels.gated_delta.native import NativeDeltaRule
from kernels.mamba1.native import NativeScan
from kernels.mamba2.native import NativeStateSpace
from kernels.native.library import Library
from kernels.ops import PLAIN_OPS, Ops, composed
from kernels.pointwise.native import NativePointwise
from kernels.rms_norm.native import NativeNorms
from kernels.rope.native import NativeRotation
from kernels.short_conv.native import NativeShortConv


def native_ops(library: Library, widened: bool = False) -> Ops:
    """The set that calls `library`. Every result is a new tensor, whatever is said elsewhere.

    `widened`: attention of many tokens goes without the processor's bfloat16 instructions.
    """
    norms = NativeNorms(library)
    convolution = NativeConvolution(library)
    short = NativeShortConv(library)
    delta = NativeDeltaRule(library)
    mamba1 = NativeScan(library)
    mamba2 = NativeStateSpace(library)
    rotation = NativeRotation(library)
    attention = NativeAttention(library, widened)
    pointwise = NativePointwise(library)
    experts = NativeRouting(library, widened)
    single = replace(
        PLAIN_OPS,
        rms_norm=norms.rms_norm,
        gated_rms_norm=norms.gated_rms_norm,
        gated_group_norm=norms.gated_group_norm,
        convolve=convolution.convolve,
        causal_conv_step=convolution.causal_conv_step,
        short_conv=short.short_conv,
        recurrent_gated_delta_step=delta.recurrent_gated_delta_step,
        chunked_gated_delta_=delta.chunked_gated_delta_,
        delta_gates=delta.delta_gates,
        mamba1_step=mamba1.mamba1_step,
        mamba1_run_=mamba1.mamba1_run_,
        time_steps=mamba2.time_steps,
        mamba2_step=mamba2.mamba2_step,
        mamba2_run_=mamba2.mamba2_run_,
        rotate=rotation.rotate,
        causal_attention=attention.causal_attention,
        step_attention=attention.step_attention,
        run_attention=attention.run_attention,
        full_attention=attention.full_attention,
        swiglu=pointwise.swiglu,
        geglu=pointwise.geglu,
        squared_relu=pointwise.squared_relu,
        open_gate=pointwise.open_gate,
        add=pointwise.add,
        route=experts.route,
        experts=experts.experts,
        weighted_sum=experts.weighted_sum,
    )
    return composed(single)
