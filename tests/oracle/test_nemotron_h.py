"""Nemotron-H against transformers' own implementation, on tiny random checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import NemotronHForCausalLM

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
from tests.oracle.tiny_nemotron_h import TinyNemotron, make_nemotron_pair

BIASES = {"use_bias": True, "mlp_bias": True}
VARIANTS = {
    "hybrid": TinyNemotron(),
    "one-group": TinyNemotron("MM*-", groups=1, kv_heads=1, seed=1),
    "biases": TinyNemotron("*M-", others=BIASES, seed=2),
    "no-conv-bias": TinyNemotron("-M*", others={"use_conv_bias": False, "conv_kernel": 3}, seed=3),
    "shortest-steps": TinyNemotron("M-M*", others={"time_step_min": 0.7}, seed=4),
    "experts": TinyNemotron("ME*E", seed=5),
    "grouped": TinyNemotron(
        "E*ME", experts=12, others={"n_group": 4, "topk_group": 2, "norm_topk_prob": False}, seed=6
    ),
    "latent": TinyNemotron("ME", others={"moe_latent_size": 16}, seed=7),
    "all-experts": TinyNemotron("EM-", experts=3, others={"mlp_bias": True}, seed=8),
}
LONG = [text(150)]


@pytest.fixture(scope="module", params=["hybrid", "experts", "grouped"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_nemotron_pair(tmp_path_factory.mktemp("nemotron"), VARIANTS[request.param])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyNemotron, tmp_path: Path) -> None:
    made = make_nemotron_pair(tmp_path, tiny)
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
    made = make_nemotron_pair(tmp_path, TinyNemotron(dtype=torch.bfloat16, seed=9))
    exact = our_logits(made.model, LONG)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), LONG), exact)
    theirs = rms_ratio(in_bfloat16(made, tmp_path), exact)
    assert ours <= 2e-2 and ours <= 1.1 * theirs


def test_bfloat16_with_experts_is_no_rougher_than_the_oracle(tmp_path: Path) -> None:
    made = make_nemotron_pair(tmp_path, TinyNemotron("ME*E", dtype=torch.bfloat16, seed=9))
    exact = our_logits(made.model, LONG)
    rough, theirs = our_logits(load(tmp_path, torch.bfloat16), LONG), in_bfloat16(made, tmp_path)
    # Tokens whose experts are near a tie go another way, in theirs as in ours.
    assert usual_error(rough, exact) <= max(2e-2, 1.1 * usual_error(theirs, exact))
    assert rms_ratio(rough, exact) <= max(2e-2, 1.5 * rms_ratio(theirs, exact))


def in_bfloat16(pair: Pair, path: Path) -> Tensor:
    """What the oracle makes of the same folder."""
    oracle = NemotronHForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    return oracle_logits(Pair(oracle, pair.model), LONG).float()


def test_both_spellings_of_experts_are_one_model(tmp_path: Path) -> None:
    """Each for itself, as released, and all of a layer in one tensor, as they are in memory."""
    made = make_nemotron_pair(tmp_path, VARIANTS["latent"])
    expected, path = our_logits(made.model, LONG), tmp_path / "model.safetensors"
    tensors = load_file(path)
    for part in ("up_proj", "down_proj"):
        names = [f"layers.1.mixer.experts.{index}.{part}.weight" for index in range(8)]
        scope = next(name for name in tensors if name.endswith(names[0])).removesuffix(names[0])
        matrices = [tensors.pop(scope + name) for name in names]
        tensors[f"{scope}layers.1.mixer.experts.{part}"] = torch.stack(matrices)
    save_file(tensors, path, {"format": "pt"})
    assert torch.equal(our_logits(load(tmp_path), LONG), expected)
