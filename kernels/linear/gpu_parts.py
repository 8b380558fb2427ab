"""How GPU kernels unpack weights in groups: w = code * scale + offset.

A kind (int8, int4 or a type of GGUF blocks) is its sizes (`KINDS`), the codes in a chunk and the
scale of a group. Codes have up to 8 bits, so they are exact in bfloat16, and a scale is applied to
the sum over its group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl


class Kind(NamedTuple):
    """Numbers of a group, groups that share bytes, and whether there are offsets."""

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
    """A kernel's constants for a kind."""
    kind = KINDS[name]
    return {"KIND": name, "GROUP": kind.group, "PARTS": kind.parts, "OFFSETS": kind.offsets}


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

    Scales of K types are exact: up to 8 bits times `factors` in float16.
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
    place: tl.tensor,
    blocks: int,
    KIND: tl.constexpr,
    SIZE: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Three tiles of bytes or words at `place` in chunks, which are one if a chunk has no more.

    A chunk is 16 bytes, `SIZE` of what `codes` points to. Two of them have `PARTS` times 32 inputs,
    each the half of every 32. Byte b of four words is inputs 4 b to 4 b + 3 of 16.
    """
    if KIND == "Q6_K":
        # A half of a GGUF block: 64 bytes with low bits and, behind both halves, 32 with high ones.
        half, inside = chunk // 2, chunk % 2 * SIZE + place
        block = codes + (line * (blocks // 2) + half // 2) * (12 * SIZE)
        low = block + half % 2 * (4 * SIZE) + inside
        first, second = tl.load(low, there, 0), tl.load(low + 2 * SIZE, there, 0)
        high = tl.load(block + 8 * SIZE + half % 2 * (2 * SIZE) + inside, there, 0)
    else:
        first = tl.load(codes + (line * (2 * blocks) + chunk) * SIZE + place, there, 0)
        second, high = first, first
    return first, second, high


@triton.jit
def first_input(chunk: tl.tensor, PART: tl.constexpr, PARTS: tl.constexpr) -> tl.tensor:
    """The first of the 16 inputs of one part of a chunk."""
    return chunk // 2 * (PARTS * 32) + PART * 32 + chunk % 2 * 16


@triton.jit
def chunk_bytes(
    first: tl.tensor,
    second: tl.tensor,
    high: tl.tensor,
    PART: tl.constexpr,
    KIND: tl.constexpr,
    PARTS: tl.constexpr,
) -> tl.tensor:
    """The codes of one part of a chunk, of 0 to 255: one in a byte, four in a word."""
    EACH: tl.constexpr = 1 if first.dtype == tl.uint8 else 0x01010101
    if KIND == "Q6_K":
        low = second if PART % 2 else first
        found = (low >> (PART // 2 * 4)) & 15 * EACH | ((high >> (2 * PART)) & 3 * EACH) << 4
    elif PARTS == 1:
        found = first ^ 128 * EACH  # 128 more than signed bytes
    else:
        found = (first >> (4 * PART)) & 15 * EACH
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
    words, word = codes.to(tl.pointer_type(tl.uint32)), tl.arange(0, 4)[None, None, :]
    total = tl.zeros([OUTPUTS, CHUNKS, 4], tl.float32)
    for start in range(0, 2 * blocks, CHUNKS):
        chunk = start + tl.arange(0, CHUNKS)[None, :, None]
        there = known & (chunk < 2 * blocks)
        first, second, high = chunk_codes(words, line, there, chunk, word, blocks, KIND, 4)
        for part in tl.static_range(PARTS):
            at = first_input(chunk, part, PARTS)
            four = chunk_bytes(first, second, high, part, KIND, PARTS)
            product = tl.zeros([OUTPUTS, CHUNKS, 4], tl.float32)
            inputs = tl.zeros([1, CHUNKS, 4], tl.float32)
            for byte in tl.static_range(4):
                column = at + 4 * byte + word
                number = tl.load(row + column, column < given, 0.0).to(tl.float32)
                product += byte_codes(four, byte, KIND) * (number / 256 if byte % 2 else number)
                inputs += number
            if KIND == "int8":
                total += product
            else:
                group = at // GROUP
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
    """`rows` [ROWS, 1], pointers to `given` inputs, times some outputs: float32 [ROWS, OUTPUTS].

    Groups are added up in one order.
    """
    known, line = output < num_outputs, output.to(tl.int64)
    place = tl.arange(0, GROUP)[None, :]
    groups, blocks = num_inputs // GROUP, tl.cdiv(num_inputs, PARTS * 32)
    octets = codes.to(tl.pointer_type(tl.uint8))
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for start in range(0, 2 * blocks, GROUP // 16):
        first, second, high = chunk_codes(
            octets, line[:, None], known[:, None], start + place // 16, place % 16, blocks, KIND, 16
        )
        for part in tl.static_range(PARTS):
            at = first_input(start, part, PARTS)
            column = at + place // 16 * 16 + place % 4 * 4 + place % 16 // 4
            left = tl.load(rows + column, there & (column < given), 0.0)
            numbers = chunk_bytes(first, second, high, part, KIND, PARTS).to(tl.uint32)
            right = tl.trans(byte_codes(numbers, 0, KIND).to(left.dtype))
            group = at // GROUP
            scale, offset = part_scales(
                scales, factors, line, group, groups, known & (group < groups), KIND
            )
            total += tl.dot(left, right, input_precision="ieee") * scale[None, :]
            if OFFSETS:
                total += tl.sum(left.to(tl.float32), 1)[:, None] * offset[None, :]
    return total
