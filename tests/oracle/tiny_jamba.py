"""Tiny Jamba folders, made with transformers' own classes and loadable by the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import JambaConfig, JambaForCausalLM, PreTrainedModel

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
class TinyJamba:
    """What to make. `attention` and `sparse` are (period, offset) of those blocks; `others` are
    more keys of config.json."""

    layers: int = 4
    attention: tuple[int, int] = (3, 1)
    sparse: tuple[int, int] = (2, 1)
    experts: int = 6
    top_k: int = 2
    hidden: int = 32
    mlp: int = 40
    heads: int = 4
    kv_heads: int = 2
    state_dim: int = 16
    rank: int | str = "auto"
    kernel: int = 4
    tied: bool = False
    others: Mapping[str, Any] = field(default_factory=dict)
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    seed: int = 0


def make_jamba(tiny: TinyJamba) -> PreTrainedModel:
    """The oracle itself, float32."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.mlp,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "attn_layer_period": tiny.attention[0],
        "attn_layer_offset": tiny.attention[1],
        "expert_layer_period": tiny.sparse[0],
        "expert_layer_offset": tiny.sparse[1],
        "num_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
        "mamba_d_state": tiny.state_dim,
        "mamba_d_conv": tiny.kernel,
        "mamba_dt_rank": tiny.rank,
        "max_position_embeddings": tiny.max_positions,
        "tie_word_embeddings": tiny.tied,
        "bos_token_id": None,
        "pad_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
    }
    model: PreTrainedModel = JambaForCausalLM(JambaConfig(**settings, **tiny.others))
    plain = ("norm.weight", ".D")
    randomise(model, tiny.seed, lambda name: name.endswith(plain))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Time steps as in released models, with which states last for many tokens.
            if name.endswith("dt_proj.bias"):
                parameter.sub_(4.0)
    model.train(False)
    return model


def write_jamba(path: Path, tiny: TinyJamba = TinyJamba()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_jamba(tiny)
    save(model, path, tiny.dtype, "1GB")
    tokenizer().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (path / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    return model


def make_jamba_pair(path: Path, tiny: TinyJamba) -> Pair:
    return Pair(write_jamba(path, tiny), load(path))
