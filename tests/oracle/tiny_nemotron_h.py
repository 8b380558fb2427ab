"""Tiny Nemotron-H folders, made with transformers' own classes and loadable by the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import NemotronHConfig, NemotronHForCausalLM, PreTrainedModel

from tests.oracle.checkpoints import (
    PLAIN_TEMPLATE,
    VOCABULARY,
    randomise,
    save,
    token_id,
    tokenizer,
)
from tests.oracle.runs import Pair, load

_KINDS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


@dataclass(frozen=True)
class TinyNemotron:
    """What to make. `layers` spells the kinds as releases do: M for Mamba-2, * for attention, - for
    an MLP, E for `experts`, of which a token takes `top_k`; `others` are more keys of config.json.
    """

    layers: str = "M-*-M"
    hidden: int = 32
    mlp: int = 48
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    mamba_heads: int = 4
    mamba_dim: int = 12
    groups: int = 2
    state_dim: int = 16
    experts: int = 8
    top_k: int = 3
    others: Mapping[str, Any] = field(default_factory=dict)
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    seed: int = 0


def make_nemotron(tiny: TinyNemotron) -> PreTrainedModel:
    """The oracle itself, float32."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.mlp,
        "layers_block_type": [_KINDS[letter] for letter in tiny.layers],
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "head_dim": tiny.head_dim,
        "mamba_num_heads": tiny.mamba_heads,
        "mamba_head_dim": tiny.mamba_dim,
        "n_groups": tiny.groups,
        "ssm_state_size": tiny.state_dim,
        "chunk_size": 32,
        "n_routed_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 40,
        "routed_scaling_factor": 2.5,
        "max_position_embeddings": tiny.max_positions,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "pad_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
    }
    config = NemotronHConfig(**settings | dict(tiny.others))
    model: PreTrainedModel = NemotronHForCausalLM(config)
    plain = ("norm.weight", "norm_f.weight", ".D")
    randomise(model, tiny.seed, lambda name: name.endswith(plain))
    generator = torch.Generator().manual_seed(tiny.seed)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):  # about as far apart as scores are
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
    model.train(False)
    return model


def write_nemotron(path: Path, tiny: TinyNemotron = TinyNemotron()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_nemotron(tiny)
    save(model, path, tiny.dtype, "1GB")
    tokenizer().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (path / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    return model


def make_nemotron_pair(path: Path, tiny: TinyNemotron) -> Pair:
    return Pair(write_nemotron(path, tiny), load(path))
