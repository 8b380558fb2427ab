"""Qwen3-VL against transformers' own implementation, on tiny random checkpoints in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Qwen3VLForConditionalGeneration, Qwen3VLMoeForConditionalGeneration

from core.weights import spec as specs
from core.weights.folder import ModelFolder
from kernels.dispatch import backend
from tests.loads import load_model
from tests.oracle.runs import (
    CPU,
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
    positions,
    rms_ratio,
    text,
)
from tests.oracle.tiny_experts import respell
from tests.oracle.tiny_qwen3_vl import TinyQwen3VL, make_qwen3_vl_pair

VARIANTS = {
    "deep": TinyQwen3VL(),
    "untied": TinyQwen3VL(tied=False, attention_bias=True, deeper=(0, 1, 2), seed=1),
    # As many as there are text layers, and the last block of the tower among them.
    "one-key-head": TinyQwen3VL(
        layers=2, heads=3, kv_heads=1, head_dim=12, sections=(2, 2, 2), deeper=(1, 2), seed=2
    ),
    "not-deep": TinyQwen3VL(deeper=(), vision_positions=16, seed=3),
    "other-width": TinyQwen3VL(
        hidden=48, vision_hidden=24, vision_heads=3, deeper=(1,), max_shard_size="40KB", seed=4
    ),
    "experts": TinyQwen3VL(experts=8, tied=False, seed=5),
    # A token takes them all, in every second layer; an expert's first matrix is square.
    "all-experts": TinyQwen3VL(hidden=48, experts=3, top_k=3, sparse_step=2, seed=6),
}
SEVERAL: Pieces = [
    text(3),
    Picture(6, 10, 1),
    text(2, 1),
    Picture(2, 4, 2),
    text(2, 2),
    Picture(2, 2, 3),
    text(3, 3),
]
# 102 tokens: two pictures at 13 to 18 and 36 to 39.
MIXED: Pieces = [text(13), Picture(4, 6), text(17, 1), Picture(2, 8, 1), text(62, 2)]


@pytest.fixture(scope="module", params=["deep", "experts"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_qwen3_vl_pair(tmp_path_factory.mktemp("deep"), VARIANTS[request.param])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyQwen3VL, tmp_path: Path) -> None:
    made = make_qwen3_vl_pair(tmp_path, tiny)
    assert made.model.image_width == tiny.hidden * (1 + len(tiny.deeper))
    for pieces in ([text(150, tiny.seed)], SEVERAL, MIXED):
        assert_same(our_logits(made.model, pieces), oracle_logits(made, pieces))


@pytest.mark.parametrize("deeper", [0, 1])
def test_every_depth_of_a_picture_matters(pair: Pair, deeper: int) -> None:
    embeddings, places = inputs(pair.model, SEVERAL)
    width = pair.model.hidden_size
    without = embeddings.clone()
    without[:, (1 + deeper) * width : (2 + deeper) * width] = 0
    found = logits_between(pair.model, (without, places), [])
    assert deviation(found, oracle_logits(pair, SEVERAL)) > 0.1


def test_position_ids_are_equal(pair: Pair) -> None:
    given = oracle_inputs(SEVERAL)
    given.pop("pixel_values")
    oracle: Any = pair.oracle
    assert torch.equal(positions(SEVERAL), oracle.model.get_rope_index(**given)[0][:, 0])


@pytest.mark.parametrize("pieces", [[text(40)], SEVERAL], ids=["text", "pictures"])
def test_greedy_tokens_are_the_same(pair: Pair, pieces: Pieces) -> None:
    given = oracle_inputs(pieces)
    oracle: Any = pair.oracle
    made = oracle.generate(
        **given,
        max_new_tokens=24,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    chosen = made.sequences[0, given["input_ids"].shape[1] :].tolist()
    assert len(chosen) == 24
    assert_same(greedy(pair.model, pieces, chosen), torch.cat(made.logits))


def test_every_cut_equals_one_shot(pair: Pair) -> None:
    """Inside a picture too, where a prompt has none: it attends as text does."""
    expected, given = oracle_logits(pair, MIXED), inputs(pair.model, MIXED)
    found = [logits_between(pair.model, given, [cut]) for cut in range(1, len(expected))]
    assert max(deviation(logits, expected) for logits in found) <= TOLERANCE


def test_token_by_token_equals_one_shot(pair: Pair) -> None:
    expected = oracle_logits(pair, MIXED)
    assert_same(our_logits(pair.model, MIXED, range(1, len(expected))), expected)


@pytest.mark.parametrize("precision", ["float32", "int4"])
def test_all_ways_to_store_experts_are_one_model(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases have inputs before outputs, what transformers writes has them behind, and quantised
    folders have each expert for itself."""
    monkeypatch.setattr(specs, "SLICE_BYTES", 10_000)  # of a stack some experts at a time
    kernels = backend("torch", torch.float32, integers="int4" if precision == "int4" else None)

    def ours() -> Tensor:
        loaded = load_model(ModelFolder.open(tmp_path), CPU, torch.float32, kernels=kernels)
        return our_logits(loaded.model, SEVERAL)

    made = make_qwen3_vl_pair(tmp_path, VARIANTS["experts"])
    expected, path = ours(), tmp_path / "model.safetensors"
    tensors = load_file(path)
    shapes = {name: list(each.shape) for name, each in tensors.items() if each.ndim == 3}
    assert [8, 48, 32] in shapes.values() and [8, 32, 24] in shapes.values() and len(shapes) == 6
    transposed = {name: tensors[name].transpose(1, 2).contiguous() for name in shapes}
    save_file(tensors | transposed, path, {"format": "pt"})
    assert torch.equal(ours(), expected)
    if precision == "float32":
        oracle = Qwen3VLMoeForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.float32)
        assert_same(expected, oracle_logits(Pair(oracle, made.model), SEVERAL))
    save_file(tensors, path, {"format": "pt"})
    respell(tmp_path, fused=False)
    assert torch.equal(ours(), expected)


def test_bfloat16_is_close_to_float32_and_no_rougher_than_the_oracle(tmp_path: Path) -> None:
    made = make_qwen3_vl_pair(tmp_path, TinyQwen3VL(dtype=torch.bfloat16, seed=9))
    exact = our_logits(made.model, MIXED)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), MIXED), exact)
    oracle = Qwen3VLForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.bfloat16)
    theirs = rms_ratio(oracle_logits(Pair(oracle, made.model), MIXED).float(), exact)
    assert ours <= 2e-2 and ours <= 1.1 * theirs
