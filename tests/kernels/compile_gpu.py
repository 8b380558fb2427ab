"""Compile every GPU kernel for a GPU that is not there, and print what came out, a line for each.

`python -m tests.kernels.compile_gpu 90` launches each op at the shapes of a released model on
tensors in ordinary memory; in place of a launch, Triton compiles down to the machine code of
compute capability 9.0. What the interpreter lets pass and a compiler does not, shows here.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import Tensor

import kernels.attention.gpu as attention
import kernels.causal_conv.gpu as causal_conv
import kernels.experts.gpu as experts
import kernels.gated_delta.gpu as gated_delta
import kernels.linear.gpu as linear
import kernels.mamba1.gpu as mamba1
import kernels.mamba2.gpu as mamba2
import kernels.rms_norm.gpu as rms_norm
import kernels.rope.gpu as rope
from kernels.common.scans import DeltaInputs, SpaceInputs
from kernels.common.shapes import Routing
from kernels.experts.reference import gated
from kernels.linear.gpu_formats import GpuInt4Format, GpuInt8Format
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PlainFormat
from kernels.pointwise.reference import swiglu

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, HALF = 2560, 16, 4, 256, 32
KEY_HEADS, VALUE_HEADS, DIM = 16, 32, 128
CONV_WIDTH = (2 * KEY_HEADS + VALUE_HEADS) * DIM
TOKENS = 65


def main(capability: int) -> None:
    """Make a launch a compilation, then launch everything."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class Absent:
        """The three questions that are asked before a kernel is compiled."""

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", capability, 32)

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int) -> int:
            return 0

    driver.set_active(Absent())
    launch = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = launch(self, *args, grid=grid, warmup=True, **options)
        line = {
            "kernel": self.fn.__name__,
            "shared": kernel.metadata.shared,
            "bytes": len(kernel.asm["cubin"]),
            "tf32": "tf32" in kernel.asm["ptx"],
        }
        print(json.dumps(line), flush=True)
        return kernel

    JITFunction.run = compile_only
    launch_all()


def launch_all() -> None:
    """Every public function; in bfloat16, as a model runs on a GPU."""
    _norms()
    _convolution()
    _rotation()
    _attention()
    _delta_rule()
    _scan()
    _state_space()
    _linear()
    _experts()


def _rows(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def _norms() -> None:
    rows, scale = _rows(TOKENS, HIDDEN), torch.ones(HIDDEN)
    rms_norm.rms_norm(rows, scale, 1e-6)
    rms_norm.add_rms_norm(rows, rows, scale, 1e-6)
    heads = torch.zeros(TOKENS, VALUE_HEADS, DIM)
    rms_norm.gated_rms_norm(heads, torch.ones(DIM), heads.bfloat16(), 1e-6, torch.bfloat16)


def _convolution() -> None:
    tail, weight = _rows(CONV_WIDTH, 3), torch.ones(4, CONV_WIDTH)
    causal_conv.convolve(_rows(TOKENS, CONV_WIDTH), weight)
    causal_conv.causal_conv_step(_rows(1, CONV_WIDTH), tail, weight)
    causal_conv.causal_conv_step(_rows(1, CONV_WIDTH), tail, weight, weight[0])
    causal_conv.convolve(_rows(TOKENS, CONV_WIDTH), weight, weight[0], torch.bfloat16)
    tail, weight = _rows(2, HIDDEN), torch.ones(3, HIDDEN)
    for count, bias in ((TOKENS, None), (1, weight[0])):
        causal_conv.short_conv(_rows(count, 3 * HIDDEN), tail, weight, bias)


def _rotation() -> None:
    angles = _rows(TOKENS, HALF), _rows(TOKENS, HALF)
    queries = _rows(TOKENS, HEADS, 2 * HEAD_DIM)[..., :HEAD_DIM]
    scale = torch.ones(HEAD_DIM)
    rope.rotate(queries, *angles)
    rope.norm_rotate(queries, scale, 1e-6, *angles)


def _attention() -> None:
    length = torch.ones(1, dtype=torch.int64)
    for dim, window in ((HEAD_DIM, None), (128, None), (64, None), (64, 512)):
        queries, slab = _rows(1, HEADS, 2 * dim)[..., :dim], _rows(TOKENS, KV_HEADS, dim)
        attention.decode_attention(queries, slab, slab, length, dim**-0.5, window)


def _delta_rule() -> None:
    columns = torch.zeros(TOKENS, CONV_WIDTH)
    widths = [KEY_HEADS * DIM, KEY_HEADS * DIM, VALUE_HEADS * DIM]
    heads = [each.unflatten(1, (-1, DIM)) for each in columns.split(widths, 1)]
    gates = [torch.zeros(TOKENS, VALUE_HEADS) for _ in range(2)]
    state = torch.zeros(VALUE_HEADS, DIM, DIM)
    run = DeltaInputs(*heads, *gates)
    gated_delta.chunked_gated_delta_(run, state)
    gated_delta.recurrent_gated_delta_step(next(run.split(1)), state)


def _scan() -> None:
    inputs, both = _rows(TOKENS, CONV_WIDTH), _rows(TOKENS, 32)
    steps, state = torch.zeros(TOKENS, CONV_WIDTH), torch.zeros(16, CONV_WIDTH)
    skip = torch.zeros(CONV_WIDTH)
    mamba1.mamba1_run_(SpaceInputs(inputs, both[:, :16], both[:, 16:], steps, state, skip), state)


def _state_space() -> None:
    for width, dim in ((64, 128), (128, 256)):
        inputs = torch.zeros(TOKENS, HEADS, width)
        b, steps = torch.zeros(TOKENS, 1, dim), torch.zeros(TOKENS, HEADS)
        state, one = torch.zeros(HEADS, width, dim), torch.zeros(HEADS)
        mamba2.mamba2_run_(SpaceInputs(inputs, b, b, steps, one, one), state)


def _linear() -> None:
    row, weight = _rows(1, HIDDEN), _rows(HIDDEN, HIDDEN)
    values, scales = Int8Format(None).quantise(weight)
    linear.int8_linear(row, linear.Int8Weight(values, scales.flatten()))
    four = linear.pack_int4(*Int4Format(packed=False).quantise(weight))
    linear.int4_linear(row, four)
    linear.dequantise_int4(four, torch.bfloat16)


def _experts() -> None:
    """In every format, for a token and for a prompt."""
    count, k, inner = 8, 2, 512
    logits = _rows(TOKENS, count)
    ids, weights = experts.route(logits, Routing(k))
    experts.route(logits, Routing(k, normalise=False))
    experts.route(logits, Routing(k, sigmoid=True), torch.zeros(count))
    # Nothing was computed: which experts these are is made up.
    ids = (torch.arange(TOKENS * k, dtype=torch.int32) % count).view(TOKENS, k)
    for weight_format in (PlainFormat(), GpuInt8Format(), GpuInt4Format()):
        both, down = (
            [weight_format.prepack(weight_format.quantise(_rows(*shape)), None)] * count
            for shape in ((2 * inner, HIDDEN), (HIDDEN, inner))
        )
        bank = experts.experts(both, down, gated(swiglu))
        for rows in (1, TOKENS):
            places, found = bank(_rows(rows, HIDDEN), ids[:rows])
            shared, gate = _rows(rows, HIDDEN), _rows(rows, 1)
            experts.weighted_sum(places, found, weights[:rows])
            experts.weighted_sum(places, found, weights[:rows], shared, gate)


if __name__ == "__main__":
    main(int(sys.argv[1]))
