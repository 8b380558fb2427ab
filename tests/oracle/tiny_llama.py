"""Tiny Llama and Qwen3 folders, made with transformers' own classes and loadable by the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.oracle.checkpoints import (
    PLAIN_TEMPLATE,
    VOCABULARY,
    randomise,
    save,
    token_id,
    tokenizer,
)
from tests.oracle.runs import Pair, load

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@dataclass(frozen=True)
class TinyLlama:
    """What to make."""

    kind: str = "llama"
    layers: int = 3
    hidden: int = 32
    mlp: int = 48
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    tied: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    rope: Mapping[str, Any] = field(default_factory=lambda: {"rope_type": "default"})
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "1GB"
    seed: int = 0


def make_llama(tiny: TinyLlama) -> PreTrainedModel:
    """The oracle itself, float32."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.mlp,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "head_dim": tiny.head_dim,
        "max_position_embeddings": tiny.max_positions,
        "attention_bias": tiny.attention_bias,
        "tie_word_embeddings": tiny.tied,
        "bos_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
        "rope_parameters": {"rope_theta": 10000.0} | dict(tiny.rope),
    }
    model: PreTrainedModel
    if tiny.kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**settings))
    else:
        model = LlamaForCausalLM(LlamaConfig(**settings, mlp_bias=tiny.mlp_bias))
    randomise(model, tiny.seed, lambda name: name.endswith("norm.weight"))
    model.train(False)
    return model


def write_llama(path: Path, tiny: TinyLlama = TinyLlama()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_llama(tiny)
    save(model, path, tiny.dtype, tiny.max_shard_size)
    tokenizer().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (path / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    return model


def make_llama_pair(path: Path, tiny: TinyLlama) -> Pair:
    return Pair(write_llama(path, tiny), load(path))
