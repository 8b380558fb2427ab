"""The next token from logits that stay on an NVIDIA GPU: limits and a draw, in Triton.

The meaning of each step, ties included, is that of core/engine/writing/sampler.py, which is the
reference; sums over the vocabulary are float64 here. Penalties come before, the number in [0, 1)
that draws from outside, and all settings lie on the device: a captured graph serves every request.
One stable sort gives every limit a place in the order; a token is kept from that place on.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.common.views import dense_rows
from kernels.sampling.draw import Limits

NOT_A_NUMBER = -1  # instead of an id, where the logits hold NaN, +inf, or nothing above -inf
_BLOCK = 1024


def draw(scores: Tensor, limits: Limits, point: float) -> int | None:
    """As `Draw` (kernels.sampling.draw); waits for the GPU."""
    numbers = limits.temperature, limits.top_k, limits.top_p, limits.min_p
    found = int(sample(scores, settings(*numbers, point, scores.device)))
    return None if found == NOT_A_NUMBER else found


def settings(
    temperature: float, top_k: int, top_p: float, min_p: float, point: float, device: torch.device
) -> Tensor:
    """[5] float64 on the device: what `sample` reads. `point` in [0, 1) draws the token.

    Temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 limit nothing.
    """
    numbers = [temperature, float(top_k), top_p, min_p, point]
    return torch.tensor(numbers, dtype=torch.float64, device=device)


def sample(logits: Tensor, settings: Tensor) -> Tensor:
    """The id drawn from `logits` [vocab], contiguous: [1] int64 on the device.

    NOT_A_NUMBER where nothing can be drawn: who reads the id raises.
    """
    assert dense_rows(logits, settings)
    vocab = len(logits)
    blocks = triton.cdiv(vocab, _BLOCK)
    device = logits.device
    scores = torch.empty(vocab, dtype=torch.float32, device=device)
    sums = torch.empty(2, blocks, dtype=torch.float64, device=device)
    best = torch.empty(3, blocks, dtype=torch.float32, device=device)
    limits = torch.empty(5, dtype=torch.float64, device=device)
    token_id = torch.empty(1, dtype=torch.int64, device=device)
    sizes = {"BLOCK": _BLOCK, "BLOCKS": triton.next_power_of_2(blocks)}
    _cool[(blocks,)](logits, settings, scores, best, vocab, blocks, BLOCK=_BLOCK)
    ascending, order = scores.sort(stable=True)
    _block_sums[(blocks,)](ascending, settings, best, sums, vocab, blocks, **sizes)
    _set_limits[(1,)](ascending, order, settings, best, sums, limits, vocab, blocks, **sizes)
    _kept_sums[(blocks,)](scores, limits, sums, vocab, blocks, BLOCK=_BLOCK)
    _draw[(1,)](scores, settings, best, limits, sums, token_id, vocab, blocks, **sizes)
    return token_id


@triton.jit
def _cool(
    logits: tl.tensor,
    settings: tl.tensor,
    scores: tl.tensor,
    best: tl.tensor,
    vocab: int,
    blocks: int,
    BLOCK: tl.constexpr,
) -> None:
    """Logits over the temperature, and each block's best: score, number in the block, validity."""
    block = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    token = block * BLOCK + place
    logit = tl.load(logits + token, token < vocab, float("-inf")).to(tl.float32)
    temperature = tl.load(settings).to(tl.float32)
    divisor = tl.where(temperature > 0, temperature, 1.0)
    tl.store(scores + token, tl.div_rn(logit, divisor), token < vocab)
    sound = logit < float("inf")  # NaN is neither less nor more than anything
    broken = (token < vocab) & ~sound
    usable = tl.where(sound, logit, float("-inf"))
    highest = tl.max(usable, 0)
    first = tl.min(tl.where(usable == highest, place, BLOCK), 0)
    tl.store(best + block, highest)
    tl.store(best + blocks + block, first.to(tl.float32))
    tl.store(best + 2 * blocks + block, tl.max(broken.to(tl.float32), 0))


@triton.jit
def _highest(best: tl.tensor, settings: tl.tensor, blocks: int, BLOCKS: tl.constexpr) -> tl.tensor:
    """The best score over the temperature, as `_cool` has rounded it."""
    block = tl.arange(0, BLOCKS)
    logit = tl.max(tl.load(best + block, block < blocks, float("-inf")), 0)
    temperature = tl.load(settings).to(tl.float32)
    return tl.div_rn(logit, tl.where(temperature > 0, temperature, 1.0))


@triton.jit
def _worth(scores: tl.tensor, highest: tl.tensor, kept: tl.tensor) -> tl.tensor:
    """e^(score - highest) in float64 where `kept` and finite, else zero."""
    usable = kept & (tl.abs(scores) < float("inf"))
    peak = tl.where(tl.abs(highest) < float("inf"), highest, 0.0).to(tl.float64)
    away = tl.where(usable, scores.to(tl.float64), peak) - peak
    return tl.where(usable, tl.exp(tl.minimum(away, 0.0)), 0.0)


@triton.jit
def _lowest_of_k(ascending: tl.tensor, settings: tl.tensor, vocab: int) -> tl.tensor:
    """The score that top_k ends at, -inf without a limit; ties with it stay."""
    top_k = tl.load(settings + 1)
    limited = (top_k > 0) & (top_k < vocab)
    place = tl.where(limited, vocab - top_k, 0.0).to(tl.int32)
    return tl.where(limited, tl.load(ascending + place), float("-inf"))


