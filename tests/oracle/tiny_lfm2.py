"""Tiny LFM2 folders, made with transformers' own classes and loadable by the engine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import Lfm2Config, Lfm2ForCausalLM, PreTrainedModel

from tests.oracle.checkpoints import (
    PLAIN_TEMPLATE,
    VOCABULARY,
    randomise,
    save,
    token_id,
    tokenizer,
)
from tests.oracle.runs import Pair, load


@dataclass(frozen=True)
class TinyLfm2:
    """What to make. `layers` spells the kinds: C for a convolution, F for full attention."""

    layers: str = "CCFC"
    hidden: int = 32
    mlp: int = 48
    adjusted: bool = True
    heads: int = 4
    kv_heads: int = 2
    taps: int = 3
    bias: bool = False
    tied: bool = True
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "1GB"
    seed: int = 0


def text_config(tiny: TinyLfm2) -> dict[str, Any]:
    kinds = {"C": "conv", "F": "full_attention"}
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.mlp,
        "block_auto_adjust_ff_dim": tiny.adjusted,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.1,
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [kinds[letter] for letter in tiny.layers],
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "conv_L_cache": tiny.taps,
        "conv_bias": tiny.bias,
        "max_position_embeddings": tiny.max_positions,
        "tie_word_embeddings": tiny.tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "bos_token_id": None,
        "pad_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
    }


def is_norm(name: str) -> bool:
    """Whether a norm multiplies by this weight."""
    return "norm" in name.split(".")[-2] and name.endswith("weight")


def make_lfm2(tiny: TinyLfm2) -> PreTrainedModel:
    """The oracle itself, float32."""
    model: PreTrainedModel = Lfm2ForCausalLM(Lfm2Config(**text_config(tiny)))
    randomise(model, tiny.seed, is_norm)
    model.train(False)
    return model


def write_lfm2(path: Path, tiny: TinyLfm2 = TinyLfm2()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_lfm2(tiny)
    save(model, path, tiny.dtype, tiny.max_shard_size)
    tokenizer().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (path / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    return model


def make_lfm2_pair(path: Path, tiny: TinyLfm2) -> Pair:
    return Pair(write_lfm2(path, tiny), load(path))
