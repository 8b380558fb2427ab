"""Tiny Nemotron Omni folders, made with transformers' own classes, and prompts for both sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    NemotronH_Omni_Reasoning_V3,
    NemotronH_Omni_Reasoning_V3_Config,
    PreTrainedModel,
)

from core.models.siglip import in_squares
from tests.oracle.checkpoints import PLAIN_TEMPLATE, randomise, token_id, write_text_folder
from tests.oracle.runs import Pieces, prompt_of
from tests.oracle.tiny_lfm2_vl import Shaped
from tests.oracle.tiny_text import TinyNemotron, nemotron_config

TEMPLATE = PLAIN_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", "<image>")
CONTROL = ("<image>", "<img>", "</img>")
AROUND_1 = ("norm.weight", "norm_f.weight", "norm1.weight", "norm2.weight", "lambda1", ".D")


@dataclass(frozen=True)
class TinyNemotronOmni:
    """`side` positions a side; `others` are more keys of the tower's config."""

    text: TinyNemotron = field(default_factory=lambda: TinyNemotron("ME*"))
    hidden: int = 24
    heads: int = 2
    depth: int = 2
    side: int = 6
    patch: int = 4
    projector: int = 40
    others: Mapping[str, Any] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    seed: int = 0


def write_nemotron_omni(path: Path, tiny: TinyNemotronOmni = TinyNemotronOmni()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    vision = {
        "hidden_size": tiny.hidden,
        "num_hidden_layers": tiny.depth,
        "num_attention_heads": tiny.heads,
        "patch_size": tiny.patch,
        "max_img_size": tiny.side * tiny.patch + 1,
        "video_temporal_patch_size": 2,
    }
    config = NemotronH_Omni_Reasoning_V3_Config(
        text_config={"model_type": "nemotron_h", **nemotron_config(tiny.text)},
        vision_config=vision | dict(tiny.others),
        vision_hidden_size=tiny.hidden,
        projector_hidden_size=tiny.projector,
        image_token_id=token_id("<image>", CONTROL),
    )
    model: Any = NemotronH_Omni_Reasoning_V3(config)
    randomise(model, tiny.seed, lambda name: name.endswith(AROUND_1))
    with torch.no_grad():
        # Of the size of patches: a wrong position shows.
        model.vision_model.embeddings.position_embedding *= tiny.side * tiny.hidden**0.5
    oracle = write_text_folder(path, model, tiny.dtype, template=TEMPLATE, control=CONTROL)
    settings = {"patch_size": tiny.patch, "min_num_patches": 16, "max_num_patches": 1024}
    (path / "preprocessor_config.json").write_text(json.dumps(settings))
    return oracle


def oracle_inputs(pieces: Pieces) -> dict[str, Tensor]:
    """Arguments of the oracle's forward: patches row by row, which the pieces have by tokens."""
    given = {"input_ids": torch.tensor([prompt_of(pieces).ids(token_id("<image>", CONTROL))])}
    pictures = [piece for piece in pieces if isinstance(piece, Shaped)]
    if pictures:
        rows = []
        for each in pictures:
            places = in_squares(torch.arange(len(each.pixels)), each.rows, each.columns)
            rows.append(each.pixels[places.flatten().argsort()])
        given["pixel_values"] = torch.cat(rows)
        given["image_grid_hw"] = torch.tensor([[each.rows, each.columns] for each in pictures])
    return given
