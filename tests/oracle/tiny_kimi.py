"""Tiny Kimi-Linear folders, made with transformers' own class and named as the release names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from transformers import KimiLinearConfig, KimiLinearForCausalLM, PreTrainedModel

from tests.oracle.tiny_text import TinyText, sizes, write


@dataclass(frozen=True)
class TinyKimi(TinyText):
    """Sizes of a model. `layers` has a K for Kimi delta attention and an F for latent attention;
    the first `dense` have an MLP, the others `experts`, of which a token takes `top_k`.

    Releases name dense layers otherwise than sparse ones; `as_saved` keeps transformers' names."""

    layers: str = "KKFK"
    dense: int = 1
    delta_heads: int = 2
    delta_dim: int = 16
    taps: int = 4
    rank: int = 24
    shared: int = 6
    key_dim: int = 10
    value_dim: int = 8
    experts: int = 6
    top_k: int = 2
    num_shared: int = 1
    as_saved: bool = False


def write_kimi(path: Path, tiny: TinyKimi = TinyKimi()) -> PreTrainedModel:
    kinds = {"K": "linear_attention", "F": "full_attention"}
    settings: dict[str, Any] = {
        **sizes(tiny),
        "num_key_value_heads": tiny.heads,
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [kinds[letter] for letter in tiny.layers],
        "first_k_dense_replace": tiny.dense,
        "linear_head_dim": tiny.delta_dim,
        "linear_num_heads": tiny.delta_heads,
        "linear_conv_kernel_dim": tiny.taps,
        "kv_lora_rank": tiny.rank,
        "qk_rope_head_dim": tiny.shared,
        "qk_nope_head_dim": tiny.key_dim,
        "v_head_dim": tiny.value_dim,
        "num_local_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
        "n_shared_experts": tiny.num_shared,
        "moe_intermediate_size": 16,
    }
    model = KimiLinearForCausalLM(KimiLinearConfig(**settings | dict(tiny.others)))
    oracle = write(path, model, tiny)
    file = path / "model.safetensors"
    if not tiny.as_saved:
        spelled = {_of_dense(name): each for name, each in load_file(file).items()}
        save_file(spelled, file, {"format": "pt"})
    return oracle


def _of_dense(name: str) -> str:
    return re.sub(r"block_sparse_moe\.(\w+_proj\.)", r"mlp.\1", name)