@triton.jit
def _block_sums(
    ascending: tl.tensor,
    settings: tl.tensor,
    best: tl.tensor,
    sums: tl.tensor,
    vocab: int,
    blocks: int,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> None:
    """Each block's share of the softmax over what top_k keeps, in ascending order."""
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    score = tl.load(ascending + token, token < vocab, float("-inf"))
    kept = (score >= _lowest_of_k(ascending, settings, vocab)) & (token < vocab)
    worth = _worth(score, _highest(best, settings, blocks, BLOCKS), kept)
    tl.store(sums + tl.program_id(0), tl.sum(worth, 0))


@triton.jit
def _set_limits(
    ascending: tl.tensor,
    order: tl.tensor,
    settings: tl.tensor,
    best: tl.tensor,
    sums: tl.tensor,
    limits: tl.tensor,
    vocab: int,
    blocks: int,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> None:
    """Where keeping starts: the lowest score, the lowest id among its ties, and the others' ends.

    top_p removes what together stays within 1 - top_p, from the least likely up.
    """
    block = tl.arange(0, BLOCKS)
    share = tl.load(sums + block, block < blocks, 0.0)
    until = tl.cumsum(share, 0)
    top_p = tl.load(settings + 2)
    spent = tl.where(top_p < 1, (1 - top_p) * tl.sum(share, 0), -1.0)
    inside = tl.sum(((until <= spent) & (block < blocks)).to(tl.int32), 0)
    inside = tl.minimum(inside, blocks - 1)
    before = tl.sum(tl.where(block < inside, share, 0.0), 0)
    place = tl.arange(0, BLOCK)
    token = inside * BLOCK + place
    score = tl.load(ascending + token, token < vocab, float("-inf"))
    lowest = _lowest_of_k(ascending, settings, vocab)
    highest = _highest(best, settings, blocks, BLOCKS)
    worth = _worth(score, highest, (score >= lowest) & (token < vocab))
    removed = (before + tl.cumsum(worth, 0) <= spent) & (token < vocab)
    first = inside * BLOCK + tl.sum(removed.to(tl.int32), 0)
    first = tl.minimum(first, vocab - 1)  # one always stays
    tl.store(limits, tl.load(ascending + first).to(tl.float64))
    tl.store(limits + 1, tl.load(order + first).to(tl.float64))
    tl.store(limits + 2, lowest.to(tl.float64))
    tl.store(limits + 3, highest.to(tl.float64))
    tl.store(limits + 4, tl.load(settings + 3))


@triton.jit
def _kept_worth(scores: tl.tensor, limits: tl.tensor, token: tl.tensor, vocab: int) -> tl.tensor:
    """What each token weighs in the draw: zero where a limit removes it."""
    score = tl.load(scores + token, token < vocab, float("-inf"))
    wide = score.to(tl.float64)
    edge, tie = tl.load(limits), tl.load(limits + 1)
    kept = (wide > edge) | ((wide == edge) & (token >= tie))
    kept = kept & (wide >= tl.load(limits + 2)) & (token < vocab)
    worth = _worth(score, tl.load(limits + 3), kept)
    # Relative to the likeliest token, which weighs 1 and always stays.
    return tl.where(worth >= tl.load(limits + 4), worth, 0.0)


@triton.jit
def _kept_sums(
    scores: tl.tensor,
    limits: tl.tensor,
    sums: tl.tensor,
    vocab: int,
    blocks: int,
    BLOCK: tl.constexpr,
) -> None:
    """Each block's share of what is drawn from, in the order of the ids."""
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    worth = _kept_worth(scores, limits, token, vocab)
    tl.store(sums + blocks + tl.program_id(0), tl.sum(worth, 0))


@triton.jit
def _draw(
    scores: tl.tensor,
    settings: tl.tensor,
    best: tl.tensor,
    limits: tl.tensor,
    sums: tl.tensor,
    token_id: tl.tensor,
    vocab: int,
    blocks: int,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> None:
    """The first id whose cumulated share passes the point; greedy when nothing else makes sense."""
    block = tl.arange(0, BLOCKS)
    share = tl.load(sums + blocks + block, block < blocks, 0.0)
    target = tl.load(settings + 4) * tl.sum(share, 0)
    until = tl.cumsum(share, 0)
    # The last block with a share ends the search: rounding must not carry it past.
    last = tl.max(tl.where(share > 0, block, 0), 0)
    inside = tl.sum(((until <= target) & (block < blocks)).to(tl.int32), 0)
    inside = tl.minimum(inside, last)
    before = tl.sum(tl.where(block < inside, share, 0.0), 0)
    place = tl.arange(0, BLOCK)
    worth = _kept_worth(scores, limits, inside * BLOCK + place, vocab)
    passed = tl.sum((before + tl.cumsum(worth, 0) <= target).to(tl.int32), 0)
    last = tl.max(tl.where(worth > 0, place, 0), 0)
    drawn = inside * BLOCK + tl.minimum(passed, last)

    logit = tl.load(best + block, block < blocks, float("-inf"))
    highest = tl.max(logit, 0)
    first = tl.min(tl.where(logit == highest, block, BLOCKS), 0)
    greedy = first * BLOCK + tl.load(best + blocks + first).to(tl.int32)
    broken = tl.max(tl.load(best + 2 * blocks + block, block < blocks, 0.0), 0) > 0
    cold = tl.load(settings).to(tl.float32) == 0  # also what float32 has no number for
    cold = cold | (tl.abs(tl.load(limits + 3)) == float("inf"))  # so cold that float32 ends
    result = tl.where(cold, greedy, drawn)
    result = tl.where(broken | (highest == float("-inf")), -1, result)
    tl.store(token_id, result.to(tl.int64))
