"""Tiny folders of the text-only families, made with transformers' own classes.

Each family has a dataclass of what to make, and a function that writes a whole folder and returns
the oracle in float32, with the folder's weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    FalconH1Config,
    FalconH1ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    GraniteMoeHybridConfig,
    GraniteMoeHybridForCausalLM,
    GraniteMoeSWAConfig,
    GraniteMoeSWAForCausalLM,
    GraniteSWAConfig,
    GraniteSWAForCausalLM,
    JambaConfig,
    JambaForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    NemotronHConfig,
    NemotronHForCausalLM,
    OlmoHybridConfig,
    OlmoHybridForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.oracle.checkpoints import VOCABULARY, randomise, token_id, write_text_folder


@dataclass(frozen=True, kw_only=True)
class TinyText:
    """Sizes common to all families; `others` are more keys of config.json."""

    hidden: int = 32
    mlp: int = 48
    heads: int = 4
    kv_heads: int = 2
    tied: bool = False
    others: Mapping[str, Any] = field(default_factory=dict)
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "1GB"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class TinyMamba(TinyText):
    mamba_heads: int = 4
    groups: int = 1
    state_dim: int = 16
    kernel: int = 4


def sizes(tiny: TinyText) -> dict[str, Any]:
    """The keys that all families share."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.mlp,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "max_position_embeddings": tiny.max_positions,
        "tie_word_embeddings": tiny.tied,
        "bos_token_id": None,
        "pad_token_id": None,
        "eos_token_id": token_id("<|im_end|>"),
    }


def write(path: Path, model: PreTrainedModel, tiny: TinyText, *plain: str) -> PreTrainedModel:
    """Write a folder; weights are random, those of norms and names that end with `plain` near 1."""
    randomise(model, tiny.seed, lambda name: name.endswith(("norm.weight", *plain)))
    return write_text_folder(path, model, tiny.dtype, tiny.max_shard_size)


# ------------------------------------------------------------------ Llama and Qwen3

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@dataclass(frozen=True)
class TinyLlama(TinyText):
    kind: str = "llama"
    layers: int = 3
    head_dim: int = 16
    attention_bias: bool = False
    mlp_bias: bool = False
    rope: Mapping[str, Any] = field(default_factory=lambda: {"rope_type": "default"})


def write_llama(path: Path, tiny: TinyLlama = TinyLlama()) -> PreTrainedModel:
    settings: dict[str, Any] = {
        **sizes(tiny),
        "num_hidden_layers": tiny.layers,
        "head_dim": tiny.head_dim,
        "attention_bias": tiny.attention_bias,
        "rope_parameters": {"rope_theta": 10000.0} | dict(tiny.rope),
    }
    model: PreTrainedModel
    if tiny.kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**settings))
    else:
        model = LlamaForCausalLM(LlamaConfig(**settings, mlp_bias=tiny.mlp_bias))
    return write(path, model, tiny)


# ------------------------------------------------------------------ Falcon-H1

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
class TinyFalconH1(TinyMamba):
    """`others` are more keys of config.json."""

    layers: int = 3
    head_dim: int = 8
    mamba_dim: int = 12
    theta: float = 1e11
    multipliers: Mapping[str, Any] = field(default_factory=lambda: MULTIPLIERS)


def write_falcon_h1(path: Path, tiny: TinyFalconH1 = TinyFalconH1()) -> PreTrainedModel:
    settings: dict[str, Any] = {
        **sizes(tiny),
        "num_hidden_layers": tiny.layers,
        "mamba_d_ssm": tiny.mamba_heads * tiny.mamba_dim,
        "mamba_n_heads": tiny.mamba_heads,
        "mamba_d_head": tiny.mamba_dim,
        "mamba_n_groups": tiny.groups,
        "mamba_d_state": tiny.state_dim,
        "mamba_d_conv": tiny.kernel,
        "mamba_chunk_size": 32,
        "rope_parameters": {"rope_type": "default", "rope_theta": tiny.theta},
        "head_dim": tiny.head_dim,
        **tiny.multipliers,
        **tiny.others,
    }
    model = FalconH1ForCausalLM(FalconH1Config(**settings))
    return write(path, model, tiny, ".D")


# ------------------------------------------------------------------ Granite 4

_GRANITE_KINDS = {"M": "linear_attention", "F": "full_attention"}


@dataclass(frozen=True)
class TinyGranite(TinyMamba):
    """`layers` spells the kinds: M for Mamba-2, F for full attention; `others` are
    more keys of config.json. `experts` and how many of them a token takes; none if 0."""

    layers: str = "MFM"
    experts: int = 0
    top_k: int = 0
    inner: int = 24
    tied: bool = field(default=True, kw_only=True)
    positions: str | None = "nope"


