"""Tiny MiniCPM-V folders, made with transformers' own classes, and prompts for both sides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Resampling
from torch import Tensor
from transformers import (
    MiniCPMV4_6Config,
    MiniCPMV4_6ForConditionalGeneration,
    MiniCPMV4_7Config,
    MiniCPMV4_7ForConditionalGeneration,
    PreTrainedModel,
)

from core.api.prompt import Image, TextRun
from core.models.decoder import Decoder
from core.vision.configs import HALF
from core.vision.processor import Grid, ResizePlan
from core.vision.slices import MARK_KEYS, MARKS, SliceConfig, SliceImageProcessor
from tests.oracle.checkpoints import (
    PLAIN_TEMPLATE,
    Tiny,
    is_plain_norm,
    randomise,
    text_config,
    token_id,
    write_text_folder,
)
from tests.oracle.runs import Pieces, prompt_of
from tests.oracle.tiny_lfm2_vl import Shaped

TEMPLATE = PLAIN_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", "<|image_pad|>")
assert TEMPLATE != PLAIN_TEMPLATE
CONTROL = ("<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>")
MARK_IDS = tuple(token_id(mark, CONTROL) for mark in MARKS)


@dataclass(frozen=True)
class TinyMiniCpmV:
    text: Tiny = field(default_factory=lambda: Tiny(layers="LF"))
    hidden: int = 24
    heads: int = 2
    depth: int = 3
    inserted: int = 1
    side: int = 6
    patch: int = 4
    slices: int = 4
    slice_patches: int = 8
    on_canvas: bool = False
    dtype: torch.dtype = torch.float32
    seed: int = 0


def make_minicpm_v(tiny: TinyMiniCpmV) -> PreTrainedModel:
    """The oracle itself, float32."""
    settings: dict[str, Any] = {
        "text_config": {"model_type": "qwen3_5_text", **text_config(tiny.text)},
        "vision_config": {
            "hidden_size": tiny.hidden,
            "intermediate_size": 2 * tiny.hidden,
            "num_hidden_layers": tiny.depth,
            "num_attention_heads": tiny.heads,
            "image_size": tiny.side * tiny.patch + 1,
            "patch_size": tiny.patch,
        },
        "insert_layer_id": tiny.inserted,
        "image_token_id": token_id("<|image_pad|>"),
        "tie_word_embeddings": tiny.text.tied,
    }
    model: PreTrainedModel
    if tiny.on_canvas:
        settings |= dict(zip(MARK_KEYS, MARK_IDS, strict=True))
        model = MiniCPMV4_7ForConditionalGeneration(MiniCPMV4_7Config(**settings))
    else:
        model = MiniCPMV4_6ForConditionalGeneration(MiniCPMV4_6Config(**settings))
    return randomise(model, tiny.seed, _is_norm)


def _is_norm(name: str) -> bool:
    of_tower = "vision_tower" in name or "merger" in name
    return is_plain_norm(name) or (of_tower and "norm" in name and name.endswith("weight"))


def preprocessor(tiny: TinyMiniCpmV) -> dict[str, Any]:
    """Slices of about `slice_patches` by as many patches."""
    return {
        "image_processor_type": "MiniCPMV4_6ImageProcessorPil",
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "patch_size": tiny.patch,
        "scale_resolution": tiny.slice_patches * tiny.patch,
        "max_slice_nums": tiny.slices,
    }


def write_minicpm_v(path: Path, tiny: TinyMiniCpmV = TinyMiniCpmV()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_minicpm_v(tiny)
    # A canvas keeps the line break after it.
    template = TEMPLATE.replace("_pad|>", "_pad|>\\n") if tiny.on_canvas else TEMPLATE
    write_text_folder(path, model, tiny.dtype, template=template, control=CONTROL)
    (path / "preprocessor_config.json").write_text(json.dumps(preprocessor(tiny)))
    return model


@dataclass(frozen=True)
class OnCanvas(Shaped):
    """Random patches of a picture of `rows` x `columns` pixels, and of its slices if it is large;
    a slice has at most 2 x 2 tokens of 4 x 4 patches."""

    slice_size: int = 48

    @property
    def plan(self) -> ResizePlan:
        config = SliceConfig(
            patch_size=self.patch,
            size=self.slice_size,
            most_slices=6,
            limit=0,
            marks=MARK_IDS,
            mean=HALF,
            std=HALF,
            resample=Resampling.BICUBIC,
            do_rescale=True,
            rescale_factor=1 / 255,
            do_normalize=True,
        )
        return SliceImageProcessor(config, on_canvas=True).measure(self.columns, self.rows)

    @property
    def pixels(self) -> Tensor:
        count = sum(grid.num_patches for grid in self.plan.grids)
        generator = torch.Generator().manual_seed(self.seed)
        return torch.rand((count, 3 * self.patch**2), generator=generator) * 2 - 1

    @property
    def segment(self) -> Image:
        plan, key = self.plan, f"canvas {self.seed:>9}".encode()
        places = plan.num_positions, plan.in_line, plan.canvas
        return Image(key, plan.rows, plan.columns, *places, plan.kept_ids)

    @property
    def line_break(self) -> TextRun:
        """Which follows the picture and is kept at its start."""
        return TextRun((token_id("\n"),), self.segment.num_positions)

    def rows_of(self, model: Decoder) -> Tensor:
        rows, grids = [], self.plan.grids
        for grid, pixels in zip(
            grids, self.pixels.split([grid.num_patches for grid in grids]), strict=True
        ):
            encoded = model.encode_image(pixels, grid.rows, grid.columns, lambda: None)
            before, after = (model.embed(torch.tensor(each)) for each in (grid.before, grid.after))
            rows += [before, encoded, after]
        return torch.cat(rows)


def oracle_inputs(pieces: Pieces) -> dict[str, Tensor]:
    """Arguments of the oracle's forward: patches side by side, in the order of its processor."""
    pad = token_id("<|image_pad|>")
    given = {"input_ids": torch.tensor([prompt_of(pieces).ids(pad)])}
    pictures = [piece for piece in pieces if isinstance(piece, Shaped)]
    canvases = [piece for piece in pieces if isinstance(piece, OnCanvas)]
    if not pictures:
        return given
    patch = pictures[0].patch
    patches = torch.cat([each.pixels for each in pictures]).view(-1, patch, patch, 3)
    given["pixel_values"] = patches.permute(3, 1, 0, 2).reshape(1, 3, patch, -1)
    shapes = [[each.rows, each.columns] for each in pictures]
    if canvases:
        grids = [grid for each in canvases for grid in each.plan.grids]
        shapes = [[grid.rows, grid.columns] for grid in grids]
        given["input_ids"] = torch.tensor([_with_marks(pieces, pad)])
        given["mm_token_type_ids"] = (given["input_ids"] == pad).int()
    given["target_sizes"] = torch.tensor(shapes)
    return given


def _with_marks(pieces: Pieces, pad: int) -> list[int]:
    ids: list[int] = []
    for piece in pieces:
        if isinstance(piece, OnCanvas):
            ids += ids_of(piece.plan.grids, pad)
        else:
            ids += piece if isinstance(piece, tuple) else prompt_of([piece]).ids(pad)
    return ids


def ids_of(grids: Sequence[Grid], pad: int) -> list[int]:
    """Ids of a picture: its marks, and `pad` for each of its tokens."""
    parts = [(*grid.before, *[pad] * (grid.num_patches // 16), *grid.after) for grid in grids]
    return [token_id for part in parts for token_id in part]
