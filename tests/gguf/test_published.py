"""Models whose matrices stay the blocks of a GGUF file: the numbers are those of the blocks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType
from torch import Tensor

from core.loading.files import open_files
from core.loading.plan import ModelPlan
from core.weights.gguf_container import GGUFContainer
from core.weights.spec import Use
from kernels.blocks.types import GGUFType
from kernels.dispatch import Backend, backend
from tests.gguf.conftest import ConvertedOf
from tests.gguf.rewriting import Change, Data, blocks, decoded, rewrite
from tests.loads import load_model
from tests.oracle.runs import CPU, deviation, our_logits, text

CLOSE = 2e-5
SMALL = ("Q4_0", "Q8_0")
LARGE = ("Q4_K", "Q6_K")
MODELS = {
    # Value heads that aren't key heads: columns of the output move. Tied.
    "wide": LARGE,
    "qwen35moe": SMALL,
    "qwen3next": SMALL,
    "qwen35-mtp": SMALL,
    "llama": SMALL,
    "gemma3": SMALL,
    "falcon-h1": SMALL,
}


def mixed(names: tuple[str, ...]) -> Change:
    """As in a file of one type whose more important matrices have another."""
    usual, better = (blocks(GGMLQuantizationType[name]) for name in names)

    def change(name: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        important = any(part in name for part in ("attn_v", "ffn_down", "output.", "token_embd"))
        return (better if important else usual)(name, data)

    return change


def logits(path: Path, dtype: torch.dtype, kernels: Backend) -> Tensor:
    model = load_model(open_files(path).container, CPU, dtype, kernels=kernels).model
    return our_logits(model, [text(20)])


@pytest.mark.parametrize("name", MODELS)
def test_G2_blocks_are_multiplied_as_the_numbers_that_they_are(
    name: str, converted: ConvertedOf, tmp_path: Path
) -> None:
    source = converted(name).file
    stored = rewrite(source, tmp_path / "blocks.gguf", mixed(MODELS[name]))
    exact = rewrite(source, tmp_path / "plain.gguf", decoded(mixed(MODELS[name])))
    for dtype, limit in ((torch.float32, CLOSE), (torch.bfloat16, 0.02)):
        found = logits(stored, dtype, backend("reference", dtype, published=True))
        expected = logits(exact, dtype, backend("reference", dtype))
        assert deviation(found, expected) < limit, dtype
    container = open_files(stored).container
    assert isinstance(container, GGUFContainer)
    plan = ModelPlan(container)
    held = plan.held(torch.bfloat16, backend("reference", torch.bfloat16, published=True))
    specs = {name: spec for name, spec in held.tensors.items() if Use.MATRIX in spec.use}
    assert plan.block_types() == sorted(MODELS[name])
    for each, spec in specs.items():
        stored_as = {part.type for part in container.model.recipes[each].parts}
        are_blocks = not spec.exact and stored_as != {GGUFType.F32}
        assert (spec.blocks is not None) == are_blocks, each
