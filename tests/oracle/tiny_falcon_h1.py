"""Tiny Falcon-H1 folders, made with transformers' own classes and loadable by the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import FalconH1Config, FalconH1ForCausalLM, PreTrainedModel

from tests.oracle.checkpoints import (
    PLAIN_TEMPLATE,
    VOCABULARY,
    randomise,
    save,
    token_id,
    tokenizer,
)
from tests.oracle.runs import Pair, load

# Each one another number, so that none can stand in for another.
MULTIPLIERS = {
    "embedding_multiplier": 5.656854249492381,
    "lm_head_multiplier": 0.390625,
    "attention_in_multiplier": 1.375,
    "attention_out_multiplier": 0.9375,
    "key_multiplier": 0.7,
    "mlp_multipliers": [0.8838834764831844, 0.5859375],
    "ssm_in_multiplier": 1.25,
    "ssm_out_multiplier": 0.23570226039551587,
    "ssm_multipliers": [0.85, 0.75, 0.95, 1.5, 0.65],
}


@dataclass(frozen=True)
class TinyFalconH1:
    """What to make. `others` are more keys of config.json."""

    layers: int = 3
    hidden: int = 32
    mlp: int = 48
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    mamba_heads: int = 4
    mamba_dim: int = 12
    groups: int = 1
    state_dim: int = 16
    kernel: int = 4
    tied: bool = False
    theta: float = 1e11
    multipliers: Mapping[str, Any] = field(default_factory=lambda: MULTIPLIERS)
    others: Mapping[str, Any] = field(default_factory=dict)
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    seed: int = 0


def make_falcon_h1(tiny: TinyFalconH1) -> PreTrainedModel:
    """The oracle itself, float32."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.mlp,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "mamba_d_ssm": tiny.mamba_heads * tiny.mamba_dim,
        "mamba_n_heads": tiny.mamba_heads,
        "mamba_d_head": tiny.mamba_dim,
        "mamba_n_groups": tiny.groups,
        "mamba_d_state": tiny.state_dim,
        "mamba_d_conv": tiny.kernel,
        "mamba_chunk_size": 32,
        "max_position_embeddings": tiny.max_positions,
        "tie_word_embeddings": tiny.tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": tiny.theta},
        "bos_token_id": None,
        "pad_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
        "head_dim": tiny.head_dim,
        **tiny.multipliers,
        **tiny.others,
    }
    model: PreTrainedModel = FalconH1ForCausalLM(FalconH1Config(**settings))
    plain = ("norm.weight", ".D")
    randomise(model, tiny.seed, lambda name: name.endswith(plain))
    model.train(False)
    return model


def write_falcon_h1(path: Path, tiny: TinyFalconH1 = TinyFalconH1()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_falcon_h1(tiny)
    save(model, path, tiny.dtype, "1GB")
    tokenizer().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (path / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    return model


def make_falcon_h1_pair(path: Path, tiny: TinyFalconH1) -> Pair:
    return Pair(write_falcon_h1(path, tiny), load(path))
