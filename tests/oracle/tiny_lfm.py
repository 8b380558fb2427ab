"""Tiny folders of LFM2 with sparse experts and of LFM3, made with transformers' own classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import (
    Lfm2MoeConfig,
    Lfm2MoeForCausalLM,
    Lfm3Config,
    Lfm3ForCausalLM,
    PreTrainedModel,
)

from tests.oracle.checkpoints import randomise, write_text_folder
from tests.oracle.tiny_text import TinyLfm2, TinyText, is_norm, lfm2_text_config, sizes

# ------------------------------------------------------------------ LFM2-MoE


@dataclass(frozen=True)
class TinyLfm2Moe(TinyLfm2):
    """What to make: LFM2 whose first `dense` blocks have no experts."""

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
    model: PreTrainedModel = Lfm2MoeForCausalLM(Lfm2MoeConfig(**settings))
    randomise(model, tiny.seed, is_norm)
    generator = torch.Generator().manual_seed(tiny.seed)
    for name, buffer in model.named_buffers():
        if name.endswith("expert_bias"):  # about as far apart as scores are
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
    model.train(False)
    return write_text_folder(path, model, tiny.dtype, tiny.max_shard_size)


# ------------------------------------------------------------------ LFM3


@dataclass(frozen=True)
class TinyLfm3(TinyText):
    """What to make. `layers` spells the kinds: C for a convolution, S for attention in a `window`,
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
    model: PreTrainedModel = Lfm3ForCausalLM(Lfm3Config(**lfm3_text_config(tiny)))
    randomise(model, tiny.seed, is_norm)
    model.train(False)
    return write_text_folder(path, model, tiny.dtype, tiny.max_shard_size)
