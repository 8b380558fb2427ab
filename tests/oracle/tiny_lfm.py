"""Tiny folders of LFM2 with sparse experts, made with transformers' own classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import Lfm2MoeConfig, Lfm2MoeForCausalLM, PreTrainedModel

from tests.oracle.checkpoints import randomise, write_text_folder
from tests.oracle.tiny_text import TinyLfm2, is_norm, lfm2_text_config


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
