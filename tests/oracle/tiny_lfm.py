"""Tiny folders of LFM2-MoE, LFM3 and LFM3-VL, made with transformers' own classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    Lfm2MoeConfig,
    Lfm2MoeForCausalLM,
    Lfm3Config,
    Lfm3ForCausalLM,
    Lfm3VlConfig,
    Lfm3VlForConditionalGeneration,
    PreTrainedModel,
)

from core.api.prompt import Image
from tests.oracle.checkpoints import image_ids, is_norm, randomise, save, token_id, write_beside
from tests.oracle.runs import Picture, Pieces, prompt_of
from tests.oracle.tiny_text import TinyLfm2, TinyText, lfm2_text_config, sizes, write

# ------------------------------------------------------------------ LFM2-MoE


@dataclass(frozen=True)
class TinyLfm2Moe(TinyLfm2):
    """LFM2 whose first `dense` blocks have no experts."""

    dense: int = 1
    experts: int = 8
    top_k: int = 3
    inner: int = 24


def write_lfm2_moe(path: Path, tiny: TinyLfm2Moe = TinyLfm2Moe()) -> PreTrainedModel:
    settings = {
        name: each for name, each in lfm2_text_config(tiny).items() if not name.startswith("block_")
    } | {
        "num_dense_layers": tiny.dense,
        "num_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
        "moe_intermediate_size": tiny.inner,
        **tiny.others,
    }
    return write(path, Lfm2MoeForCausalLM(Lfm2MoeConfig(**settings)), tiny)


# ------------------------------------------------------------------ LFM3


@dataclass(frozen=True)
class TinyLfm3(TinyText):
    """`layers` spells the kinds: C for a convolution, S for attention in a `window`,
    F for full attention."""

    layers: str = "CSCF"
    head_dim: int = 16
    window: int = 7
    taps: int = 7
    bias: bool = False
    tied: bool = field(default=True, kw_only=True)


def lfm3_text_config(tiny: TinyLfm3) -> dict[str, Any]:
    kinds = {"C": "conv", "S": "sliding_attention", "F": "full_attention"}
    return {
        **sizes(tiny),
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [kinds[letter] for letter in tiny.layers],
        "head_dim": tiny.head_dim,
        "sliding_window": tiny.window,
        "conv_L_cache": tiny.taps,
        "conv_bias": tiny.bias,
        **tiny.others,
    }


def write_lfm3(path: Path, tiny: TinyLfm3 = TinyLfm3()) -> PreTrainedModel:
    return write(path, Lfm3ForCausalLM(Lfm3Config(**lfm3_text_config(tiny))), tiny)


# ------------------------------------------------------------------ LFM3-VL


@dataclass(frozen=True)
class TinyLfm3Vl:
    """`tower` spells the kinds of its layers as `layers` of the text."""

    text: TinyLfm3 = field(default_factory=lambda: TinyLfm3("CSF"))
    tower: str = "CFC"
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    kernel: int = 3
    projector: int = 20
    projector_bias: bool = True
    dtype: torch.dtype = torch.float32
    seed: int = 0


def write_lfm3_vl(path: Path, tiny: TinyLfm3Vl = TinyLfm3Vl()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    kinds = {"C": "conv", "F": "full_attention"}
    config = Lfm3VlConfig(
        text_config={"model_type": "lfm3", **lfm3_text_config(tiny.text)},
        vision_config={
            "hidden_size": tiny.hidden,
            "intermediate_size": 40,
            "num_hidden_layers": len(tiny.tower),
            "layer_types": [kinds[letter] for letter in tiny.tower],
            "num_attention_heads": tiny.heads,
            "num_key_value_heads": tiny.kv_heads,
            "conv_kernel_size": tiny.kernel,
        },
        projector_hidden_size=tiny.projector,
        projector_bias=tiny.projector_bias,
        tie_word_embeddings=tiny.text.tied,
        **image_ids(),
    )
    model: PreTrainedModel = Lfm3VlForConditionalGeneration(config)
    randomise(model, tiny.seed, is_norm)
    save(model, path, tiny.dtype, "1GB")
    write_beside(path)
    return model


@dataclass(frozen=True)
class InLine(Picture):
    """Random patches of a grid; positions are a line."""

    @property
    def segment(self) -> Image:
        rows, columns = self.rows // 2, self.columns // 2
        return Image(f"in line {self.seed:>8}".encode(), rows, columns, rows * columns, True)


def oracle_inputs(pieces: Pieces) -> dict[str, Tensor]:
    """Arguments of the oracle's forward: ids, pixels and grids."""
    given = {"input_ids": torch.tensor([prompt_of(pieces).ids(token_id("<|image_pad|>"))])}
    pictures = [piece for piece in pieces if isinstance(piece, Picture)]
    if pictures:
        given["pixel_values"] = torch.cat([each.pixels for each in pictures])
        grids = [[1, each.rows, each.columns] for each in pictures]
        given["image_grid_thw"] = torch.tensor(grids)
    return given
