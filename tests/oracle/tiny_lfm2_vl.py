"""Tiny LFM2-VL folders, made with transformers' own classes, and prompts for both sides."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Lfm2VlConfig, Lfm2VlForConditionalGeneration, PreTrainedModel

from core.api.prompt import Image
from tests.oracle.checkpoints import PLAIN_TEMPLATE, is_norm, randomise, token_id, write_text_folder
from tests.oracle.runs import Picture, Pieces, prompt_of
from tests.oracle.tiny_text import TinyLfm2, lfm2_text_config

TEMPLATE = PLAIN_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", "<image>")
assert TEMPLATE != PLAIN_TEMPLATE
MOST_TILES = 4
MARKS = [
    f"<|img_row_{row}_col_{column}|>"
    for row in range(1, MOST_TILES + 1)
    for column in range(1, MOST_TILES // row + 1)
]
CONTROL = ("<image>", "<|image_start|>", "<|image_end|>", *MARKS, "<|img_thumbnail|>")


@dataclass(frozen=True)
class TinyLfm2Vl:
    text: TinyLfm2 = field(default_factory=lambda: TinyLfm2(layers="CFC"))
    hidden: int = 24
    heads: int = 2
    depth: int = 2
    positions: int = 16
    patch: int = 4
    side: int = 2
    projector: int = 20
    projector_bias: bool = True
    projector_norm: bool = True
    dtype: torch.dtype = torch.float32
    seed: int = 0


def make_lfm2_vl(tiny: TinyLfm2Vl) -> PreTrainedModel:
    """The oracle itself, float32."""
    vision = {
        "model_type": "siglip2_vision_model",
        "hidden_size": tiny.hidden,
        "intermediate_size": 2 * tiny.hidden,
        "num_hidden_layers": tiny.depth,
        "num_attention_heads": tiny.heads,
        "num_patches": tiny.positions,
        "patch_size": tiny.patch,
        "vision_use_head": False,
    }
    config = Lfm2VlConfig(
        text_config={"model_type": "lfm2", **lfm2_text_config(tiny.text)},
        vision_config=vision,
        image_token_id=token_id("<image>", CONTROL),
        downsample_factor=tiny.side,
        projector_hidden_size=tiny.projector,
        projector_bias=tiny.projector_bias,
        projector_use_layernorm=tiny.projector_norm,
        tie_word_embeddings=tiny.text.tied,
    )
    model: PreTrainedModel = Lfm2VlForConditionalGeneration(config)
    return randomise(model, tiny.seed, is_norm)


def preprocessor(tiny: TinyLfm2Vl) -> dict[str, Any]:
    """4 to 64 tokens a picture, and four tiles of four at most."""
    return {
        "image_processor_type": "Lfm2VlImageProcessorFast",
        "encoder_patch_size": tiny.patch,
        "downsample_factor": tiny.side,
        "min_image_tokens": 4,
        "max_image_tokens": 64,
        "max_pixels_tolerance": 2.0,
        "tile_size": 2 * tiny.patch * tiny.side,
        "min_tiles": 2,
        "max_tiles": MOST_TILES,
        "use_thumbnail": True,
        "do_image_splitting": True,
        "resample": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }


def write_lfm2_vl(path: Path, tiny: TinyLfm2Vl = TinyLfm2Vl()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_lfm2_vl(tiny)
    write_text_folder(path, model, tiny.dtype, template=TEMPLATE, control=CONTROL)
    (path / "preprocessor_config.json").write_text(json.dumps(preprocessor(tiny)))
    return model


@dataclass(frozen=True)
class Shaped(Picture):
    """Random patches, row by row; a square of `side` patches is a token, positions a line."""

    patch: int = 4
    side: int = 2

    @property
    def pixels(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        size = (self.rows * self.columns, 3 * self.patch**2)
        return torch.rand(size, generator=generator) * 2 - 1

    @property
    def segment(self) -> Image:
        rows, columns = self.rows // self.side, self.columns // self.side
        return Image(f"shaped {self.seed:>9}".encode(), rows, columns, rows * columns, in_line=True)


def oracle_inputs(pieces: Pieces) -> dict[str, Tensor]:
    """Arguments of the oracle's forward, pictures padded as its processor does."""
    given = {"input_ids": torch.tensor([prompt_of(pieces).ids(token_id("<image>", CONTROL))])}
    pictures = [piece for piece in pieces if isinstance(piece, Shaped)]
    if pictures:
        most = max(each.rows * each.columns for each in pictures) + 3
        padded = torch.zeros(len(pictures), most, pictures[0].pixels.shape[1])
        mask = torch.zeros(len(pictures), most, dtype=torch.int32)
        for index, each in enumerate(pictures):
            padded[index, : len(each.pixels)] = each.pixels
            mask[index, : len(each.pixels)] = 1
        shapes = torch.tensor([[each.rows, each.columns] for each in pictures])
        given |= {"pixel_values": padded, "pixel_attention_mask": mask, "spatial_shapes": shapes}
    return given
