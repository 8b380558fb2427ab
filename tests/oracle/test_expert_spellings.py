"""Sparse experts of the hybrids in every spelling, and what is never quantised of Jamba."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.weights.plan import Weights
from core.weights.published.folder import ModelFolder
from kernels.dispatch import backend
from kernels.linear.reference import Integers
from tests.loads import load_model
from tests.oracle.runs import CPU, load, our_logits, rms_ratio, text
from tests.oracle.test_families import GRANITE, JAMBA, NEMOTRON
from tests.oracle.tiny_experts import respell
from tests.oracle.tiny_text import TinyJamba, write_granite, write_jamba, write_nemotron

LONG = [text(150)]


def test_all_spellings_of_a_granites_experts_are_one_model(tmp_path: Path) -> None:
    """Names as released, as transformers has them in memory, and one for each expert."""
    write_granite(tmp_path, GRANITE["experts"])
    expected, path = our_logits(load(tmp_path), LONG), tmp_path / "model.safetensors"
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


def test_both_spellings_of_a_nemotrons_experts_are_one_model(tmp_path: Path) -> None:
    """Each for itself, as released, and all of a layer in one tensor, as they are in memory."""
    write_nemotron(tmp_path, NEMOTRON["latent"])
    expected, path = our_logits(load(tmp_path), LONG), tmp_path / "model.safetensors"
    tensors = load_file(path)
    for part in ("up_proj", "down_proj"):
        names = [f"layers.1.mixer.experts.{index}.{part}.weight" for index in range(8)]
        scope = next(name for name in tensors if name.endswith(names[0])).removesuffix(names[0])
        matrices = [tensors.pop(scope + name) for name in names]
        tensors[f"{scope}layers.1.mixer.experts.{part}"] = torch.stack(matrices)
    save_file(tensors, path, {"format": "pt"})
    assert torch.equal(our_logits(load(tmp_path), LONG), expected)


def test_both_spellings_of_a_jambas_experts_are_one_model(tmp_path: Path) -> None:
    write_jamba(tmp_path, JAMBA["experts"])
    expected = our_logits(load(tmp_path), LONG)
    respell(tmp_path, fused=True)
    assert torch.equal(our_logits(load(tmp_path), LONG), expected)


@pytest.mark.parametrize(("integers", "most"), [("int8", 0.15), ("int4", 1.0)])
def test_integers_stay_as_close_as_random_weights_allow(
    integers: Integers, most: float, tmp_path: Path
) -> None:
    """The bounds are loose: these weights have no outliers to be spared, and few numbers to a sum.
    Without what is never quantised it would be further off."""
    tiny = TinyJamba(experts=1, hidden=64, mlp=128, rank=32, seed=7)
    write_jamba(tmp_path, tiny)
    exact = our_logits(load(tmp_path), LONG)
    kernels = backend("reference", torch.float32, integers=integers)
    folder = ModelFolder.open(tmp_path)
    found = our_logits(load_model(folder, CPU, torch.float32, kernels=kernels).model, LONG)
    assert 0 < rms_ratio(found, exact) < most
    with patch.object(Weights, "exact", lambda self: self):
        coarse = load_model(folder, CPU, torch.float32, kernels=kernels).model
    assert rms_ratio(our_logits(coarse, LONG), exact) > rms_ratio(found, exact)
