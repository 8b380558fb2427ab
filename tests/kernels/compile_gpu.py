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

import kernels.experts.gpu as experts
import kernels.linear.gpu as linear
from kernels.blocks.types import GGUFType
from kernels.common.shapes import (
    AttentionShape,
    Clamp,
    DeltaShape,
    ExpertShape,
    GateShape,
    Mamba1Shape,
    Mamba2Shape,
    NormShape,
    OpShape,
    RotationShape,
    Routing,
    ShortConvShape,
)
from kernels.experts.reference import gated
from kernels.gpu_ops import GPU_OPS
from kernels.linear.gpu_formats import GpuInt4Format, GpuInt8Format, GpuMatrix, pack_blocks
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.self_test.validation import cases

HIDDEN, TOKENS = 2560, 65
BLOCKS = (GGUFType.Q4_K, GGUFType.Q6_K, GGUFType.Q8_0)
SHAPES: tuple[OpShape, ...] = (
    NormShape(HIDDEN),
    NormShape(128, gated=True),
    RotationShape(16, 256, 64),
    *(AttentionShape(16, 4, dim) for dim in (256, 128, 64)),
    AttentionShape(16, 4, 64, window=512),
    AttentionShape(20, 4, 128, window=128, sinks=True),
    DeltaShape(16, 128, 32, 128, 4),
    DeltaShape(32, 128, 32, 128, 4, by_channel=True),
    NormShape(512, passed=64),
    NormShape(128, gated=True, sigmoid=True),
    Mamba1Shape(8192, 16, 4),
    *(Mamba2Shape(16, width, 1, dim, 4) for width, dim in ((64, 128), (128, 256))),
    ShortConvShape(HIDDEN, 3),
    *(
        ExpertShape(HIDDEN, 512, 8, routing, shared=True)
        for routing in (Routing(2), Routing(2, normalise=False), Routing(2, sigmoid=True))
    ),
    ExpertShape(2880, 512, 8, Routing(4), shared=False, bias=True),
    GateShape(2880, clamp=Clamp(1.702, 7.0)),
)


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
    """Every operation in bfloat16, as a model runs on a GPU; nothing is computed."""
    for case in cases(SHAPES, torch.device("cpu"), torch.bfloat16):
        case.call(GPU_OPS, case.dtype)
    _linear()
    _quantised_experts()


def _rows(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def _linear() -> None:
    row, weight = _rows(1, HIDDEN), _rows(HIDDEN, HIDDEN)
    values, scales = Int8Format(None).quantise(weight)
    eight = linear.pack_int8(values, scales.flatten())
    four = linear.pack_int4(*Int4Format(packed=False).quantise(weight))
    for held in (
        eight,
        four,
        *(pack_blocks(type, _blocks(type, HIDDEN, HIDDEN)) for type in BLOCKS),
    ):
        linear.few_rows(row, held)
        linear.dequantise(held, torch.bfloat16)


def _blocks(type: GGUFType, outputs: int, inputs: int) -> Tensor:
    size = inputs // type.block_values * type.block_bytes
    return torch.zeros(outputs, size, dtype=torch.uint8)


def _quantised_experts() -> None:
    count, k, inner = 8, 2, 512
    shapes = ((2 * inner, HIDDEN), (HIDDEN, inner))
    pairs = [
        [each.prepack(each.quantise(_rows(*shape)), None) for shape in shapes]
        for each in (GpuInt8Format(), GpuInt4Format())
    ]
    pairs += [
        [GpuMatrix(pack_blocks(type, _blocks(type, *shape)), None) for shape in shapes]
        for type in BLOCKS
    ]
    ids = (torch.arange(TOKENS * k, dtype=torch.int32) % count).view(TOKENS, k)
    for both, down in pairs:
        bank = experts.experts([both] * count, [down] * count, gated(GPU_OPS.swiglu))
        for rows in (1, TOKENS):
            bank(_rows(rows, HIDDEN), ids[:rows])


if __name__ == "__main__":
    main(int(sys.argv[1]))
