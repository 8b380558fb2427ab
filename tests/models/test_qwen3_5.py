"""The model's promises to the engine: specs, equal bits, cancelling, and what a folder may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from core.api.errors import NoVisionError, RequestCancelled
from core.layers.memory import FullAttentionSpec, RecurrentSpec, StateTensor
from core.models.decoder import Decoder
from tests.models.memory import ConcatenatingMemory
from tests.oracle.checkpoints import VOCABULARY, Tiny, write_folder
from tests.oracle.runs import Picture, Pieces, load, our_logits, text

MIXED: Pieces = [text(70), Picture(4, 6), text(9, 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write_folder(path, Tiny(dtype=torch.bfloat16))
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Decoder:
    return load(folder)


def run(model: Decoder, count: int, memory: ConcatenatingMemory | None = None) -> Tensor:
    memory = memory or ConcatenatingMemory(model.layer_specs)
    places = torch.arange(count).expand(3, -1)
    return model.forward(model.embed(torch.tensor(text(count))), places, memory)


def test_specs_are_in_layer_order(folder: Path) -> None:
    state = RecurrentSpec(
        (StateTensor((3, 192), torch.bfloat16), StateTensor((4, 16, 32), torch.float32))
    )
    rows = FullAttentionSpec(num_kv_heads=2, head_dim=32, dtype=torch.bfloat16)
    assert load(folder, torch.bfloat16).layer_specs == (state, state, state, rows)


def test_the_model_describes_itself(model: Any, folder: Path) -> None:
    assert (model.hidden_size, model.vocab_size, model.max_positions) == (32, VOCABULARY, 4096)
    assert (model.dtype, model.device.type) == (torch.float32, "cpu")
    assert model.has_vision
    header = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(header[:8], "little")
    stored = json.loads(header[8 : 8 + length])
    counts = [torch.Size(each["shape"]).numel() for name, each in stored.items() if name[0] != "_"]
    assert model.num_parameters == sum(counts)  # every stored tensor is used, once


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_calls_give_equal_bits(folder: Path, dtype: torch.dtype) -> None:
    first, second = load(folder, dtype), load(folder, dtype)
    expected = our_logits(first, MIXED, [64, 70, 76])
    assert torch.equal(our_logits(first, MIXED, [64, 70, 76]), expected)
    assert torch.equal(our_logits(second, MIXED, [64, 70, 76]), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types_and_shapes_of_what_comes_out(folder: Path, dtype: torch.dtype) -> None:
    model = load(folder, dtype)
    hidden = run(model, 5)
    assert (hidden.shape, hidden.dtype) == ((5, 32), dtype)
    logits = model.logits(hidden[-1:])
    assert (logits.shape, logits.dtype) == ((1, VOCABULARY), torch.float32)
    embedding = model.encode_image(Picture(4, 6).pixels, 4, 6, lambda: None)
    assert (embedding.shape, embedding.dtype) == ((6, 32), dtype)


def test_cancel_is_asked_for_before_every_layer(model: Decoder) -> None:
    memory = ConcatenatingMemory(model.layer_specs)
    run(model, 3, memory)
    assert memory.num_checks == len(model.layer_specs)


def test_cancel_is_asked_for_before_every_block_of_the_tower(model: Decoder) -> None:
    asked: list[None] = []
    model.encode_image(Picture(2, 2).pixels, 2, 2, lambda: asked.append(None))
    assert len(asked) == 2

    def stop() -> None:
        raise RequestCancelled("Stopped.")

    with pytest.raises(RequestCancelled):
        model.encode_image(Picture(2, 2).pixels, 2, 2, stop)


def test_a_model_without_a_tower_says_so(tmp_path: Path) -> None:
    write_folder(tmp_path, Tiny(vision=False))
    model: Any = load(tmp_path)
    assert not model.has_vision
    with pytest.raises(NoVisionError):
        model.encode_image(Picture(2, 2).pixels, 2, 2, lambda: None)


def test_the_tower_can_be_left_out(folder: Path, model: Decoder, tmp_path: Path) -> None:
    rewrite_config(folder, tmp_path, {}, [])
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"language_model_only": True}))
    without = load(tmp_path)
    assert not without.has_vision
    assert without.num_parameters < model.num_parameters
    assert torch.equal(our_logits(without, [text(70)]), our_logits(model, [text(70)]))


def rewrite_config(folder: Path, target: Path, change: dict[str, Any], drop: list[str]) -> Path:
    """A copy of `folder` whose text config says the same in other words."""
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    config = json.loads((target / "config.json").read_text())
    for key in drop:
        del config["text_config"][key]
    config["text_config"] |= change
    (target / "config.json").write_text(json.dumps(config))
    return target


def test_older_spellings_give_the_same_logits(folder: Path, model: Decoder, tmp_path: Path) -> None:
    older = {
        "rope_theta": 10000,
        "partial_rotary_factor": 0.5,
        "rope_scaling": {"type": "default", "mrope_section": [3, 3, 2]},
        "full_attention_interval": 4,
        "torch_dtype": "bfloat16",
    }
    rewrite_config(folder, tmp_path, older, ["rope_parameters", "layer_types"])
    assert torch.equal(our_logits(load(tmp_path), MIXED), our_logits(model, MIXED))
