"""Files that llama.cpp's converter makes of tiny models are those models again (G1)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from core.gguf.models.model import ARCHITECTURES
from core.loading.files import open_files
from core.loading.plan import ModelPlan
from core.models.decoder import Decoder
from core.weights.container import Container
from core.weights.gguf_container import GGUFContainer
from tests.gguf.conftest import ConvertedOf
from tests.gguf.families import FAMILIES, FUSED, HEADED, SEEING
from tests.loads import load_model
from tests.oracle.runs import CPU, deviation, greedy, our_logits, text

# Of the standard deviation of logits.
CLOSE = 2e-5
# Files with other numbers than the folder: weights times multipliers, RoPE as divisors.
FOLDED = {"falcon-h1", "llama"}
# Numbers of a patch.
PATCHES = {
    "gemma3": 48, "gemma4": 48, "gemma4-experts": 48, "gemma4-unified": 432, "lfm2-vl": 768,
    "qwen35-minicpm": 48,
}  # fmt: skip
# Tensors that a folder may hold in another form.
OTHERWISE = re.compile(
    r"\.experts\.|self_attn\.[kv]_b_proj\.|shared_mlp\.(gate|up)_proj|linear_attn\.in_proj_(qkv|z)\."
)
# The converter doesn't fuse them.
NEVER_FUSED = ("falcon-h1", "granite_swa", "jamba")
# Queries with gates, rotated and biased rows, layers of other kinds, experts.
FUSED_QUICKLY = ("qwen35-mtp", "qwen3next", "llama-biases", "kimi-linear", "gemma4-experts")
# Words of scopes that spellings of a family have or don't have.
SCOPES = re.compile(r"\b(?:model|language_model|backbone|vision_model)\.")


def opened(path: Path) -> Container:
    return open_files(path).container


def loaded(path: Path) -> Decoder:
    return load_model(opened(path), CPU, torch.float32).model


def planned(container: Container) -> dict[str, str]:
    """Names of the tensors that a model takes, by their names without scopes."""
    plan = ModelPlan(container).held(torch.float32, with_mtp=True)
    return {SCOPES.sub("", name): name for name in plan.tensors}


def same(found: Tensor, expected: Tensor, name: str) -> bool:
    """Equal, or with the same result of what the layers compute of it first."""
    if name.endswith("A_log"):
        return torch.equal(found.exp(), expected.exp())
    if "norm" in name:  # stored plus one, which rounds
        return torch.equal(found + 1, expected + 1)
    if name.endswith("mm_input_projection_weight"):  # always float16
        return torch.equal(found, expected.half().float())
    return torch.equal(found, expected[: len(found)] if "embed_tokens" in name else expected)


def as_in_file(tensor: Tensor, name: str) -> Tensor:
    """A stack of gpt-oss, whose folders have inputs first, and gates between the other rows."""
    if tensor.ndim == 3:
        tensor = tensor.transpose(1, 2)
    return torch.cat([tensor[:, ::2], tensor[:, 1::2]], dim=1) if "gate_up" in name else tensor


def test_every_architecture_has_a_model() -> None:
    named = {name if name in ARCHITECTURES else name.partition("-")[0] for name in FAMILIES}
    assert named == ARCHITECTURES.keys()


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"falcon-h1"}))
def test_G1_tensors_are_those_of_the_folder(name: str, converted: ConvertedOf) -> None:
    folder, file = opened(converted(name).folder), opened(converted(name).file)
    expected, found = planned(folder), planned(file)
    others = found.keys() - expected.keys()
    assert len(found) > 10 and all(OTHERWISE.search(each) for each in others)
    assert (name in HEADED) == any(each.startswith("mtp.") for each in found)
    for each in found.keys() & expected.keys():
        ours, theirs = file.look_up(found[each]), folder.look_up(expected[each])
        if name == "gpt-oss" and ".experts." in each:
            theirs = as_in_file(theirs, each)
        assert ours.shape == theirs.shape or "embed_tokens" in each
        assert same(ours.float(), theirs.float(), each), each


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if each in FUSED_QUICKLY else pytest.mark.slow)
        for each in FAMILIES
        if not each.startswith(NEVER_FUSED)
    ],
)
def test_G1_fused_tensors_are_split(name: str, converted: ConvertedOf) -> None:
    made, apart = opened(converted(f"{FUSED}{name}").file), opened(converted(name).file)
    assert isinstance(made, GGUFContainer) and isinstance(apart, GGUFContainer)
    stored = {each.name for recipe in made.model.recipes.values() for each in recipe.parts}
    assert any(each.endswith(".attn_qkv.weight") for each in stored)
    whole, expected = planned(made), planned(apart)
    assert whole.keys() == expected.keys()
    for each, found in whole.items():
        assert torch.equal(made.look_up(found), apart.look_up(expected[each])), each


@pytest.mark.parametrize("name", FAMILIES)
def test_G1_the_model_answers_as_the_folder_does(name: str, converted: ConvertedOf) -> None:
    expected, found = loaded(converted(name).folder), loaded(converted(name).file)
    assert found.has_vision == (name in SEEING)
    prompt, size = [text(40)], found.vocab_size
    logits = our_logits(expected, prompt)[:, :size]
    ours = our_logits(found, prompt)
    assert deviation(ours, logits) <= CLOSE
    assert torch.equal(ours, logits) or name in FOLDED
    if name in SEEING:
        assert expected.tower is not None
        generator = torch.Generator().manual_seed(1)
        side = 4 if name == "qwen35-minicpm" else 6
        pixels = torch.rand(side**2, PATCHES.get(name, 1536), generator=generator)
        pictures = [
            each.encode_image(pixels, side, side, lambda: None) for each in (expected, found)
        ]
        # A matrix behind one of the towers is always float16.
        assert torch.equal(*pictures) or (name == "gemma3" and deviation(*pictures) < 2e-3)
    forced = logits[-1].topk(6).indices.tolist()
    steps = greedy(expected, prompt, forced)[:, :size]
    assert deviation(greedy(found, prompt, forced), steps) <= CLOSE