def write_granite(path: Path, tiny: TinyGranite = TinyGranite()) -> PreTrainedModel:
    settings: dict[str, Any] = {
        **sizes(tiny),
        "intermediate_size": tiny.inner,
        "shared_intermediate_size": tiny.mlp,
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [_GRANITE_KINDS[letter] for letter in tiny.layers],
        "num_local_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
        "position_embedding_type": tiny.positions,
        "mamba_n_heads": tiny.mamba_heads,
        "mamba_n_groups": tiny.groups,
        "mamba_d_state": tiny.state_dim,
        "mamba_d_conv": tiny.kernel,
        "mamba_chunk_size": 32,
        "embedding_multiplier": 5.0,
        "residual_multiplier": 0.22,
        "attention_multiplier": 0.3,
        "logits_scaling": 0.75,
    }
    config = GraniteMoeHybridConfig(**settings, **tiny.others)
    return write(path, GraniteMoeHybridForCausalLM(config), tiny, ".D")


# ------------------------------------------------------------------ Granite SWA


@dataclass(frozen=True)
class TinyGraniteSwa(TinyText):
    """`layers` spells the kinds: S for the last `window` tokens, F for all; 0 in
    `thetas` is a layer without positions. `experts` as of Granite 4."""

    layers: str = "FSS"
    window: int = 20
    thetas: tuple[float, ...] | None = None
    experts: int = 0
    top_k: int = 2
    shared: int = 0


def write_granite_swa(path: Path, tiny: TinyGraniteSwa = TinyGraniteSwa()) -> PreTrainedModel:
    kinds = {"S": "sliding_attention", "F": "full_attention"}
    settings: dict[str, Any] = {
        **sizes(tiny),
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [kinds[letter] for letter in tiny.layers],
        "layer_rope_theta": tiny.thetas and list(tiny.thetas),
        "sliding_window": tiny.window,
        "embedding_multiplier": 5.0,
        "residual_multiplier": 0.22,
        "attention_multiplier": 0.3,
        "logits_scaling": 0.75,
        **tiny.others,
    }
    model: PreTrainedModel
    if tiny.experts:
        settings |= {
            "num_local_experts": tiny.experts,
            "num_experts_per_tok": tiny.top_k,
            "shared_intermediate_size": tiny.shared,
        }
        model = GraniteMoeSWAForCausalLM(GraniteMoeSWAConfig(**settings))
    else:
        model = GraniteSWAForCausalLM(GraniteSWAConfig(**settings))
    return write(path, model, tiny)


# ------------------------------------------------------------------ gpt-oss


@dataclass(frozen=True)
class TinyGptOss(TinyText):
    """Sizes of a model. `layers` is spelled as for Granite SWA."""

    layers: str = "SFSF"
    head_dim: int = 16
    window: int = 20
    experts: int = 8
    top_k: int = 3
    rope: Mapping[str, Any] = field(default_factory=dict)


def write_gpt_oss(path: Path, tiny: TinyGptOss = TinyGptOss()) -> PreTrainedModel:
    kinds = {"S": "sliding_attention", "F": "full_attention"}
    yarn = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "truncate": False}
    settings: dict[str, Any] = {
        **sizes(tiny),
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [kinds[letter] for letter in tiny.layers],
        "head_dim": tiny.head_dim,
        "sliding_window": tiny.window,
        "num_local_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
        "swiglu_limit": 1.5,
        "rope_parameters": {**yarn, "original_max_position_embeddings": 64, **tiny.rope},
        **tiny.others,
    }
    return write(path, GptOssForCausalLM(GptOssConfig(**settings)), tiny)


# ------------------------------------------------------------------ Jamba


@dataclass(frozen=True)
class TinyJamba(TinyText):
    """`attention` and `sparse` are (period, offset) of those blocks; `others` are
    more keys of config.json."""

    layers: int = 4
    attention: tuple[int, int] = (3, 1)
    sparse: tuple[int, int] = (2, 1)
    experts: int = 6
    top_k: int = 2
    mlp: int = field(default=40, kw_only=True)
    state_dim: int = 16
    rank: int | str = "auto"
    kernel: int = 4


def write_jamba(path: Path, tiny: TinyJamba = TinyJamba()) -> PreTrainedModel:
    settings: dict[str, Any] = {
        **sizes(tiny),
        "num_hidden_layers": tiny.layers,
        "attn_layer_period": tiny.attention[0],
        "attn_layer_offset": tiny.attention[1],
        "expert_layer_period": tiny.sparse[0],
        "expert_layer_offset": tiny.sparse[1],
        "num_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
        "mamba_d_state": tiny.state_dim,
        "mamba_d_conv": tiny.kernel,
        "mamba_dt_rank": tiny.rank,
    }
    model = JambaForCausalLM(JambaConfig(**settings, **tiny.others))
    return write(path, model, tiny, ".D")


# ------------------------------------------------------------------ Nemotron-H

_NEMOTRON_KINDS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


