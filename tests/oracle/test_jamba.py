"""Jamba against transformers' own implementation, on tiny random checkpoints.

transformers starts its scan anew at each call of several tokens, so what it computes in one call is
the yardstick, for cuts and for greedy tokens too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from core.weights.folder import ModelFolder
from core.weights.plan import Weights
from kernels.dispatch import backend
from kernels.linear.reference import Integers
from tests.loads import load_model
from tests.oracle.runs import (
    CPU,
    TOLERANCE,
    Pair,
    assert_same,
    deviation,
    greedy,
    inputs,
    load,
    logits_between,
    oracle_logits,
    our_logits,
    rms_ratio,
    text,
    usual_error,
)
from tests.oracle.tiny_experts import respell
from tests.oracle.tiny_jamba import TinyJamba, make_jamba, make_jamba_pair

VARIANTS = {
    "experts": TinyJamba(),
    "dense": TinyJamba(experts=1, layers=3, seed=1, tied=True),
    "all-experts": TinyJamba(experts=3, top_k=3, sparse=(1, 0), layers=2, seed=2),
    "odd": TinyJamba(
        hidden=24, heads=3, kv_heads=1, state_dim=5, rank=7, kernel=3, attention=(2, 0), seed=3
    ),
    "biases": TinyJamba(layers=2, others={"mamba_proj_bias": True}, seed=4),
    "no-conv-bias": TinyJamba(layers=2, others={"mamba_conv_bias": False}, kernel=2, seed=5),
    "only-mamba": TinyJamba(layers=2, attention=(8, 4), experts=1, seed=6),
}
LONG = [text(150)]


@pytest.fixture(scope="module", params=["experts", "dense"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_jamba_pair(tmp_path_factory.mktemp("jamba"), VARIANTS[request.param])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyJamba, tmp_path: Path) -> None:
    made = make_jamba_pair(tmp_path, tiny)
    assert_same(our_logits(made.model, LONG), oracle_logits(made, LONG))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 63, 64, 65, 129, 1025])
def test_run_lengths_around_blocks_agree(pair: Pair, count: int) -> None:
    pieces = [text(count)]
    assert_same(our_logits(pair.model, pieces), oracle_logits(pair, pieces))


def test_greedy_tokens_are_the_same(pair: Pair) -> None:
    """Each computed from all before it, in one call of the oracle."""
    ids, rows = LONG[0], []
    for _ in range(16):
        rows.append(oracle_logits(pair, [ids])[-1:])
        ids += (int(rows[-1].argmax()),)
    assert_same(greedy(pair.model, LONG, ids[150:]), torch.cat(rows))


def test_every_cut_equals_one_shot(pair: Pair) -> None:
    expected, given = oracle_logits(pair, LONG), inputs(pair.model, LONG)
    found = [logits_between(pair.model, given, [cut]) for cut in range(1, 150)]
    assert max(deviation(logits, expected) for logits in found) <= TOLERANCE


def test_a_state_that_is_not_carried_over_shows(pair: Pair) -> None:
    """Or cuts would prove nothing: states must matter for many tokens."""
    expected, forgotten = oracle_logits(pair, LONG), our_logits(pair.model, [LONG[0][75:]])
    assert deviation(forgotten[40:], expected[115:]) > 100 * TOLERANCE


def test_token_by_token_equals_one_shot(pair: Pair) -> None:
    assert_same(our_logits(pair.model, LONG, range(1, 150)), oracle_logits(pair, LONG))


def test_both_spellings_of_experts_are_one_model(tmp_path: Path) -> None:
    made = make_jamba_pair(tmp_path, VARIANTS["experts"])
    expected = our_logits(made.model, LONG)
    respell(tmp_path, fused=True)
    assert torch.equal(our_logits(load(tmp_path), LONG), expected)


@pytest.mark.parametrize("name", ["experts", "dense"])
def test_bfloat16_stays_close_to_float32_and_no_rougher_than_the_oracle(
    name: str, tmp_path: Path
) -> None:
    tiny = replace(VARIANTS[name], dtype=torch.bfloat16)
    made = make_jamba_pair(tmp_path, tiny)
    exact = our_logits(made.model, LONG)
    rough = our_logits(load(tmp_path, torch.bfloat16), LONG)
    oracle = make_jamba(tiny)
    oracle.load_state_dict(made.oracle.state_dict())
    theirs = oracle_logits(Pair(oracle.bfloat16(), made.model), LONG).float()
    # Tokens whose experts are near a tie go another way, in theirs as in ours.
    assert usual_error(rough, exact) <= max(2e-2, 1.1 * usual_error(theirs, exact))
    assert rms_ratio(rough, exact) <= max(2e-2, 1.5 * rms_ratio(theirs, exact))


@pytest.mark.parametrize(("integers", "most"), [("int8", 0.15), ("int4", 1.0)])
def test_integers_stay_as_close_as_random_weights_allow(
    integers: Integers, most: float, tmp_path: Path
) -> None:
    """The bounds are loose: these weights have no outliers to be spared, and few numbers to a sum.
    Without what is never quantised it would be further off."""
    tiny = TinyJamba(experts=1, hidden=64, mlp=128, rank=32, seed=7)
    exact = our_logits(make_jamba_pair(tmp_path, tiny).model, LONG)
    kernels = backend("reference", torch.float32, integers=integers)
    folder = ModelFolder.open(tmp_path)
    found = our_logits(load_model(folder, CPU, torch.float32, kernels=kernels).model, LONG)
    assert 0 < rms_ratio(found, exact) < most
    with patch.object(Weights, "exact", lambda self: self):
        coarse = load_model(folder, CPU, torch.float32, kernels=kernels).model
    assert rms_ratio(our_logits(coarse, LONG), exact) > rms_ratio(found, exact)
