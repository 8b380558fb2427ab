"""Sampling a token: each step against transformers' processors, and what a seed promises."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from core.api.errors import InternalError
from core.api.params import SamplingParams
from core.engine import sampling as steps
from core.engine.sampling import Sampler, resolve, uniform

VOCAB = 50
PINNED = [0.1846930844623833, 0.5606888609122896, 0.5377435305054502]


def logits(seed: int, size: int = VOCAB, scale: float = 4.0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * scale


def _row(seed: int) -> torch.FloatTensor:
    """The logits as the oracle's annotations want them, [1, vocab]."""
    return torch.FloatTensor(logits(seed)[None])


def sampler(seed: int = 0, prompt: tuple[int, ...] = (), **values: object) -> Sampler:
    return Sampler(SamplingParams(**values), prompt, VOCAB, seed)  # type: ignore[arg-type]


seeds = st.integers(0, 10_000)
penalties = st.floats(0.5, 2.5)
shares = st.floats(0.01, 0.99)


# ---------------------------------------------------------------- the oracle


@given(seeds, penalties, st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=20))
def test_the_repetition_penalty_is_the_oracles(seed: int, penalty: float, ids: list[int]) -> None:
    seen = torch.zeros(VOCAB, dtype=torch.bool)
    seen[ids] = True
    oracle = RepetitionPenaltyLogitsProcessor(penalty)
    expected = oracle(torch.tensor([ids]), logits(seed)[None])[0]
    assert torch.equal(steps.penalise_repetition(logits(seed), seen, penalty), expected)


@given(seeds, st.integers(1, 2 * VOCAB))
def test_top_k_is_the_oracles(seed: int, top_k: int) -> None:
    expected = TopKLogitsWarper(top_k)(torch.tensor([[0]]), logits(seed)[None])[0]
    assert torch.equal(steps.keep_top_k(logits(seed), top_k), expected)


@given(seeds, shares)
def test_top_p_is_the_oracles(seed: int, top_p: float) -> None:
    expected = TopPLogitsWarper(top_p)(torch.tensor([[0]]), logits(seed)[None])[0]
    assert torch.equal(steps.keep_top_p(logits(seed), top_p), expected)


@pytest.mark.parametrize("top_p", [0.01, 0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 4.0, 30.0])
def test_top_p_over_a_large_vocabulary_is_the_oracles(scale: float, top_p: float) -> None:
    """Few of its tokens are sorted where few matter, and all where all are alike."""
    row = logits(3, size=20_000, scale=scale).round(decimals=2)  # with ties
    expected = TopPLogitsWarper(top_p)(torch.tensor([[0]]), row[None])[0]
    found = steps.keep_top_p(row, top_p)
    likely = torch.where(expected > -math.inf, row.softmax(-1), 0.0)
    # A sum of float32 numbers in another order may let one token more or less in at the edge.
    assert (found > -math.inf).sum().item() == pytest.approx((likely > 0).sum().item(), abs=2)
    assert torch.equal(
        found[likely > likely[likely > 0].min()], row[likely > likely[likely > 0].min()]
    )


@given(seeds, shares)
def test_min_p_is_the_oracles(seed: int, min_p: float) -> None:
    expected = MinPLogitsWarper(min_p)(torch.LongTensor([[0]]), _row(seed))[0]
    assert torch.equal(steps.keep_min_p(logits(seed), min_p), expected)


@given(seeds, penalties, st.floats(0.2, 3), st.integers(1, 40), st.floats(0.3, 0.99), shares)
def test_all_steps_in_the_oracles_order_leave_the_same_tokens(
    seed: int, penalty: float, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    """Sampling with every index finds all tokens that can be sampled."""
    prompt = [3, 7, 7, 20]
    oracle = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(penalty),
            TemperatureLogitsWarper(temperature),
            TopKLogitsWarper(top_k),
            TopPLogitsWarper(top_p),
            MinPLogitsWarper(min_p),
        ]
    )
    expected = oracle(torch.LongTensor([prompt]), _row(seed))[0]
    possible = set(torch.nonzero(expected > -math.inf).flatten().tolist())
    params = {
        "repetition_penalty": penalty,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
    }
    ours = sampler(seed, tuple(prompt), **params)
    sampled = {ours.sample(logits(seed), index) for index in range(60)}
    assert sampled <= possible
    likeliest = int(expected.argmax())
    if float(expected.softmax(-1)[likeliest]) > 0.3:
        assert likeliest in sampled


# ---------------------------------------------------------------- each step by itself


def test_counts_are_subtracted_from_the_reply_only() -> None:
    ours = sampler(prompt=(1, 1, 2), temperature=0, presence_penalty=2.0, frequency_penalty=1.0)
    row = torch.zeros(VOCAB)
    row[[1, 2, 3]] = torch.tensor([5.0, 4.5, 1.0])
    assert ours.sample(row, 0) == 1
    ours.accept(1)  # 5 - 2 - 1 = 2
    assert ours.sample(row, 1) == 2
    ours.accept(2)  # 4.5 - 2 - 1 = 1.5
    ours.accept(1)  # 5 - 2 - 2 = 1, level with token 3
    assert ours.sample(row, 2) == 2
    ours.accept(2)  # 4.5 - 2 - 2 = 0.5
    ours.accept(1)
    assert ours.sample(row, 3) == 3


