"""The three kernels of the chunked gated delta rule, named after the equations in `reference`.

(I + A)^-1 turns beta V into the writes U and beta e^G K into the reads W of a chunk; D = U - W S,
with the state S before the chunk. `BY_CHANNEL`: each number of a key decays at its own rate.
"""

from __future__ import annotations

import triton
import triton.language as tl

EPSILON = 1e-6  # under the root of a key's squared length, as in `reference`
SLICE = 32  # numbers that a dot adds up
# Three products of tensor cores: as near to float64 as float32 products, at twice their speed.
PRECISION: tl.constexpr = tl.constexpr("tf32x3")


@triton.jit
def _whole_rows(
    heads: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    KEY_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Rows [CHUNK, BLOCK] of one head in float32; zeros unless `valid`."""
    column = tl.arange(0, BLOCK)[None, :]
    place = token.to(tl.int64)[:, None] * stride + column
    return tl.load(heads + place, valid[:, None] & (column < KEY_DIM), 0.0).to(tl.float32)


@triton.jit
def unit_rows(
    heads: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    epsilon: float,
    KEY_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Like `_whole_rows`, scaled to length 1."""
    rows = _whole_rows(heads, token, valid, stride, KEY_DIM, BLOCK)
    return rows * tl.rsqrt(tl.sum(rows * rows, 1, keep_dims=True) + epsilon)


@triton.jit
def inverse_lengths(
    heads: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    epsilon: float,
    KEY_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Factors [CHUNK] that scale rows to length 1."""
    rows = _whole_rows(heads, token, valid, stride, KEY_DIM, BLOCK)
    return tl.rsqrt(tl.sum(rows * rows, 1) + epsilon)


@triton.jit
def row_slice(
    heads: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    at: tl.tensor,
    KEY_DIM: tl.constexpr,
    SLICE: tl.constexpr,
) -> tl.tensor:
    """Columns at .. at + SLICE of rows: [CHUNK, SLICE] in float32."""
    column = at + tl.arange(0, SLICE)[None, :]
    return tl.load(
        heads + token.to(tl.int64)[:, None] * stride + column,
        valid[:, None] & (column < KEY_DIM),
        0.0,
    ).to(tl.float32)


@triton.jit
def row_products(
    left: tl.tensor,
    right: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    left_stride: int,
    right_stride: int,
    KEY_DIM: tl.constexpr,
    CHUNK: tl.constexpr,
    SLICE: tl.constexpr,
) -> tl.tensor:
    """Each row of `left` times each row of `right`: [CHUNK, CHUNK]."""
    products = tl.zeros([CHUNK, CHUNK], tl.float32)
    for at in range(0, KEY_DIM, SLICE):
        first = row_slice(left, token, valid, left_stride, at, KEY_DIM, SLICE)
        second = row_slice(right, token, valid, right_stride, at, KEY_DIM, SLICE)
        products = tl.dot(first, tl.trans(second), products, input_precision=PRECISION)
    return products


@triton.jit
def decay_sums(
    decay: tl.tensor, token: tl.tensor, valid: tl.tensor, stride: int
) -> tuple[tl.tensor, tl.tensor]:
    """G_i = g_1 + .. + g_i [CHUNK] of one head, and the chunk's total."""
    steps = tl.load(decay + token.to(tl.int64) * stride, valid, 0.0).to(tl.float32)
    return tl.cumsum(steps, 0), tl.sum(steps, 0)


@triton.jit
def channel_sums(
    decay: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    at: tl.tensor,
    KEY_DIM: tl.constexpr,
    SLICE: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Like `decay_sums`, of the channels at .. at + SLICE: [CHUNK, SLICE] and [1, SLICE]."""
    steps = row_slice(decay, token, valid, stride, at, KEY_DIM, SLICE)
    return tl.cumsum(steps, 0), tl.sum(steps, 0, keep_dims=True)


@triton.jit
def channel_products(
    left: tl.tensor,
    right: tl.tensor,
    decay: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    left_stride: int,
    right_stride: int,
    decay_stride: int,
    kept: tl.tensor,
    KEY_DIM: tl.constexpr,
    CHUNK: tl.constexpr,
    SLICE: tl.constexpr,
) -> tl.tensor:
    """Like `row_products`, each product of channels decayed; zero unless `kept`."""
    products = tl.zeros([CHUNK, CHUNK], tl.float32)
    for at in range(0, KEY_DIM, SLICE):
        first = row_slice(left, token, valid, left_stride, at, KEY_DIM, SLICE)
        second = row_slice(right, token, valid, right_stride, at, KEY_DIM, SLICE)
        sums, _ = channel_sums(decay, token, valid, decay_stride, at, KEY_DIM, SLICE)
        difference = sums[:, None, :] - sums[None, :, :]
        gamma = tl.exp(tl.where(kept[:, :, None], difference, float("-inf")))
        products += tl.sum(first[:, None, :] * second[None, :, :] * gamma, 2)
    return products


@triton.jit
def pairwise_decay(sums: tl.tensor, kept: tl.tensor) -> tl.tensor:
    """e^(G_i - G_j) if `kept`, else 0; masked first, as it overflows above the diagonal."""
    difference = sums[:, None] - sums[None, :]
    return tl.exp(tl.where(kept, difference, float("-inf")))


# Longer than other functions: each step reads the tiles of the one before from registers.
@triton.jit(do_not_specialize=["num_tokens"])
def prepare_chunks(
    keys: tl.tensor,
    values: tl.tensor,
    decay: tl.tensor,
    beta: tl.tensor,
    reads: tl.tensor,
    writes: tl.tensor,
    num_tokens: int,
    num_heads: int,
    key_stride: int,
    key_head_stride: int,
    decay_stride: int,
    decay_head_stride: int,
    value_stride: int,
    value_head_stride: int,
    beta_stride: int,
    beta_head_stride: int,
    epsilon: float,
    COPIES: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BY_CHANNEL: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
    SLICE: tl.constexpr,
) -> None:
    """Programs (chunk, value head): W [n, hv, dk] and U [n, hv, dv]. One function, because the
    inverse stays in registers for both."""
    head = tl.program_id(1)
    place = tl.arange(0, CHUNK)
    token = tl.program_id(0) * CHUNK + place
    valid = token < num_tokens
    wide = token.to(tl.int64)
    key_head = keys + head // COPIES * key_head_stride
    length = inverse_lengths(key_head, token, valid, key_stride, epsilon, KEY_DIM, BLOCK)
    decay += head * decay_head_stride
    rate = tl.load(beta + head * beta_head_stride + wide * beta_stride, valid, 0.0).to(tl.float32)

    # A transposed: row j, column i holds what token i takes from token j before it.
    later = place[:, None] > place[None, :]
    if BY_CHANNEL:
        products = channel_products(
            key_head, key_head, decay, token, valid, key_stride, key_stride, decay_stride, later,
            KEY_DIM, CHUNK, SLICE,
        )  # fmt: skip
        taken = tl.trans(products)
        taken *= (length[:, None] * length[None, :]) * rate[None, :]
        reading = rate * length
    else:
        sums, _ = decay_sums(decay, token, valid, decay_stride)
        taken = row_products(
            key_head, key_head, token, valid, key_stride, key_stride, KEY_DIM, CHUNK, SLICE
        )
        taken *= (length[:, None] * length[None, :]) * rate[None, :]
        taken *= tl.trans(pairwise_decay(sums, later))
        reading = rate * (length * tl.exp(sums))
    # Row i of (I + A)^-1 is e_i less what it takes from the rows before it, one after the other.
    inverse = tl.where(place[:, None] == place[None, :], 1.0, 0.0)
    for at in range(1, CHUNK):
        share = tl.sum(tl.where(place[None, :] == at, taken, 0.0), 1)
        less = tl.sum(share[:, None] * inverse, 0)
        inverse -= tl.where(place[:, None] == at, less[None, :], 0.0)

    line = wide[:, None] * num_heads + head
    for at in range(0, VALUE_DIM, SLICE):
        column = at + tl.arange(0, SLICE)[None, :]
        inside = valid[:, None] & (column < VALUE_DIM)
        there = wide[:, None] * value_stride + head * value_head_stride + column
        value = tl.load(values + there, inside, 0.0).to(tl.float32) * rate[:, None]
        result = tl.dot(inverse, value, input_precision=PRECISION)
        tl.store(writes + line * VALUE_DIM + column, result, inside)
    for at in range(0, KEY_DIM, SLICE):
        column = at + tl.arange(0, SLICE)[None, :]
        key = row_slice(key_head, token, valid, key_stride, at, KEY_DIM, SLICE)
        key *= reading[:, None]
        if BY_CHANNEL:
            faded, _ = channel_sums(decay, token, valid, decay_stride, at, KEY_DIM, SLICE)
            key *= tl.exp(faded)
        result = tl.dot(inverse, key, input_precision=PRECISION)
        tl.store(reads + line * KEY_DIM + column, result, valid[:, None] & (column < KEY_DIM))


@triton.jit(do_not_specialize=["num_tokens"])
def scan_chunks(
    keys: tl.tensor,
    decay: tl.tensor,
    reads: tl.tensor,
    deltas: tl.tensor,
    state: tl.tensor,
    before: tl.tensor,
    num_tokens: int,
    num_heads: int,
    key_stride: int,
    key_head_stride: int,
    decay_stride: int,
    decay_head_stride: int,
    epsilon: float,
    COPIES: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BY_CHANNEL: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Programs (value head, columns): the state before each chunk, updated in place; U to D."""
    head = tl.program_id(0)
    row = tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < KEY_DIM) & (column < VALUE_DIM)
    here = (head * KEY_DIM + row) * VALUE_DIM + column
    matrix = tl.load(state + here, inside, 0.0)
    key_head = keys + head // COPIES * key_head_stride
    key_column = tl.arange(0, BLOCK)[None, :]
    for chunk in range(tl.cdiv(num_tokens, CHUNK)):
        first = tl.cast(chunk, tl.int64) * num_heads * KEY_DIM * VALUE_DIM
        tl.store(before + first + here, matrix, inside)
        token = chunk * CHUNK + tl.arange(0, CHUNK)
        valid = token < num_tokens
        line = token.to(tl.int64)[:, None] * num_heads + head
        read = tl.load(
            reads + line * KEY_DIM + key_column, valid[:, None] & (key_column < KEY_DIM), 0.0
        )
        mine = valid[:, None] & (column < VALUE_DIM)
        delta = tl.load(deltas + line * VALUE_DIM + column, mine, 0.0)
        delta -= tl.dot(read, matrix, input_precision=PRECISION)
        tl.store(deltas + line * VALUE_DIM + column, delta, mine)
        key = unit_rows(key_head, token, valid, key_stride, epsilon, KEY_DIM, BLOCK)
        steps = decay + head * decay_head_stride
        if BY_CHANNEL:
            sums, whole = channel_sums(steps, token, valid, decay_stride, 0, KEY_DIM, BLOCK)
            key *= tl.exp(whole - sums)
            matrix *= tl.exp(tl.trans(whole))
        else:
            sums, whole = decay_sums(steps, token, valid, decay_stride)
            key *= tl.exp(whole - sums)[:, None]
            matrix *= tl.exp(whole)
        matrix = tl.dot(tl.trans(key), delta, matrix, input_precision=PRECISION)
    tl.store(state + here, matrix, inside)


@triton.jit(do_not_specialize=["num_tokens"])
def read_chunks(
    queries: tl.tensor,
    keys: tl.tensor,
    decay: tl.tensor,
    deltas: tl.tensor,
    before: tl.tensor,
    outputs: tl.tensor,
    num_tokens: int,
    num_heads: int,
    key_stride: int,
    key_head_stride: int,
    decay_stride: int,
    decay_head_stride: int,
    query_stride: int,
    query_head_stride: int,
    query_scale: float,
    epsilon: float,
    COPIES: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BY_CHANNEL: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
    SLICE: tl.constexpr,
) -> None:
    """Programs (chunk, value head): O = e^G Q S + lower(Q K^T Gamma) D."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    place = tl.arange(0, CHUNK)
    token = chunk * CHUNK + place
    valid = token < num_tokens
    query_head = queries + head // COPIES * query_head_stride
    key_head = keys + head // COPIES * key_head_stride
    decay += head * decay_head_stride
    length = inverse_lengths(query_head, token, valid, query_stride, epsilon, KEY_DIM, BLOCK)
    length *= query_scale
    seen = place[:, None] >= place[None, :]
    key_length = inverse_lengths(key_head, token, valid, key_stride, epsilon, KEY_DIM, BLOCK)
    if BY_CHANNEL:
        attention = channel_products(
            query_head, key_head, decay, token, valid, query_stride, key_stride, decay_stride,
            seen, KEY_DIM, CHUNK, SLICE,
        )  # fmt: skip
        attention *= length[:, None] * key_length[None, :]
    else:
        sums, _ = decay_sums(decay, token, valid, decay_stride)
        attention = row_products(
            query_head, key_head, token, valid, query_stride, key_stride, KEY_DIM, CHUNK, SLICE
        )
        attention *= length[:, None] * key_length[None, :]
        attention *= pairwise_decay(sums, seen)
        length *= tl.exp(sums)
    first = (chunk.to(tl.int64) * num_heads + head) * KEY_DIM
    line = token.to(tl.int64)[:, None] * num_heads + head
    for value_at in range(0, VALUE_DIM, SLICE):
        column = value_at + tl.arange(0, SLICE)[None, :]
        mine = valid[:, None] & (column < VALUE_DIM)
        delta = tl.load(deltas + line * VALUE_DIM + column, mine, 0.0)
        result = tl.dot(attention, delta, input_precision=PRECISION)
        for at in range(0, KEY_DIM, SLICE):
            query = row_slice(query_head, token, valid, query_stride, at, KEY_DIM, SLICE)
            if BY_CHANNEL:
                faded, _ = channel_sums(decay, token, valid, decay_stride, at, KEY_DIM, SLICE)
                query *= tl.exp(faded)
            row = at + tl.arange(0, SLICE)[:, None]
            inside = (row < KEY_DIM) & (column < VALUE_DIM)
            state = tl.load(before + (first + row) * VALUE_DIM + column, inside, 0.0)
            result = tl.dot(query * length[:, None], state, result, input_precision=PRECISION)
        tl.store(outputs + line * VALUE_DIM + column, result, mine)
