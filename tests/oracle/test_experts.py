"""Models with sparse experts against transformers' own, on tiny random checkpoints in float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from core.layers.feed_forward import SparseExperts
from kernels.common.shapes import Routing
from kernels.ops import Route
from tests.oracle.checkpoints import Tiny
from tests.oracle.runs import (
    TOLERANCE,
    Pair,
    Picture,
    Pieces,
    assert_same,
    deviation,
    greedy,
    inputs,
    load,
    logits_between,
    oracle_inputs,
    oracle_logits,
    our_logits,
    prompt_of,
    rms_ratio,
    text,
    usual_error,
)
from tests.oracle.tiny_experts import TinyExperts, make_experts_pair, make_model, respell


def hybrid(layers: str = "LF", **sizes: Any) -> Tiny:
    return Tiny(layers=layers, text_only=True, **sizes)


PURE = Tiny(layers="FFF", head_dim=16, text_only=True, tied=False)
VARIANTS = {
    "qwen3_moe": TinyExperts(base=PURE),
    "qwen3_moe-fused": TinyExperts(base=replace(PURE, seed=1), experts=5, top_k=3, fused=True),
    "qwen3_moe-some-dense": TinyExperts(
        base=replace(PURE, seed=2, tied=True), normalise=False, sparse_step=2, dense_layers=(1,)
    ),
    "qwen3_moe-all-experts": TinyExperts(base=replace(PURE, seed=3), experts=4, top_k=4),
    "qwen3_5_moe": TinyExperts("qwen3_5_moe", Tiny(layers="LF", seed=4)),
    "qwen3_5_moe-fused": TinyExperts("qwen3_5_moe", Tiny(layers="FL", seed=5), fused=True),
    "qwen3_5_moe-sharded": TinyExperts(
        "qwen3_5_moe", Tiny(layers="LF", seed=10, tied=False, max_shard_size="60KB")
    ),
    "qwen3_5_moe-text": TinyExperts("qwen3_5_moe", hybrid(seed=6), top_k=1, shared=8),
    "qwen3_next": TinyExperts("qwen3_next", hybrid("LLF", seed=7, tied=False)),
    "qwen3_next-fused": TinyExperts(
        "qwen3_next",
        hybrid("FLL", seed=8, key_heads=1, value_heads=3, tied=False),
        normalise=False,
        dense_layers=(1,),
        fused=True,
    ),
    "qwen3_next-no-groups": TinyExperts(
        "qwen3_next", hybrid("LL", seed=9, key_heads=3, value_heads=3, key_dim=32), sparse_step=2
    ),
}
FAMILIES = ("qwen3_moe", "qwen3_5_moe", "qwen3_next")
LONG = [text(150)]
MIXED: Pieces = [text(13), Picture(4, 6), text(17, 1), Picture(2, 8, 1), text(90, 2)]
# Below this the oracle's choice of an expert may go either way.
NEAR_TIE = 1e-5


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    name = request.param
    return make_experts_pair(tmp_path_factory.mktemp(name), VARIANTS[name])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyExperts, tmp_path: Path) -> None:
    made = make_experts_pair(tmp_path, tiny)
    assert_same(our_logits(made.model, LONG), oracle_logits(made, LONG))


def routed_by_us(model: Any, pieces: Pieces) -> list[Tensor]:
    """The experts of every token, layer by layer."""
    found: list[Tensor] = []
    fed = [block.feed_forward for block in model.blocks]
    layers = [each for each in fed if isinstance(each, SparseExperts)]
    kept = [layer._ops for layer in layers]
    for layer in layers:
        route = layer._ops.route

        def noting(
            logits: Tensor, routing: Routing, correction: Tensor | None = None, route: Route = route
        ) -> tuple[Tensor, Tensor]:
            ids, weights = route(logits, routing, correction)
            found.append(ids.long())
            return ids, weights

        layer._ops = replace(layer._ops, route=noting)
    our_logits(model, pieces)
    for layer, ops in zip(layers, kept, strict=True):
        layer._ops = ops
    return found


def routed_by_the_oracle(pair: Pair, pieces: Pieces) -> list[tuple[Tensor, Tensor]]:
    """The same, and whether a token's choice was sure."""
    found: list[tuple[Tensor, Tensor]] = []

    def note(_: Any, given: Any, made: Any) -> None:
        logits, _, ids = made
        best = logits.float().softmax(-1).sort(-1, descending=True).values
        k = ids.shape[-1]
        sure = best[:, k - 1] - best[:, k] > NEAR_TIE if k < best.shape[1] else best[:, 0] > 0
        found.append((ids.sort(-1).values, sure))

    gates = [each for name, each in pair.oracle.named_modules() if name.endswith("mlp.gate")]
    hooks = [gate.register_forward_hook(note) for gate in gates]
    oracle_logits(pair, pieces)
    for hook in hooks:
        hook.remove()
    return found


