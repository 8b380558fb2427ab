"""Tiny Granite 4 folders, made with transformers' own classes and loadable by the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM, PreTrainedModel

from tests.oracle.checkpoints import (
    PLAIN_TEMPLATE,
    VOCABULARY,
    randomise,
    save,
    token_id,
    tokenizer,
)
from tests.oracle.runs import Pair, load

_KINDS = {"M": "linear_attention", "F": "full_attention"}


@dataclass(frozen=True)
class TinyGranite:
    """What to make. `layers` spells the kinds: M for Mamba-2, F for full attention; `others` are
    more keys of config.json. `experts` and how many of them a token takes; none if 0."""

    layers: str = "MFM"
    hidden: int = 32
    mlp: int = 48
    heads: int = 4
    kv_heads: int = 2
    mamba_heads: int = 4
    groups: int = 1
    state_dim: int = 16
    kernel: int = 4
    experts: int = 0
    top_k: int = 0
    inner: int = 24
    tied: bool = True
    positions: str | None = "nope"
    others: Mapping[str, Any] = field(default_factory=dict)
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    seed: int = 0


def make_granite(tiny: TinyGranite) -> PreTrainedModel:
    """The oracle itself, float32."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.inner,
        "shared_intermediate_size": tiny.mlp,
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [_KINDS[letter] for letter in tiny.layers],
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "num_local_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
        "position_embedding_type": tiny.positions,
        "mamba_n_heads": tiny.mamba_heads,
        "mamba_n_groups": tiny.groups,
        "mamba_d_state": tiny.state_dim,
        "mamba_d_conv": tiny.kernel,
        "mamba_chunk_size": 32,
        "max_position_embeddings": tiny.max_positions,
        "tie_word_embeddings": tiny.tied,
        "bos_token_id": None,
        "pad_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
        "embedding_multiplier": 5.0,
        "residual_multiplier": 0.22,
        "attention_multiplier": 0.3,
        "logits_scaling": 0.75,
    }
    config = GraniteMoeHybridConfig(**settings, **tiny.others)
    model: PreTrainedModel = GraniteMoeHybridForCausalLM(config)
    plain = ("norm.weight", ".D")
    randomise(model, tiny.seed, lambda name: name.endswith(plain))
    model.train(False)
    return model


def write_granite(path: Path, tiny: TinyGranite = TinyGranite()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_granite(tiny)
    save(model, path, tiny.dtype, "1GB")
    tokenizer().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (path / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    return model


def make_granite_pair(path: Path, tiny: TinyGranite) -> Pair:
    return Pair(write_granite(path, tiny), load(path))