@given(seeds, st.lists(st.integers(0, VOCAB - 1)), st.floats(-2, 2), st.floats(-2, 2))
def test_presence_and_frequency_follow_their_formula(
    seed: int, reply: list[int], presence: float, frequency: float
) -> None:
    counts = Counter(reply)
    held = torch.tensor([float(counts[token_id]) for token_id in range(VOCAB)])
    found = steps.penalise_counts(logits(seed), held, presence, frequency)
    for token_id, value in enumerate(logits(seed).tolist()):
        expected = value - (counts[token_id] > 0) * presence - counts[token_id] * frequency
        assert found[token_id].item() == pytest.approx(expected, abs=1e-5)


def test_repetition_counts_prompt_and_reply() -> None:
    row = torch.zeros(VOCAB)
    row[[1, 2, 3]] = torch.tensor([3.0, 2.9, 2.8])
    ours = sampler(prompt=(1,), temperature=0, repetition_penalty=1.5)
    assert ours.sample(row, 0) == 2
    ours.accept(2)
    assert ours.sample(row, 1) == 3


def test_greedy_takes_the_first_of_equals_after_penalties() -> None:
    row = torch.zeros(VOCAB)
    row[[10, 20, 30]] = 7.0
    assert sampler(temperature=0).sample(row, 0) == 10
    penalised = sampler(prompt=(10,), temperature=0, repetition_penalty=1.1)
    assert penalised.sample(row, 0) == 20


@given(seeds, seeds)
def test_settings_that_leave_one_token_are_greedy(seed: int, row: int) -> None:
    best = int(logits(row).argmax())
    for values in (
        {"temperature": 0.0},
        {"top_k": 1},
        {"top_p": 1e-9},
        {"top_p": 0.0},
        {"top_k": VOCAB + 1, "top_p": 1.0, "min_p": 1.0},
        {"min_p": 1.0},
        {"temperature": 1e-44},
        {"temperature": 1e-6},
    ):
        assert sampler(seed, **values).sample(logits(row), seed) == best


def test_the_logits_are_left_alone() -> None:
    row = logits(1)
    ours = sampler(prompt=(1, 2), repetition_penalty=2.0, presence_penalty=1.0, top_k=3, top_p=0.5)
    ours.accept(1)
    ours.sample(row, 0)
    assert torch.equal(row, logits(1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_any_precision_is_drawn_from_in_float32(dtype: torch.dtype) -> None:
    row = logits(1).to(dtype)
    assert sampler(5).sample(row, 3) == sampler(5).sample(row.float(), 3)


def test_prompt_ids_outside_the_vocabulary_count_for_nothing() -> None:
    ours = sampler(prompt=(VOCAB, 10**9, 4), temperature=0, repetition_penalty=1.5)
    row = torch.zeros(VOCAB)
    row[4], row[5] = 3.0, 2.9
    assert ours.sample(row, 0) == 5


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_an_error(bad: float, temperature: float) -> None:
    row = logits(0)
    row[7] = bad
    for broken in (row, torch.full((VOCAB,), bad), torch.full((VOCAB,), -math.inf)):
        with pytest.raises(InternalError, match="not a number"):
            sampler(temperature=temperature).sample(broken, 0)


def test_no_pattern_of_extremes_samples_what_is_ruled_out() -> None:
    """Every setting at an end of its range, in every combination: a token that has a chance."""
    row = logits(3)
    row[[0, 5, 9]] = torch.tensor([0.0, -math.inf, 3e38])
    ends: dict[str, tuple[float, ...]] = {
        "temperature": (0.0, 1e-30, 100.0),
        "top_k": (0, 1, 10**30),
        "top_p": (0.0, 1.0),
        "min_p": (0.0, 1.0),
        "repetition_penalty": (0.01, 100.0),
        "presence_penalty": (-100.0, 100.0),
        "frequency_penalty": (-100.0, 100.0),
    }
    for values in itertools.product(*ends.values()):
        params = SamplingParams.model_validate(dict(zip(ends, values, strict=True)))
        ours = Sampler(params, (0, 1, 5), VOCAB, seed=0)
        for token_id in (0, 5, 7):
            ours.accept(token_id)
        assert all(ours.sample(row, index) not in (5, VOCAB) for index in (0, 2**40))


# ---------------------------------------------------------------- X2: what a seed promises


@given(seeds, st.integers(0, 10**6), seeds)
def test_X2_a_sample_depends_on_seed_and_token_index_alone(seed: int, index: int, row: int) -> None:
    first, second = sampler(seed), sampler(seed)
    for other in range(5):
        second.sample(logits(other), other)
    assert first.sample(logits(row), index) == second.sample(logits(row), index)


def test_X2_the_uniform_numbers_never_change() -> None:
    """Pinned: another value would be another reply for a stored seed."""
    assert [uniform(0, 0), uniform(1, 0), uniform(0, 1)] == PINNED


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    row = torch.log(torch.tensor([0.5, 0.25, 0.125, 0.125]))
    ours = Sampler(SamplingParams(), (), 4, seed=3)
    sampled = Counter(ours.sample(row, index) for index in range(8000))
    for token_id, share in enumerate((0.5, 0.25, 0.125, 0.125)):
        assert sampled[token_id] == pytest.approx(8000 * share, rel=0.1)


# ---------------------------------------------------------------- settings


def test_a_request_wins_over_the_model_and_the_model_over_nothing() -> None:
    model = SamplingParams(temperature=0.7, top_k=20, stop=("x",), max_tokens=5)
    asked = SamplingParams(temperature=0.0, min_p=0.1, seed=4)
    assert resolve(asked, model) == SamplingParams(
        temperature=0.0,
        top_k=20,
        top_p=1.0,
        min_p=0.1,
        repetition_penalty=1.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        seed=4,
        max_tokens=5,
        stop=("x",),
    )
    assert resolve(SamplingParams(stop=("y",)), model).stop == ("y",)
