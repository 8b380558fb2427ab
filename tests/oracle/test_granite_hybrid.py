"""Granite 4 against transformers' own implementation, on tiny random checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GraniteMoeHybridForCausalLM

from tests.oracle.runs import (
    Pair,
    assert_every_cut,
    assert_greedy_tokens,
    assert_same,
    load,
    oracle_logits,
    our_logits,
    rms_ratio,
    text,
    usual_error,
)
from tests.oracle.tiny_experts import respell
from tests.oracle.tiny_granite_hybrid import TinyGranite, make_granite_pair

VARIANTS = {
    "hybrid": TinyGranite(),
    "groups": TinyGranite("FMMF", mamba_heads=6, hidden=48, groups=3, tied=False, seed=1),
    "rope": TinyGranite("MF", positions="rope", seed=2),
    "only-attention": TinyGranite("FF", positions="rope", others={"attention_bias": True}, seed=3),
    "only-mamba": TinyGranite("MM", others={"mamba_proj_bias": True}, kernel=3, seed=4),
    "no-conv-bias": TinyGranite(others={"mamba_conv_bias": False}, positions=None, seed=5),
    "limited-steps": TinyGranite(others={"time_step_limit": [0.05, 0.8]}, seed=6),
    "experts": TinyGranite(experts=8, top_k=3, seed=7),
    "all-experts": TinyGranite("FM", experts=3, top_k=3, inner=40, positions="rope", seed=8),
}
LONG = [text(150)]


@pytest.fixture(scope="module", params=["hybrid", "experts"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_granite_pair(tmp_path_factory.mktemp("granite"), VARIANTS[request.param])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyGranite, tmp_path: Path) -> None:
    made = make_granite_pair(tmp_path, tiny)
    assert_same(our_logits(made.model, LONG), oracle_logits(made, LONG))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 63, 64, 65, 129, 1025])
def test_run_lengths_around_blocks_agree(pair: Pair, count: int) -> None:
    pieces = [text(count)]
    assert_same(our_logits(pair.model, pieces), oracle_logits(pair, pieces))


def test_greedy_tokens_are_the_same(pair: Pair) -> None:
    assert_greedy_tokens(pair, LONG)


def test_every_cut_equals_one_shot(pair: Pair) -> None:
    assert_every_cut(pair, LONG)


def test_token_by_token_equals_one_shot(pair: Pair) -> None:
    assert_same(our_logits(pair.model, LONG, range(1, 150)), oracle_logits(pair, LONG))


def test_bfloat16_is_close_to_float32_and_no_rougher_than_the_oracle(tmp_path: Path) -> None:
    made = make_granite_pair(tmp_path, TinyGranite(dtype=torch.bfloat16, seed=9))
    exact = our_logits(made.model, LONG)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), LONG), exact)
    theirs = rms_ratio(in_bfloat16(made, tmp_path), exact)
    assert ours <= 2e-2 and ours <= 1.1 * theirs


def test_bfloat16_with_experts_is_no_rougher_than_the_oracle(tmp_path: Path) -> None:
    made = make_granite_pair(
        tmp_path, TinyGranite(experts=8, top_k=3, dtype=torch.bfloat16, seed=9)
    )
    exact = our_logits(made.model, LONG)
    rough, theirs = our_logits(load(tmp_path, torch.bfloat16), LONG), in_bfloat16(made, tmp_path)
    # Tokens whose experts are near a tie go another way, in theirs as in ours.
    assert usual_error(rough, exact) <= max(2e-2, 1.1 * usual_error(theirs, exact))
    assert rms_ratio(rough, exact) <= max(2e-2, 1.5 * rms_ratio(theirs, exact))


def in_bfloat16(pair: Pair, path: Path) -> Tensor:
    """What the oracle makes of the same folder."""
    oracle = GraniteMoeHybridForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    return oracle_logits(Pair(oracle, pair.model), LONG).float()


def test_all_spellings_of_experts_are_one_model(tmp_path: Path) -> None:
    """As released, as transformers names them in memory, and each expert for itself."""
    made = make_granite_pair(tmp_path, VARIANTS["experts"])
    expected, path = our_logits(made.model, LONG), tmp_path / "model.safetensors"
    tensors = load_file(path)
    for theirs, ours in (
        ("input_linear.weight", "experts.gate_up_proj"),
        ("output_linear.weight", "experts.down_proj"),
        ("router.layer.weight", "router.weight"),
    ):
        names = [name for name in tensors if name.endswith(f"block_sparse_moe.{theirs}")]
        assert len(names) == 3
        for name in names:
            tensors[name.removesuffix(theirs) + ours] = tensors.pop(name)
    save_file(tensors, path, {"format": "pt"})
    assert torch.equal(our_logits(load(tmp_path), LONG), expected)
    respell(tmp_path, fused=False)
    assert torch.equal(our_logits(load(tmp_path), LONG), expected)
