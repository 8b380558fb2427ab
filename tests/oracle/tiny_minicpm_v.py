"""Tiny MiniCPM-V 4.6 folders, made with transformers' own classes, and prompts for both sides."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer
from torch import Tensor
from transformers import (
    MiniCPMV4_6Config,
    MiniCPMV4_6ForConditionalGeneration,
    PreTrainedModel,
)

from tests.oracle import checkpoints
from tests.oracle.checkpoints import (
    PLAIN_TEMPLATE,
    Tiny,
    is_plain_norm,
    randomise,
    save,
    text_config,
)
from tests.oracle.runs import Pair, Pieces, load, prompt_of
from tests.oracle.tiny_lfm2_vl import Shaped

TEMPLATE = PLAIN_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", "<|image_pad|>")
assert TEMPLATE != PLAIN_TEMPLATE
CONTROL = ("<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>")


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
    dtype: torch.dtype = torch.float32
    seed: int = 0


@cache
def tokenizer() -> Tokenizer:
    """The tokenizer of the other tiny folders, and this family's own tokens."""
    result = Tokenizer.from_str(checkpoints.tokenizer().to_str())
    result.add_special_tokens([AddedToken(text, normalized=False) for text in CONTROL])
    return result


def make_minicpm_v(tiny: TinyMiniCpmV) -> PreTrainedModel:
    """The oracle itself, float32."""
    config = MiniCPMV4_6Config(
        text_config={"model_type": "qwen3_5_text", **text_config(tiny.text)},
        vision_config={
            "hidden_size": tiny.hidden,
            "intermediate_size": 2 * tiny.hidden,
            "num_hidden_layers": tiny.depth,
            "num_attention_heads": tiny.heads,
            "image_size": tiny.side * tiny.patch + 1,
            "patch_size": tiny.patch,
        },
        insert_layer_id=tiny.inserted,
        image_token_id=checkpoints.token_id("<|image_pad|>"),
        tie_word_embeddings=tiny.text.tied,
    )
    model: PreTrainedModel = MiniCPMV4_6ForConditionalGeneration(config)
    randomise(model, tiny.seed, _is_norm)
    model.train(False)
    return model


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
    save(model, path, tiny.dtype, "1GB")
    tokenizer().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (path / "preprocessor_config.json").write_text(json.dumps(preprocessor(tiny)))
    (path / "chat_template.jinja").write_text(TEMPLATE)
    return model


def make_minicpm_v_pair(path: Path, tiny: TinyMiniCpmV) -> Pair:
    return Pair(write_minicpm_v(path, tiny), load(path))


def oracle_inputs(pieces: Pieces) -> dict[str, Tensor]:
    """The arguments of the oracle's forward: patches side by side, as its processor orders them."""
    pad = checkpoints.token_id("<|image_pad|>")
    given = {"input_ids": torch.tensor([prompt_of(pieces).ids(pad)])}
    pictures = [piece for piece in pieces if isinstance(piece, Shaped)]
    if pictures:
        patch = pictures[0].patch
        patches = torch.cat([each.pixels for each in pictures]).view(-1, patch, patch, 3)
        given["pixel_values"] = patches.permute(3, 1, 0, 2).reshape(1, 3, patch, -1)
        given["target_sizes"] = torch.tensor([[each.rows, each.columns] for each in pictures])
    return given