@dataclass(frozen=True)
class TinyNemotron(TinyMamba):
    """`layers` spells the kinds as releases do: M for Mamba-2, * for attention, - for
    an MLP, E for `experts`, of which a token takes `top_k`; `others` are more keys of config.json.
    """

    layers: str = "M-*-M"
    head_dim: int = 16
    mamba_dim: int = 12
    groups: int = field(default=2, kw_only=True)
    experts: int = 8
    top_k: int = 3


def nemotron_config(tiny: TinyNemotron) -> dict[str, Any]:
    settings: dict[str, Any] = {
        **sizes(tiny),
        "layers_block_type": [_NEMOTRON_KINDS[letter] for letter in tiny.layers],
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
    }
    return settings | dict(tiny.others)


def write_nemotron(path: Path, tiny: TinyNemotron = TinyNemotron()) -> PreTrainedModel:
    model = NemotronHForCausalLM(NemotronHConfig(**nemotron_config(tiny)))
    return write(path, model, tiny, "norm_f.weight", ".D")


# ------------------------------------------------------------------ LFM2


@dataclass(frozen=True)
class TinyLfm2(TinyText):
    """`layers` spells the kinds: C for a convolution, F for full attention."""

    layers: str = "CCFC"
    adjusted: bool = True
    taps: int = 3
    bias: bool = False
    tied: bool = field(default=True, kw_only=True)


def lfm2_text_config(tiny: TinyLfm2) -> dict[str, Any]:
    kinds = {"C": "conv", "F": "full_attention"}
    return {
        **sizes(tiny),
        "block_auto_adjust_ff_dim": tiny.adjusted,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.1,
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [kinds[letter] for letter in tiny.layers],
        "conv_L_cache": tiny.taps,
        "conv_bias": tiny.bias,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }


def write_lfm2(path: Path, tiny: TinyLfm2 = TinyLfm2()) -> PreTrainedModel:
    model = Lfm2ForCausalLM(Lfm2Config(**lfm2_text_config(tiny)))
    return write(path, model, tiny)


# ------------------------------------------------------------------ OLMo-Hybrid


@dataclass(frozen=True)
class TinyOlmoHybrid(TinyText):
    """`layers` spells the kinds: L for a delta net, F for attention; without a
    `theta` attention knows no positions."""

    layers: str = "LFL"
    theta: float | None = None
    key_heads: int = 2
    key_dim: int = 12
    value_heads: int = 4
    value_dim: int = 24
    taps: int = 4


def write_olmo_hybrid(path: Path, tiny: TinyOlmoHybrid = TinyOlmoHybrid()) -> PreTrainedModel:
    kinds = {"L": "linear_attention", "F": "full_attention"}
    config = OlmoHybridConfig(
        **sizes(tiny),
        num_hidden_layers=len(tiny.layers),
        layer_types=[kinds[letter] for letter in tiny.layers],
        linear_num_key_heads=tiny.key_heads,
        linear_num_value_heads=tiny.value_heads,
        linear_key_head_dim=tiny.key_dim,
        linear_value_head_dim=tiny.value_dim,
        linear_conv_kernel_dim=tiny.taps,
        rope_parameters={"rope_theta": tiny.theta, "rope_type": "default"},
        **tiny.others,
    )
    model = write(path, OlmoHybridForCausalLM(config), tiny)
    for file in path.glob("*.safetensors"):
        save_file(_with_own_convolutions(load_file(file), tiny), file, {"format": "pt"})
    return model


def _with_own_convolutions(tensors: dict[str, Tensor], tiny: TinyOlmoHybrid) -> dict[str, Tensor]:
    """Convolutions as in releases: transformers saves three parts of one size, and reads any."""
    keys, values = tiny.key_heads * tiny.key_dim, tiny.value_heads * tiny.value_dim
    for first in [name for name in tensors if "q_conv1d" in name]:
        names = [first.replace("q_conv1d", f"{part}_conv1d") for part in "qkv"]
        joined = torch.cat([tensors[name] for name in names])
        parts = joined.split([keys, keys, values])
        tensors |= {name: part.clone() for name, part in zip(names, parts, strict=True)}
    return tensors


# ------------------------------------------------------------------ Ministral 3

# The queries of a prompt of 150 tokens have three temperatures.
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.4,
}


@dataclass(frozen=True)
class TinyMinistral3(TinyText):
    layers: int = 3
    head_dim: int = 16
    rope: Mapping[str, Any] = field(default_factory=lambda: YARN)


def write_ministral3(path: Path, tiny: TinyMinistral3 = TinyMinistral3()) -> PreTrainedModel:
    config = Ministral3Config(
        **sizes(tiny),
        num_hidden_layers=tiny.layers,
        head_dim=tiny.head_dim,
        rope_parameters=dict(tiny.rope),
        **tiny.others,
    )
    return write(path, Ministral3ForCausalLM(config), tiny)
