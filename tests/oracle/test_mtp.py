"""The MTP head against its equations, float32: prefill cut anywhere, pictures in the prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from core.api.prompt import Image, Prompt
from core.cache.context import ContextCache
from core.engine.drafting.costs import StepCosts
from core.engine.drafting.speculation import HeadDrafter
from core.engine.passes.mtp import HeadSteps
from core.engine.passes.prefill import Prefill
from core.loading.model import read_model
from core.loading.plan import ModelPlan
from core.models.decoder import Decoder
from core.weights.published.folder import ModelFolder
from tests.models.memory import ConcatenatingMemory
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.runs import (
    CPU,
    TOLERANCE,
    Pair,
    Picture,
    Pieces,
    deviation,
    inputs,
    prompt_of,
    text,
)
from tests.oracle.tiny_experts import TinyExperts, write_experts
from tests.oracle.tiny_mtp import add_head, expected_logits, head_tensors

TINY = Tiny(layers="LFL", seed=21)
PICTURE = Picture(4, 8)
PROMPTS: dict[str, Pieces] = {
    "text": [text(41)],
    "a picture": [text(9), PICTURE, text(12, 1)],
    "a picture at once": [PICTURE, text(12, 1)],
    "two pictures": [text(5), PICTURE, text(1), Picture(6, 4, 1), text(3, 2)],
    "a picture at the end": [text(7), PICTURE],
    "two tokens": [text(2)],
}


@pytest.fixture(scope="module", params=["dense", "experts"])
def head(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Pair, dict[str, Tensor]]:
    path = tmp_path_factory.mktemp("mtp") / "model"
    if request.param == "dense":
        oracle = write_folder(path, TINY)
    else:
        oracle = write_experts(path, TinyExperts("qwen3_5_moe", TINY, fused=True))
    tensors = head_tensors(path, TINY)
    add_head(path, tensors)
    return Pair(oracle, with_head(path)), tensors


def with_head(path: Path) -> Decoder:
    """Float32 drafts nothing, so that its head is left out unless one asks for it."""
    plan = ModelPlan(ModelFolder.open(path)).held(torch.float32, with_mtp=True)
    model = read_model(plan, CPU, lambda done, total: None, lambda: None).model
    assert model.has_mtp and not plan.model.mtp_refused
    return model


def prefilled(model: Decoder, pieces: Pieces, grid: int) -> tuple[ContextCache, Prefill]:
    """A whole prompt, with a cut every `grid` tokens."""

    def embedding(image: Image) -> Tensor:
        made = next(each for each in pieces if getattr(each, "segment", None) == image)
        assert isinstance(made, Picture)
        return model.encode_image(made.pixels, made.rows, made.columns, lambda: None)

    cache, prompt = ContextCache(model.layer_specs, CPU, 256, bytes(32)), prompt_of(pieces, grid)
    prefill = Prefill(model, cache, cache.restore(prompt), embedding, lambda: None)
    for _ in prefill.run(prompt, frozenset()):
        pass
    return cache, prefill


def drafting(model: Decoder, cache: ContextCache, prompt: Prompt) -> HeadDrafter:
    """Behind a prompt that was read."""
    steps = HeadSteps(model, cache.kv_buffer, None)
    return HeadDrafter(model, cache.kv_buffer, prompt, StepCosts(), lambda: None, steps)


@pytest.mark.parametrize("grid", [1, 2, 3, 7, 4096])
@pytest.mark.parametrize("name", PROMPTS)
@torch.inference_mode()
def test_the_head_predicts_what_its_equations_say(
    head: tuple[Pair, dict[str, Tensor]], name: str, grid: int
) -> None:
    """Behind a prompt, and behind each token of what follows it, fed one by one or several."""
    (pair, tensors), more = head, text(11, 7)
    pieces = PROMPTS[name]
    whole = [*pieces, more]
    expected = expected_logits(pair, TINY, tensors, whole)[-len(more) :]
    cache, prefill = prefilled(pair.model, pieces, grid)
    prompt = prompt_of(pieces, grid)
    assert prefill.last_hidden is not None
    hidden = torch.cat([prefill.last_hidden[None], hidden_of(pair.model, whole)[-len(more) : -1]])
    for sizes in ([1] * len(more), [3, 8], [11]):
        drafter = drafting(pair.model, cache, prompt)
        fed = 0
        for size in sizes:
            drafter.follow(more[fed : fed + size], hidden[fed : fed + size])
            fed += size
            assert deviation(drafter.logits(), expected[fed - 1]) <= TOLERANCE


def hidden_of(model: Decoder, pieces: Pieces) -> Tensor:
    """Each token's row, behind the final norm."""
    embeddings, places = inputs(model, pieces)
    return model.forward(embeddings, places, ConcatenatingMemory(model.layer_specs))


@torch.inference_mode()
def test_further_tokens_are_drafted_from_the_heads_own_rows(
    head: tuple[Pair, dict[str, Tensor]],
) -> None:
    """And what drafts wrote into the cache is gone when the next are made."""
    (pair, _), more = head, text(6, 7)
    pieces = PROMPTS["a picture"]
    cache, prefill = prefilled(pair.model, pieces, 4096)
    assert prefill.last_hidden is not None
    rows = hidden_of(pair.model, [*pieces, more])[-len(more) - 1 :]
    often = drafting(pair.model, cache, prompt_of(pieces))
    once = drafting(pair.model, cache, prompt_of(pieces))
    drafts = []
    for index, token in enumerate(more):
        often.follow([token], rows[index : index + 1])
        drafts.append(often.offer(7).take(5))
    once.follow(more, rows)
    assert once.offer(7).take(5) == drafts[-1]
    assert len({tuple(each) for each in drafts}) > 1 and all(len(each) == 5 for each in drafts)
    assert once.offer(7).take(1) == drafts[-1][:1]
