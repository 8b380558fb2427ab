"""The model's promises to the engine: specs, equal bits, cancelling, and what a folder may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from core.api.errors import RequestCancelled
from core.models.decoder import Decoder
from tests.models.memory import ConcatenatingMemory
from tests.oracle.checkpoints import VOCABULARY, Tiny, write_folder
from tests.oracle.runs import Picture, load, text


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


def test_the_model_describes_itself(model: Any, folder: Path) -> None:
    assert (model.hidden_size, model.vocab_size, model.max_positions) == (32, VOCABULARY, 4096)
    assert (model.dtype, model.device.type) == (torch.float32, "cpu")
    assert model.has_vision
    header = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(header[:8], "little")
    stored = json.loads(header[8 : 8 + length])
    counts = [torch.Size(each["shape"]).numel() for name, each in stored.items() if name[0] != "_"]
    assert model.num_parameters == sum(counts)  # every stored tensor is used, once


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
