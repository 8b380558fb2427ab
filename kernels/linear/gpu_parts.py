"""How GPU kernels unpack weights in groups: w = code * scale + offset.

The kinds are int4 and types of GGUF blocks. A kind is its sizes (`KINDS`), the bytes of a step, the
codes of a group in them, and the group's scale. Codes have up to 8 bits, so they are exact in
bfloat16, and a scale is applied to the sum over its group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl


class Kind(NamedTuple):
    """Numbers of a group, groups that share the bytes of a step, and if they have offsets."""

    group: int
    parts: int
    offsets: bool = False

    @property
    def step(self) -> int:
        return self.group * self.parts


KINDS = {
    "int4": Kind(32, 2, offsets=True),
    "Q4_K": Kind(32, 2, offsets=True),
    "Q6_K": Kind(16, 4),
    "Q8_0": Kind(32, 1),
}


def constants(name: str) -> dict[str, Any]:
    """The arguments of a kernel that are constant for a kind."""
    kind = KINDS[name]
    return {"KIND": name, "GROUP": kind.group, "PARTS": kind.parts, "OFFSETS": kind.offsets}


@triton.jit
def step_bytes(
    codes: tl.tensor,
    line: tl.tensor,
    known: tl.tensor,
    step: tl.tensor,
    steps: tl.tensor,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Three tiles of bytes [OUTPUTS, GROUP], which are one if a step has no more.

    A block of Q6_K has four steps: of each half, 64 bytes with low bits and 32 with high ones.
    """
    place, there = tl.arange(0, GROUP)[None, :], known[:, None]
    if KIND == "Q6_K":
        block = codes + line[:, None] * (steps * 48) + step // 4 * 192
        half, eighth = step % 4 // 2, step % 2 * GROUP + place
        low = block + half * 64 + eighth
        first, second = tl.load(low, there, 0), tl.load(low + 32, there, 0)
        high = tl.load(block + 128 + half * 32 + eighth, there, 0)
    else:
        first = tl.load(codes + (line[:, None] * steps + step) * GROUP + place, there, 0)
        second, high = first, first
    return first, second, high


@triton.jit
def part_codes(
    first: tl.tensor, second: tl.tensor, high: tl.tensor, PART: tl.constexpr, KIND: tl.constexpr
) -> tl.tensor:
    """The codes of one group of a step as float32."""
    if KIND == "Q6_K":
        low = second if PART % 2 else first
        found = (((low >> (PART // 2 * 4)) & 15) | ((high >> (2 * PART)) & 3) << 4).to(
            tl.float32
        ) - 32
    elif KIND == "Q8_0":
        found = first.to(tl.float32)
    else:
        found = ((first >> (4 * PART)) & 15).to(tl.float32)
        if KIND == "int4":
            found -= 8
    return found


@triton.jit
def part_group(step: tl.tensor, PART: tl.constexpr, KIND: tl.constexpr) -> tl.tensor:
    """The group of a row that is a part of a step."""
    if KIND == "Q6_K":
        group = step // 2 * 8 + step % 2 + 2 * PART
    elif KIND == "Q8_0":
        group = step
    else:
        group = 2 * step + PART
    return group


@triton.jit
def part_scales(
    scales: tl.tensor,
    factors: tl.tensor,
    line: tl.tensor,
    known: tl.tensor,
    group: tl.tensor,
    groups: tl.tensor,
    KIND: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Scale and offset of a group [OUTPUTS], in float32; without offsets, the scale twice.

    Scales of K types are exact: integers of up to 8 bits times `factors` in float16.
    """
    there = known & (group < groups)
    at = line * groups + group
    if KIND == "int4":
        scale = tl.load(scales + 2 * at, there, 0.0).to(tl.float32)
        offset = tl.load(scales + 2 * at + 1, there, 0.0).to(tl.float32)
    elif KIND == "Q4_K":
        block = factors + 2 * (line * (groups // 8) + group // 8)
        scale = tl.load(scales + 2 * at, there, 0).to(tl.float32)
        scale *= tl.load(block, there, 0.0).to(tl.float32)
        offset = -tl.load(scales + 2 * at + 1, there, 0).to(tl.float32)
        offset *= tl.load(block + 1, there, 0.0).to(tl.float32)
    else:
        scale = tl.load(scales + at, there, 0).to(tl.float32)
        if KIND == "Q6_K":
            block = factors + line * (groups // 16) + group // 16
            scale *= tl.load(block, there, 0.0).to(tl.float32)
        offset = scale
    return scale, offset


@triton.jit
def share_of(steps: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """The first step of this program along axis 1 and the one behind its last."""
    share, shares = tl.program_id(1), tl.num_programs(1)
    return share * steps // shares, (share + 1) * steps // shares


@triton.jit
def grouped_product(
    rows: tl.tensor,
    there: tl.tensor,
    codes: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    output: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    given: int,
    SHARED: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> tl.tensor:
    """The product of `rows` [ROWS, 1], pointers to `given` inputs, with some outputs, in float32.

    Groups are added up in one order. If SHARED, axis 1 of the programs shares the inputs out.
    """
    known, line = output < num_outputs, output.to(tl.int64)
    place = tl.arange(0, GROUP)[None, :]
    groups = num_inputs // GROUP
    steps = (groups + PARTS - 1) // PARTS
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    if SHARED:
        begin, end = share_of(steps)
    else:
        begin, end = 0, steps
    for step in range(begin, end):
        first, second, high = step_bytes(codes, line, known, step, steps, KIND, GROUP)
        for part in tl.static_range(PARTS):
            group = part_group(step, part, KIND)
            column = group * GROUP + place
            left = tl.load(rows + column, there & (column < given), 0.0)
            numbers = part_codes(first, second, high, part, KIND)
            scale, offset = part_scales(scales, factors, line, known, group, groups, KIND)
            right = tl.trans(numbers.to(left.dtype))
            total += tl.dot(left, right, input_precision="ieee") * scale[None, :]
            if OFFSETS:
                total += tl.sum(left.to(tl.float32), 1)[:, None] * offset[None, :]
    return total
