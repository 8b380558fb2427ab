"""How GPU kernels unpack weights in groups: w = code * scale + offset.

The kinds are int8, int4 and types of GGUF blocks. A kind is its sizes (`KINDS`), the bytes of a
step, the codes of a group in them, and the group's scale. Codes have up to 8 bits, so they are
exact in bfloat16, and a scale is applied to the sum over its group.
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


KINDS = {
    "int4": Kind(32, 2, offsets=True),
    "Q4_K": Kind(32, 2, offsets=True),
    "Q6_K": Kind(16, 4),
    "Q8_0": Kind(32, 1),
    "int8": Kind(32, 1),  # a row is one group
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
    first: tl.tensor,
    second: tl.tensor,
    high: tl.tensor,
    PART: tl.constexpr,
    KIND: tl.constexpr,
    PARTS: tl.constexpr,
) -> tl.tensor:
    """The codes of one group of a step as float32."""
    if KIND == "Q6_K":
        low = second if PART % 2 else first
        found = (((low >> (PART // 2 * 4)) & 15) | ((high >> (2 * PART)) & 3) << 4).to(
            tl.float32
        ) - 32
    elif PARTS == 1:
        found = first.to(tl.float32)
    else:
        found = ((first >> (4 * PART)) & 15).to(tl.float32)
        if KIND == "int4":
            found -= 8
    return found


@triton.jit
def part_group(
    step: tl.tensor, PART: tl.constexpr, KIND: tl.constexpr, PARTS: tl.constexpr
) -> tl.tensor:
    """The group of a row that is a part of a step."""
    return step // 2 * 8 + step % 2 + 2 * PART if KIND == "Q6_K" else step * PARTS + PART


@triton.jit
def part_scales(
    scales: tl.tensor,
    factors: tl.tensor,
    line: tl.tensor,
    group: tl.tensor,
    groups: tl.tensor,
    there: tl.tensor,
    KIND: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Scale and offset of a group, in float32; without offsets, the scale twice.

    Scales of K types are exact: integers of up to 8 bits times `factors` in float16.
    """
    at = line * groups + group
    if KIND == "int8":
        scale = tl.load(scales + line + 0 * group, there, 0.0)
        offset = scale
    elif KIND == "int4":
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
def chunk_codes(
    codes: tl.tensor,
    line: tl.tensor,
    there: tl.tensor,
    chunk: tl.tensor,
    blocks: int,
    KIND: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Three tiles of words [OUTPUTS, CHUNKS, 4], which are one if a chunk has no more.

    Two chunks are a block of `PARTS` times 32 inputs, of which each has the half of every 32. Byte
    b of its four words are inputs 4 b to 4 b + 3 of 16.
    """
    words, word = codes.to(tl.pointer_type(tl.uint32)), tl.arange(0, 4)[None, None, :]
    if KIND == "Q6_K":
        # A half of a GGUF block: 64 bytes with low bits and, behind both halves, 32 with high ones.
        half, inside = chunk // 2, chunk % 2 * 4 + word
        block = words + (line * (blocks // 2) + half // 2) * 48
        low = block + half % 2 * 16 + inside
        first, second = tl.load(low, there, 0), tl.load(low + 8, there, 0)
        high = tl.load(block + 32 + half % 2 * 8 + inside, there, 0)
    else:
        first = tl.load(words + line * (blocks * 8) + chunk * 4 + word, there, 0)
        second, high = first, first
    return first, second, high


@triton.jit
def chunk_bytes(
    first: tl.tensor,
    second: tl.tensor,
    high: tl.tensor,
    PART: tl.constexpr,
    KIND: tl.constexpr,
    PARTS: tl.constexpr,
) -> tl.tensor:
    """The codes of one part of a chunk, four of 0 to 255 in a word."""
    if KIND == "Q6_K":
        low = second if PART % 2 else first
        found = (low >> (PART // 2 * 4)) & 0x0F0F0F0F | ((high >> (2 * PART)) & 0x03030303) << 4
    elif PARTS == 1:
        found = first ^ 0x80808080  # 128 more than signed bytes
    else:
        found = (first >> (4 * PART)) & 0x0F0F0F0F
    return found


@triton.jit
def byte_codes(four: tl.tensor, BYTE: tl.constexpr, KIND: tl.constexpr) -> tl.tensor:
    """The codes of one byte as floats, times 256 for odd ones.

    Or'ed into the bits of 2^23 as a float, its lowest bits count ones.
    """
    zero = 8.0 if KIND == "int4" else 32.0 if KIND == "Q6_K" else 0.0 if KIND == "Q4_K" else 128.0
    if BYTE % 2:
        bits, zero = (four >> 8 * (BYTE - 1)) & 0xFF00, zero * 256
    else:
        bits = (four >> 8 * BYTE) & 0xFF
    return (bits | 0x4B000000).to(tl.float32, bitcast=True) - (8388608.0 + zero)


@triton.jit
def row_product(
    row: tl.tensor,
    codes: tl.tensor,
    scales: tl.tensor,
    factors: tl.tensor,
    output: tl.tensor,
    num_outputs: int,
    num_inputs: int,
    given: int,
    OUTPUTS: tl.constexpr,
    CHUNKS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> tl.tensor:
    """The product of a row of `given` inputs with some outputs [OUTPUTS]."""
    line = output.to(tl.int64)[:, None, None]
    known, groups = line < num_outputs, num_inputs // GROUP
    blocks = tl.cdiv(num_inputs, PARTS * 32)
    total = tl.zeros([OUTPUTS, CHUNKS, 4], tl.float32)
    for start in range(0, 2 * blocks, CHUNKS):
        chunk = start + tl.arange(0, CHUNKS)[None, :, None]
        words = chunk_codes(codes, line, known & (chunk < 2 * blocks), chunk, blocks, KIND)
        for part in tl.static_range(PARTS):
            first = chunk // 2 * (PARTS * 32) + part * 32 + chunk % 2 * 16
            four = chunk_bytes(words[0], words[1], words[2], part, KIND, PARTS)
            product = tl.zeros([OUTPUTS, CHUNKS, 4], tl.float32)
            inputs = tl.zeros([1, CHUNKS, 4], tl.float32)
            for byte in tl.static_range(4):
                column = first + 4 * byte + tl.arange(0, 4)[None, None, :]
                number = tl.load(row + column, column < given, 0.0).to(tl.float32)
                product += byte_codes(four, byte, KIND) * (number / 256 if byte % 2 else number)
                inputs += number
            if KIND == "int8":
                total += product
            else:
                group = first // GROUP
                scale, offset = part_scales(
                    scales, factors, line, group, groups, known & (group < groups), KIND
                )
                total += product * scale
                if OFFSETS:
                    total += inputs * offset
    result = tl.sum(tl.sum(total, 2), 1)
    if KIND == "int8":
        result *= tl.load(scales + output, output < num_outputs, 0.0)
    return result


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
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
    OFFSETS: tl.constexpr,
) -> tl.tensor:
    """The product of `rows` [ROWS, 1], pointers to `given` inputs, with some outputs, in float32.

    Groups are added up in one order.
    """
    known, line = output < num_outputs, output.to(tl.int64)
    place = tl.arange(0, GROUP)[None, :]
    place = place // 16 * 16 + place % 4 * 4 + place % 16 // 4  # as bytes lie in a chunk
    groups = num_inputs // GROUP
    steps = (groups + PARTS - 1) // PARTS
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for step in range(steps):
        first, second, high = step_bytes(codes, line, known, step, steps, KIND, GROUP)
        for part in tl.static_range(PARTS):
            group = part_group(step, part, KIND, PARTS)
            column = group * GROUP + place
            left = tl.load(rows + column, there & (column < given), 0.0)
            numbers = part_codes(first, second, high, part, KIND, PARTS)
            exists = known & (group < groups)
            scale, offset = part_scales(scales, factors, line, group, groups, exists, KIND)
            right = tl.trans(numbers.to(left.dtype))
            total += tl.dot(left, right, input_precision="ieee") * scale[None, :]
            if OFFSETS:
                total += tl.sum(left.to(tl.float32), 1)[:, None] * offset[None, :]
    return total
