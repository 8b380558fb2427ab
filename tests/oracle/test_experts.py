"""Models with sparse experts against transformers' own, on tiny random checkpoints in float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from core.layers.feed_forward import SparseExperts
from kernels.ops import Route
from tests.oracle.runs import (
    Pair,
    Picture,
    Pieces,
    assert_same,
    load,
    make_pair,
    oracle_logits,
    our_logits,
    prompt_of,
    text,
)
from tests.oracle.test_families import EXPERTS
from tests.oracle.tiny_experts import respell, write_experts

FAMILIES = ("qwen3_moe", "qwen3_5_moe", "qwen3_next")
LONG = [text(150)]
MIXED: Pieces = [text(13), Picture(4, 6), text(17, 1), Picture(2, 8, 1), text(90, 2)]
# Below this the oracle's choice of an expert may go either way.
NEAR_TIE = 1e-5


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    name = request.param
    return make_pair(write_experts, tmp_path_factory.mktemp(name), EXPERTS[name])


def routed_by_us(model: Any, pieces: Pieces) -> list[Tensor]:
    """The experts of every token, layer by layer."""
    found: list[Tensor] = []
    fed = [block.feed_forward for block in model.blocks]
    layers = [each for each in fed if isinstance(each, SparseExperts)]
    kept = [layer._ops for layer in layers]

    def noting(route: Route) -> Route:
        def noted(*given: Any) -> tuple[Tensor, Tensor]:
            ids, weights = route(*given)
            found.append(ids.long())
            return ids, weights

        return noted

    for layer in layers:
        layer._ops = replace(layer._ops, route=noting(layer._ops.route))
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


@pytest.mark.parametrize("name", FAMILIES)
def test_both_spellings_are_one_model(name: str, tmp_path: Path) -> None:
    made = make_pair(write_experts, tmp_path, EXPERTS[name])
    expected = our_logits(made.model, LONG)
    respell(tmp_path, fused=True)
    fused = load(tmp_path)
    assert fused.num_parameters == made.model.num_parameters
    assert torch.equal(our_logits(fused, LONG), expected)


# ---------------------------------------------------------------- pictures


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    made = tmp_path_factory.mktemp("seeing")
    return make_pair(write_experts, made, EXPERTS["qwen3_5_moe"])


def test_picture_logits_agree(seeing: Pair) -> None:
    assert_same(our_logits(seeing.model, MIXED), oracle_logits(seeing, MIXED))


def test_pictures_token_by_token_equal_one_shot(seeing: Pair) -> None:
    found = our_logits(seeing.model, MIXED, range(1, prompt_of(MIXED).num_tokens))
    assert_same(found, oracle_logits(seeing, MIXED))