def test_tokens_go_through_the_same_experts(pair: Pair) -> None:
    expected, found = routed_by_the_oracle(pair, LONG), routed_by_us(pair.model, LONG)
    assert len(found) == len(expected) >= 2
    for (theirs, sure), ours in zip(expected, found, strict=True):
        assert sure.float().mean() > 0.95
        assert torch.equal(ours[sure], theirs[sure])
        assert ours.unique().numel() > ours.shape[1]  # and not always through the same


@pytest.mark.parametrize("count", [1, 2, 65, 1025])
def test_run_lengths_around_blocks_agree(pair: Pair, count: int) -> None:
    pieces = [text(count)]
    assert_same(our_logits(pair.model, pieces), oracle_logits(pair, pieces))


def test_greedy_tokens_are_the_same(pair: Pair) -> None:
    given = oracle_inputs(LONG)
    oracle: Any = pair.oracle
    made = oracle.generate(
        **given,
        attention_mask=torch.ones_like(given["input_ids"]),
        max_new_tokens=16,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    chosen = made.sequences[0, 150:].tolist()
    assert len(chosen) == 16
    assert_same(greedy(pair.model, LONG, chosen), torch.cat(made.logits))


def test_every_cut_equals_one_shot(pair: Pair) -> None:
    expected, given = oracle_logits(pair, LONG), inputs(pair.model, LONG)
    found = [logits_between(pair.model, given, [cut]) for cut in range(1, 150)]
    assert max(deviation(logits, expected) for logits in found) <= TOLERANCE


def test_token_by_token_equals_one_shot(pair: Pair) -> None:
    assert_same(our_logits(pair.model, LONG, range(1, 150)), oracle_logits(pair, LONG))


@pytest.mark.parametrize("name", FAMILIES)
def test_both_spellings_are_one_model(name: str, tmp_path: Path) -> None:
    made = make_experts_pair(tmp_path, VARIANTS[name])
    expected = our_logits(made.model, LONG)
    respell(tmp_path, fused=True)
    fused = load(tmp_path)
    assert fused.num_parameters == made.model.num_parameters
    assert torch.equal(our_logits(fused, LONG), expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_bfloat16_stays_close_to_float32_and_no_rougher_than_the_oracle(
    name: str, tmp_path: Path
) -> None:
    tiny = replace(VARIANTS[name], base=replace(VARIANTS[name].base, dtype=torch.bfloat16))
    made = make_experts_pair(tmp_path, tiny)
    exact = our_logits(made.model, LONG)
    rough = our_logits(load(tmp_path, torch.bfloat16), LONG)
    oracle = make_model(tiny)
    oracle.load_state_dict(made.oracle.state_dict())
    theirs = oracle_logits(Pair(oracle.bfloat16(), made.model), LONG).float()
    # Tokens whose experts are near a tie go another way, in theirs as in ours.
    assert usual_error(rough, exact) <= max(2e-2, 1.1 * usual_error(theirs, exact))
    assert rms_ratio(rough, exact) <= max(2e-2, 1.5 * rms_ratio(theirs, exact))


# ---------------------------------------------------------------- pictures


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    made = tmp_path_factory.mktemp("seeing")
    return make_experts_pair(made, VARIANTS["qwen3_5_moe"])


def test_picture_logits_agree(seeing: Pair) -> None:
    assert_same(our_logits(seeing.model, MIXED), oracle_logits(seeing, MIXED))


def test_pictures_token_by_token_equal_one_shot(seeing: Pair) -> None:
    found = our_logits(seeing.model, MIXED, range(1, prompt_of(MIXED).num_tokens))
    assert_same(found, oracle_logits(seeing, MIXED))
