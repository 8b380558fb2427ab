"""config.json of every family: what is read of it, by a table, and what is refused by its key."""

from __future__ import annotations

import math
from ast import literal_eval
from functools import reduce
from typing import Any

import pytest
import torch

from core.api.errors import BrokenConfigError
from core.layers.rope import inverse_frequencies
from kernels.common.shapes import DeltaShape, Mamba2Shape, Routing
from tests.models.releases import (
    MINICPM_V,
    NEMOTRON_OMNI,
    RELEASED,
    WITH_EXPERTS,
    changed,
    parse,
    planned,
)

CPU = torch.device("cpu")
CONFIGS: dict[str, dict[str, Any]] = RELEASED | {
    "llama": {
        "model_type": "llama",
        "vocab_size": 100,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
    "qwen3_5": {
        "model_type": "qwen3_5",
        "text_config": {
            "vocab_size": 100,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_section": [2, 1, 1],
            },
        },
        "vision_config": {
            "depth": 2,
            "hidden_size": 32,
            "num_heads": 2,
            "intermediate_size": 64,
            "out_hidden_size": 32,
        },
    },
    "qwen3_5_text": {
        "model_type": "qwen3_5_text",
        "vocab_size": 100,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    "gemma3_text": RELEASED["Gemma-3-4B"]["text_config"] | {"rope_scaling": None},
    "gemma4_text": {"model_type": "gemma4_text", "num_hidden_layers": 2},
    "nemotron_h": {"model_type": "nemotron_h", "layers_block_type": ["moe"]},
    "nemotron_h_omni": NEMOTRON_OMNI,
    "minicpmv4_7": MINICPM_V,
    "jamba": {"model_type": "jamba", "hidden_size": 72, "num_attention_heads": 8},
}


def few(name: str, *keys: str) -> dict[str, Any]:
    """A released config.json with only these keys."""
    return {key: RELEASED[name][key] for key in ("model_type", *keys)}


SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
CONFIGS["qwen3_moe"] = few("Qwen3-30B-A3B", *SIZES)
CONFIGS["falcon_h1"] = few("Falcon-H1-0.5B-Instruct", *SIZES, "intermediate_size") | {
    "num_attention_heads": 16
}
CONFIGS["granite"] = few("Granite-4.0-H-350M", *SIZES) | {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_local_experts": 0,
}
CONFIGS["qwen3_vl_moe"] = {
    "model_type": "qwen3_vl_moe",
    "text_config": {key: RELEASED["Qwen3-VL-30B-A3B"]["text_config"][key] for key in SIZES}
    | {"norm_topk_prob": False},
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
L, F = "linear_attention", "full_attention"
FULL_OF_LFM2 = [2, 5, 8, 10, 12, 14]
NEWER_LFM2: dict[str, Any] = {
    "block_ff_dim": None,
    "intermediate_size": 12288,
    "full_attn_idxs": None,
    "layer_types": [F if index in FULL_OF_LFM2 else "conv" for index in range(16)],
    "rope_theta": None,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
}
READ_OF_LFM2 = {
    "head_dim": 64,
    "mlp_width": 8192,
    "layer_types": tuple(NEWER_LFM2["layer_types"]),
    "rope_parameters.rope_theta": 1e6,
    "tie_word_embeddings": True,
}
TEXT = "text_config."
ROPE = f"{TEXT}rope_parameters"


def values_of(text: str) -> dict[str, Any]:
    """Of `key=literal; key=literal`."""
    pairs = (each.partition("=") for each in text.split(";") if each.strip())
    return {key.strip(): literal_eval(value.strip()) for key, _, value in pairs}


# A config, a change (... removes a key), and what the family reads: attributes by dotted name.
READ_TABLE = """
llama | | num_key_value_heads=4; head_dim=16; max_position_embeddings=2048;
    tie_word_embeddings=False; rope_parameters.rope_theta=10000
llama | model_type='qwen3'; sliding_window=None | head_dim=128; max_position_embeddings=32768
qwen3_moe | | num_experts=128; num_experts_per_tok=8; moe_intermediate_size=768;
    norm_topk_prob=False; num_key_value_heads=4; head_dim=64
qwen3_moe | num_local_experts=60 | num_experts=60
qwen3_5_text | tie_word_embeddings=True | text_config.hidden_size=32; vision=None; tied=True
qwen3_5 | text_config.rope_parameters=...; text_config.rope_theta=5000000;
    text_config.partial_rotary_factor=0.5;
    text_config.rope_scaling={'type': 'mrope', 'mrope_section': [2, 1, 1]} |
    text_config.rope_parameters.rope_theta=5000000.0;
    text_config.rope_parameters.partial_rotary_factor=0.5;
    text_config.rope_parameters.mrope_section=(2, 1, 1)
qwen3_5 | text_config.rope_parameters=None | text_config.rope_parameters.rope_theta=10000
qwen3_5 | text_config.rope_parameters=...; text_config.rope_scaling=None |
    text_config.rope_parameters.rope_theta=10000
qwen3_5 | vision_config=... | vision=None
qwen3_5 | vision_config=None | vision=None
qwen3_5 | language_model_only=True | vision=None
qwen3_5 | dtype='bfloat16'; output_gate_type='swish' | tied=False
Qwen3-Next-80B-A3B | | text_config.rope_parameters.rope_theta=10000000.0;
    text_config.rotary_dim=64; text_config.by_key_head=True; vision=None; tied=False
Qwen3-Next-80B-A3B | shared_expert_intermediate_size=...; num_experts=...; num_experts_per_tok=...
    | text_config.num_experts=512; text_config.num_experts_per_tok=10;
    text_config.shared_expert_intermediate_size=512
Qwen3-VL-4B | | text_config.head_dim=128; text_config.num_key_value_heads=8;
    text_config.rope_parameters.rope_theta=5000000.0;
    text_config.rope_parameters.mrope_section=(24, 20, 20); tied=True; image_layers=3;
    vision_config.deepstack_visual_indexes=(5, 11, 17)
Qwen3-VL-8B | | tied=False; image_layers=3; text_config.num_hidden_layers=36
Qwen3-VL-32B | | tied=False; image_layers=3; text_config.num_hidden_layers=64
Qwen3-VL-30B-A3B | | text_config.num_experts=128; text_config.num_experts_per_tok=8;
    text_config.norm_topk_prob=True
qwen3_vl_moe | | text_config.num_key_value_heads=16; text_config.head_dim=64;
    text_config.num_experts=60; text_config.num_experts_per_tok=4;
    text_config.moe_intermediate_size=1408; text_config.intermediate_size=5632;
    text_config.max_position_embeddings=128000; text_config.norm_topk_prob=True
Qwen3-VL-4B | text_config.rope_scaling=None; text_config.rope_theta=None |
    text_config.rope_parameters.rope_theta=500000
Qwen3-VL-4B | vision_config=None | vision_config=None; image_layers=0
Gemma-3-4B | text_config.rope_theta=500000.0; text_config.rope_local_base_freq=20000.0;
    text_config.rope_scaling=None | text_config.full_rope.rope_theta=500000.0;
    text_config.sliding_rope.rope_theta=20000.0
gemma3_text | tie_word_embeddings=False | tied=False
Gemma-4-E2B | | text_config.first_shared=15; text_config.num_global_key_value_heads=None;
    text_config.full_rope.partial_rotary_factor=0.25; text_config.hidden_size_per_layer_input=256;
    text_config.use_bidirectional_attention=None; vision_config.use_clipped_linears=True; tied=True
Gemma-4-E4B | text_config.num_global_key_value_heads=4 |
    text_config.num_global_key_value_heads=None; text_config.first_shared=24
Gemma-4-12B | | text_config.num_global_key_value_heads=1; text_config.sliding_window=1024;
    text_config.hidden_size_per_layer_input=0; vision_config.token_numbers=6912
Gemma-4-12B | text_config.use_bidirectional_attention=...; text_config.sliding_window=... |
    text_config.use_bidirectional_attention='vision'; text_config.sliding_window=1024
Gemma-4-12B | text_config.hidden_size_per_layer_input=256 |
    text_config.hidden_size_per_layer_input=0
Gemma-4-26B-A4B | | text_config.num_experts=128; text_config.top_k_experts=8;
    text_config.first_shared=30; vision_config.standardize=True
Gemma-4-31B | text_config.per_layer_config={}; text_config.attention_k_eq_v=False |
    text_config.global_head_dim=256; text_config.num_global_key_value_heads=None
gemma4_text | | text_config.layer_types=('sliding_attention', 'full_attention');
    text_config.global_head_dim=512; text_config.full_rope.rope_type='proportional';
    text_config.full_rope.rope_theta=1000000.0; text_config.sliding_rope.rope_theta=10000.0;
    vision_config=None; tied=True
gemma4_text | head_dim=128; per_layer_config={'01': {'head_dim': 64}} |
    text_config.global_head_dim=64
falcon_h1 | | num_key_value_heads=8; head_dim=64; mamba_d_ssm=1024; mamba_n_heads=128;
    mamba_d_head=8; mamba_d_state=256; mamba_n_groups=1; mamba_d_conv=4; mamba_form.norm_groups=0;
    mamba_form.gate_first=False; mlp_multipliers=(1.0, 1.0); max_position_embeddings=8192;
    rope_parameters.rope_theta=10000.0
Falcon-H1-0.5B-Instruct | mamba_d_ssm=None; mamba_d_head='auto'; mamba_n_heads=32 |
    mamba_d_ssm=2048; mamba_d_head=64
Falcon-H1-0.5B-Instruct | num_key_value_heads=None | num_key_value_heads=8
granite | | layer_types=('linear_attention', 'linear_attention'); num_key_value_heads=4;
    head_dim=16; mamba_d_head=1; mamba_n_heads=128; mamba_d_state=256; rms_norm_eps=1e-06;
    position_embedding_type='nope'; shared_intermediate_size=1024
nemotron_h | num_local_experts=5 | n_routed_experts=5
nemotron_h_omni | | text_config.n_routed_experts=128; text_config.num_nextn_predict_layers=0;
    vision_config.num_hidden_layers=32; vision_config.side=128; projector_hidden_size=4096
nemotron_h_omni | vit_hidden_size=640; vision_config={'hidden_size': 640} | vision_hidden_size=640
minicpmv4_7 | insert_layer_id=3 | vision_config.side=14; insert_layer_id=3;
    tie_word_embeddings=True
Nemotron-Nano-9B-v2 | mamba_n_groups=4; mamba_d_conv=3; mamba_dt_min=0.01; mamba_conv_bias=False |
    n_groups=4; conv_kernel=3; time_step_min=0.01; use_conv_bias=False
Jamba-1.5-Mini | | mamba_expand=2; mamba_d_state=16; mamba_dt_rank=256; mamba_d_conv=4;
    num_experts=16; num_experts_per_tok=2; head_dim=128
jamba | | head_dim=9; mamba_dt_rank=5; num_key_value_heads=8; num_hidden_layers=32;
    num_experts=16; rms_norm_eps=1e-06
Jamba-1.5-Mini | num_key_value_heads=None | num_key_value_heads=32
Kimi-Linear-48B-A3B | linear_attn_config=...; num_hidden_layers=6; num_experts=...;
    num_local_experts=8; num_experts_per_token=...; num_experts_per_tok=2; first_k_dense_replace=2 |
    layer_types=('linear_attention', 'linear_attention', 'linear_attention', 'linear_attention',
    'full_attention', 'linear_attention'); num_experts=8; num_experts_per_tok=2;
    mlp_layer_types=('dense', 'dense', 'sparse', 'sparse', 'sparse', 'sparse')
LFM2-1.2B | block_ff_dim=6656 | mlp_width=4608
LFM2-1.2B | block_ff_dim=10240 | mlp_width=6912
LFM2-1.2B | block_ff_dim=10752 | mlp_width=7168
LFM2-1.2B | block_auto_adjust_ff_dim=False | mlp_width=12288
LFM2-1.2B | block_ffn_dim_multiplier=1.3 | mlp_width=10752
LFM2-1.2B | tie_embedding=False | tie_word_embeddings=False
LFM2-1.2B | tie_word_embeddings=False | tie_word_embeddings=False
LFM2-8B-A1B | | head_dim=64; mlp_width=7168; num_experts=32; num_experts_per_tok=4;
    moe_intermediate_size=1792; num_dense_layers=2; rope_parameters.rope_theta=1e6;
    routing.sigmoid=True; routing.normalise=True; routing.scale=1.0; tie_word_embeddings=True
LFM2-8B-A1B | hidden_size=...; intermediate_size=...; num_experts=...; moe_intermediate_size=... |
    hidden_size=2048; head_dim=64; mlp_width=7168; num_experts=32; moe_intermediate_size=1792
LFM2-VL-1.6B | tie_word_embeddings=False | tied=False
LFM2-VL-1.6B | tie_embedding=False | tied=False
LFM2-VL-1.6B | text_config.tie_word_embeddings=False | tied=True
LFM2-VL-1.6B | vision_config=None | vision_config=None
LFM3-1.7B | | head_dim=128; intermediate_size=7680; full_rope.rope_type='proportional';
    full_rope.partial_rotary_factor=0.5; full_rope.rope_theta=1e6; sliding_rope.rope_theta=1e4;
    sliding_window=256; tie_word_embeddings=True
LFM3-1.7B | layer_types=...; rope_parameters=...; num_hidden_layers=6 | types=('conv', 'conv',
    'full_attention', 'conv', 'sliding_attention', 'conv'); full_rope.rope_type='proportional';
    full_rope.rope_theta=1e6; sliding_rope.rope_type='default'; sliding_rope.rope_theta=1e4
LFM3-VL-2B | | text_config.head_dim=128; tie_word_embeddings=True; projector_hidden_size=4096;
    vision_config.head_dim=64; vision_config.num_key_value_heads=8;
    vision_config.rope_parameters.rope_theta=1e6
LFM3-VL-2B | vision_config.layer_types=...; vision_config.num_hidden_layers=5 |
    vision_config.types=('conv', 'conv', 'full_attention', 'conv', 'full_attention')
LFM3-VL-2B | vision_config=None | vision_config=None
Olmo-Hybrid-7B | | head_dim=128; position_embedding_type='nope'; delta_shape.key_dim=96;
    delta_shape.value_dim=192; delta_shape.widths=[2880, 2880, 5760]; linear_allow_neg_eigval=True
Olmo-Hybrid-7B | linear_key_head_dim=...; linear_value_head_dim=...; linear_num_key_heads=None;
    linear_num_value_heads=...; num_key_value_heads=None; layer_types=...; num_hidden_layers=5 |
    delta_shape.key_dim=96; delta_shape.value_dim=192; delta_shape.key_heads=30;
    num_key_value_heads=30; types=('linear_attention', 'linear_attention', 'linear_attention',
    'full_attention', 'linear_attention')
Olmo-Hybrid-7B | layer_types=...; num_hidden_layers=2 | types=('linear_attention',
    'full_attention')
Olmo-Hybrid-7B | rope_parameters=... | rope_parameters.rope_theta=10000;
    position_embedding_type='rope'
Olmo-Hybrid-7B | rope_parameters=None | rope_parameters.rope_theta=10000
Olmo-Hybrid-7B | rope_parameters=None; rope_theta=None | position_embedding_type='nope'
Olmo-Hybrid-7B | rope_parameters=None; rope_theta=500000 | rope_parameters.rope_theta=500000
gpt-oss-20B | | head_dim=64; num_local_experts=32; num_experts_per_tok=4; sliding_window=128;
    rope_parameters.truncate=False; rope_parameters.rope_theta=150000.0;
    experts.clamp=(1.702, 7.0); experts.bias=True; gates_first=False
gpt-oss-20B | rope_scaling=...; rope_theta=...; layer_types=...; num_hidden_layers=3 |
    layer_types=('sliding_attention', 'full_attention', 'sliding_attention');
    rope_parameters.factor=32.0; rope_parameters.rope_theta=150000.0; rope_parameters.truncate=False
gpt-oss-120B | num_local_experts=...; num_hidden_layers=...; hidden_size=... |
    num_local_experts=128; num_hidden_layers=36; hidden_size=2880
Ministral-3-8B | | yarn.factor=16.0; yarn.original_max_position_embeddings=16384;
    yarn.llama_4_scaling_beta=0.1; yarn.multiplier=1.0; yarn.rope_theta=1e6; sliding_window=None
Ministral-3-8B | rope_parameters=... | yarn.factor=16.0; yarn.llama_4_scaling_beta=0.1;
    yarn.original_max_position_embeddings=16384; yarn.multiplier=1.0
Ministral-3-8B | rope_parameters={'rope_theta': 5000, 'rope_type': 'default'} | yarn=None;
    rope_parameters.rope_theta=5000
Ministral-3-8B | rope_parameters.attention_factor=1.25 | yarn.multiplier=1.25
llama | rope_theta=500000; rope_scaling={'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor':
    4.0, 'original_max_position_embeddings': 8192, 'rope_type': 'llama3'} |
    rope_parameters.rope_type='llama3'; rope_parameters.rope_theta=500000.0;
    rope_parameters.factor=8.0
qwen3_5 |  | text_config.types=('linear_attention', 'linear_attention', 'linear_attention',
    'full_attention'); text_config.rope_parameters.rope_theta=5000000.0; text_config.rotary_dim=8;
    vision.patch_size=16; vision.temporal_patch_size=2
qwen3_5 | text_config.full_attention_interval=2 | text_config.types=('linear_attention',
    'full_attention', 'linear_attention', 'full_attention')
qwen3_5 | text_config.layer_types=['full_attention', 'full_attention', 'full_attention',
    'full_attention'] | text_config.types=('full_attention', 'full_attention', 'full_attention',
    'full_attention')
qwen3_5 | tie_word_embeddings=None; text_config.tie_word_embeddings=None | tied=False
qwen3_5 | tie_word_embeddings=True; text_config.tie_word_embeddings=False | tied=True
qwen3_5 | tie_word_embeddings=False; text_config.tie_word_embeddings=True | tied=False
qwen3_5 | tie_word_embeddings=None; text_config.tie_word_embeddings=True | tied=True
Qwen3-VL-4B | text_config.rope_scaling=None; text_config.rope_theta=None;
    text_config.rope_parameters={'rope_type': 'default', 'rope_theta': 5000000.0, 'mrope_section':
    [8, 4, 4]} | text_config.rope_parameters.mrope_section=(8, 4, 4)
LFM2-VL-1.6B |  | text_config.head_dim=64; tied=True; projector_use_layernorm=True;
    downsample_factor=2; vision_config.num_hidden_layers=26
LFM2-VL-450M |  | text_config.head_dim=64; tied=True; projector_use_layernorm=True;
    downsample_factor=2; vision_config.num_hidden_layers=12
"""
READ: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *(
        (name.strip(), values_of(change), values_of(expected))
        for name, change, expected in (
            row.split("|") for row in READ_TABLE.replace("\n ", " ").strip().splitlines()
        )
    ),
    (
        "Qwen3.5-35B-A3B",
        {},
        {
            "text_config.num_experts": 256,
            "text_config.num_experts_per_tok": 8,
            "text_config.moe_intermediate_size": 512,
            "text_config.shared_expert_intermediate_size": 512,
            "text_config.norm_topk_prob": True,
            "text_config.types": (L, L, L, F) * 10,
            "text_config.rotary_dim": 64,
            "text_config.by_key_head": False,
        },
    ),
    (
        "Gemma-3-4B",
        {},
        {
            "text_config.vocab_size": 262_208,
            "text_config.num_attention_heads": 8,
            "text_config.head_dim": 256,
            "text_config.types": (("sliding_attention",) * 5 + (F,)) * 5
            + ("sliding_attention",) * 4,
            "tied": True,
            "vision_config.side": 64,
        },
    ),
    (
        "gemma3_text",
        {"sliding_window_pattern": 2},
        {"vision_config": None, "tied": True, "text_config.types": ("sliding_attention", F) * 17},
    ),
    (
        "Falcon-H1-0.5B-Instruct",
        {},
        {
            "head_dim": 64,
            "mamba_d_ssm": 1536,
            "tie_word_embeddings": False,
            "rope_parameters.rope_theta": 1e11,
            "time_step_limit": (0.0, math.inf),
            "mamba_shape.widths": [1536, 128, 128],
            "mamba_form.norm_groups": 0,
            "mamba_form.gate_first": True,
            "mamba_form.conv_bias": True,
            "mamba_form.multipliers": tuple(RELEASED["Falcon-H1-0.5B-Instruct"]["ssm_multipliers"]),
        },
    ),
    *(
        (
            "Falcon-H1-0.5B-Instruct",
            {"time_step_limit": written},
            {"time_step_limit": (0.0, math.inf)},
        )
        for written in (
            [0.0, math.inf],
            [0.0, {"__float__": "Infinity"}],
            (0.0, math.inf),
            None,
            [0.0, 1e300],
        )
    ),
    (
        "Granite-4.0-H-350M",
        {},
        {
            "layer_types": tuple(F if index in (10, 13, 17, 27) else L for index in range(32)),
            "head_dim": 64,
            "tie_word_embeddings": True,
            "mamba_shape": Mamba2Shape(48, 32, 1, 128, 4),
            "mamba_form.norm_groups": 1,
            "mamba_form.gate_first": True,
            "mamba_form.limits": (0.0, math.inf),
            "embedding_multiplier": 12,
            "logits_scaling": 3,
        },
    ),
    (
        "Nemotron-Nano-9B-v2",
        {},
        {
            "mamba_shape": Mamba2Shape(128, 80, 8, 128, 4),
            "mamba_form.norm_groups": 8,
            "mamba_form.gate_first": True,
            "mamba_form.limits": (0.001, math.inf),
        },
    ),
    (
        "Nemotron-3-Nano-30B-A3B",
        {},
        {
            "n_routed_experts": 128,
            "moe_intermediate_size": 1856,
            "moe_latent_size": None,
            "routing": Routing(6, normalise=True, sigmoid=True, scale=2.5),
        },
    ),
    (
        "nemotron_h",
        {},
        {
            "n_routed_experts": 8,
            "moe_intermediate_size": 7688,
            "moe_shared_expert_intermediate_size": 7688,
            "routing": Routing(2, sigmoid=True),
        },
    ),
    (
        "Kimi-Linear-48B-A3B",
        {},
        {
            "layer_types": tuple(
                F if index in (*range(3, 24, 4), 26) else L for index in range(27)
            ),
            "mlp_layer_types": ("dense", *("sparse",) * 26),
            "delta_shape": DeltaShape(32, 128, 32, 128, 4, by_channel=True),
            "max_position_embeddings": 2**20,
            "routing": Routing(8, sigmoid=True, scale=2.446),
        },
    ),
    ("LFM2-1.2B", {}, READ_OF_LFM2),
    ("LFM2-1.2B", NEWER_LFM2, READ_OF_LFM2),
]


@pytest.mark.parametrize(
    ("name", "change", "expected"), READ, ids=[f"{name}-{list(c)}"[:60] for name, c, _ in READ]
)
def test_a_config_is_read_as_it_was_meant(
    name: str, change: dict[str, Any], expected: dict[str, Any]
) -> None:
    config = parse(changed(CONFIGS[name], change))
    found = {path: reduce(getattr, path.split("."), config) for path in expected}
    assert found == expected


NEWER_KINDS = {"attention": F, "mamba": L}
NEWER_TYPES = [NEWER_KINDS[each] for each in RELEASED["Granite-4.0-H-350M"]["layer_types"]]
PATTERN = RELEASED["Nemotron-Nano-9B-v2"]["hybrid_override_pattern"]
LETTERS = {"M": "mamba", "*": "attention", "-": "mlp"}
OLDER_BLOCKS = [LETTERS[letter] for letter in PATTERN]
NEWER_BLOCKS = [NEWER_KINDS.get(each, each) for each in OLDER_BLOCKS]
NEWER_ROPE = {"rope_parameters": {"rope_theta": 1e11, "rope_type": "default"}}
SAME: list[tuple[str, dict[str, Any]]] = [
    ("Falcon-H1-0.5B-Instruct", {"rope_theta": ...} | NEWER_ROPE),
    ("Granite-4.0-H-350M", {"layer_types": NEWER_TYPES}),
    ("Granite-4.0-H-350M", {"layer_types": ..., "layers_block_type": NEWER_TYPES}),
    ("Jamba-1.5-Mini", {"num_experts": ..., "num_local_experts": 16}),
    ("Jamba-1.5-Mini", {"mamba_dt_rank": "auto"}),
    ("Jamba-1.5-Mini", {"mamba_inner_layernorms": True}),
    *(
        ("Nemotron-Nano-9B-v2", {"hybrid_override_pattern": ..., key: blocks})
        for key in ("layers_block_type", "layer_types")
        for blocks in (OLDER_BLOCKS, NEWER_BLOCKS)
    ),
]


@pytest.mark.parametrize(("name", "change"), SAME)
def test_two_spellings_are_one_config(name: str, change: dict[str, Any]) -> None:
    assert parse(changed(CONFIGS[name], change)) == parse(CONFIGS[name])


@pytest.mark.parametrize("name", CONFIGS)
def test_parsing_what_was_parsed_changes_nothing(name: str) -> None:
    config = parse(CONFIGS[name])
    dumped = config.model_dump()
    if name.startswith(("Gemma", "gemma")):  # whose two sets of RoPE have other names in the file
        both = {F: dumped["text_config"]["full_rope"]}
        both["sliding_attention"] = dumped["text_config"]["sliding_rope"]
        dumped["text_config"]["rope_parameters"] = both
    if name.startswith("Qwen3-Next"):
        dumped = dumped["text_config"]
    assert type(config).model_validate(dumped) == config


OF_EXPERTS: list[tuple[dict[str, Any], str]] = [
    ({"num_experts_per_tok": 1000}, "num_experts_per_tok"),
    ({"num_experts": 0}, "num_experts"),
    ({"num_experts": 2**16 + 1}, "num_experts"),
    ({"num_experts": "many"}, "num_experts"),
    ({"moe_intermediate_size": -1}, "moe_intermediate_size"),
    ({"mlp_only_layers": ["first"]}, "mlp_only_layers"),
    ({"decoder_sparse_step": 0}, "decoder_sparse_step"),
    ({"hidden_act": "gelu"}, "hidden_act"),
]
# Values of keys of Qwen3.5's text config that are refused.
BAD_TEXT: dict[str, list[Any]] = {
    "vocab_size": [...],
    "hidden_size": [..., "32", -32, True, 32.5],
    "num_attention_heads": [..., 0],
    "num_key_value_heads": [3],
    "num_hidden_layers": [10**9],
    "linear_num_value_heads": [17],
    "layer_types": [[F], ["mamba"] * 4, F],
    "rms_norm_eps": [0, float("nan")],
    "hidden_act": ["relu"],
    "attn_output_gate": [False],
    "head_dim": [5],
    "rope_parameters": ["default"],
}
# Changes by config that are refused; the error names the last key, or what follows the arrow.
REFUSED_TABLE = """
llama:
    rope_scaling={'rope_type': 'yarn', 'factor': 4.0} -> yarn |
    rope_scaling={'type': 'dynamic', 'factor': 4.0} -> dynamic | rope_parameters='none' |
    rope_parameters={'partial_rotary_factor': 0.5} -> part | hidden_act='gelu' |
    use_sliding_window=True | layer_types=['full_attention', 'sliding_attention'] |
    num_key_value_heads=3 | head_dim=15 | vocab_size=None | num_attention_heads=None |
    hidden_size='wide'
qwen3_5:
    text_config=... | text_config=3 | text_config.rope_parameters.rope_type='yarn' |
    text_config.rope_parameters.rope_theta='large' |
    text_config.rope_parameters.mrope_section=[1, 2] |
    text_config.rope_parameters.mrope_interleaved=False |
    text_config.rope_parameters.mrope_section=[-1, 3, 2] |
    text_config.rope_parameters.rope_type=[['default']] | vision_config.in_channels=4 |
    vision_config.num_heads=3 -> hidden_size | vision_config.depth=None |
    vision_config.out_hidden_size=48 | vision_config.num_position_embeddings=35 |
    vision_config.deepstack_visual_indexes=[1, 2] |
    text_config.hidden_size=0; text_config.vocab_size='many' -> hidden_size.*vocab_size
Qwen3-VL-4B:
    text_config.rope_scaling={'rope_type': 'yarn', 'factor': 3.0} -> yarn |
    text_config.rope_scaling={'mrope_interleaved': False} -> mrope_interleaved |
    text_config.rope_scaling={'mrope_section': [24, 20]} -> mrope_section |
    text_config.num_key_value_heads=3 | text_config.hidden_size=2048 -> out_hidden_size |
    text_config.num_hidden_layers=2 -> deepstack_visual_indexes |
    vision_config.deepstack_visual_indexes=[5, 5] |
    vision_config.deepstack_visual_indexes=[11, 5] | vision_config.deepstack_visual_indexes=[24] |
    vision_config.deepstack_visual_indexes=[-1] | vision_config.deepstack_visual_indexes=5 |
    vision_config.num_heads=5 -> hidden_size | text_config=None | text_config=3 |
    text_config='text'
Qwen3-VL-30B-A3B:
    text_config.num_experts=4 -> num_experts_per_tok
Gemma-3-4B:
    text_config.final_logit_softcapping=30.0 | text_config.attn_logit_softcapping=50.0 |
    text_config.use_bidirectional_attention=True -> use_bidirectional |
    text_config.hidden_activation='silu' |
    text_config.rope_scaling={'rope_type': 'yarn'} -> yarn | text_config.rope_parameters='x' |
    text_config.rope_parameters={'full_attention': 3} |
    text_config.layer_types=['full_attention'] | text_config.num_key_value_heads=3 |
    text_config.head_dim=7 |
    vision_config.model_type='clip_vision_model' -> vision_config.model_type |
    vision_config.num_attention_heads=7 | vision_config.image_size=7 |
    vision_config.patch_size=13 -> mm_tokens_per_image | mm_tokens_per_image=255 |
    text_config=None
Gemma-4-E2B:
    text_config.use_bidirectional_attention='all' | text_config.hidden_activation='silu' |
    text_config.rope_parameters.full_attention.rope_type='yarn' -> full_rope.rope_type |
    text_config.rope_parameters='x' | text_config.layer_types=['full_attention'] |
    text_config.layer_types=3 | text_config.num_attention_heads=7; text_config.num_key_value_heads=2
    -> num_attention_heads | text_config.head_dim=7 | text_config.global_head_dim=7 |
    text_config.num_kv_shared_layers=35 | text_config.num_kv_shared_layers=34 |
    text_config.vocab_size_per_layer_input=1000 | text_config.pad_token_id=262144 |
    text_config.final_logit_softcapping=0 | text_config.enable_moe_block=True -> top_k_experts |
    text_config.per_layer_config=3 | text_config.per_layer_config={'0': {'head_dim': 64}}
    -> per_layer_config | text_config.per_layer_config={'4': {'head_dim': 64}} -> per_layer_config |
    vision_config.num_key_value_heads=4 | vision_config.head_dim=62 |
    vision_config.rope_parameters={'rope_type': 'yarn'} -> rope_type | text_config=None
Gemma-4-26B-A4B:
    text_config.top_k_experts=129 | text_config.moe_intermediate_size=None -> top_k_experts |
    text_config.num_global_key_value_heads=3 -> num_attention_heads
Gemma-4-12B:
    vision_config.mm_embed_dim=0 | vision_config.patch_size='x'
Falcon-H1-0.5B-Instruct:
    rope_scaling={'rope_type': 'yarn', 'factor': 4.0} -> yarn | hidden_act='gelu' |
    mamba_d_head=32 | mamba_d_head='auto'; mamba_n_heads=7 -> mamba_n_heads | mamba_n_groups=5 |
    num_key_value_heads=3 | head_dim=15 | key_multiplier=0.0 | attention_out_multiplier=0 |
    ssm_multipliers=[1.0, 2.0] | mlp_multipliers='none' |
    ssm_multipliers=[1e+300, 1e+300, 1e+300, 1e+300, 1e+300] | rms_norm_eps=1e+300 |
    time_step_limit=[1.0, 0.5] | time_step_limit=[0.0] | mamba_d_conv=1 | vocab_size=None |
    num_attention_heads=None | hidden_size='wide'
Granite-4.0-H-350M:
    num_local_experts=62 -> num_experts_per_tok |
    num_local_experts=2; num_experts_per_tok=3 -> num_experts_per_tok |
    num_local_experts=None -> num_experts_per_tok | num_local_experts=-1 |
    num_local_experts=65537 | num_local_experts=2; intermediate_size=0 -> intermediate_size |
    layer_types=['mamba'] | layer_types='mamba' | position_embedding_type='alibi' |
    mamba_n_heads=47 | mamba_n_groups=5 | num_key_value_heads=5 | attention_multiplier=0.0 |
    logits_scaling=0 | hidden_act='gelu' | hidden_size='wide' | vocab_size=None
Nemotron-Nano-9B-v2:
    layers_block_type=['sliding'] | layers_block_type=[3] | num_key_value_heads=7 | n_groups=7 |
    mlp_hidden_act='gelu' | tie_word_embeddings=True | time_step_min=-1.0 | hidden_size='wide'
Nemotron-3-Nano-30B-A3B:
    n_routed_experts=0 | num_experts_per_tok=129 | n_group=5 | n_group=128 |
    n_group=4; topk_group=5 -> topk_group | n_group=64; topk_group=2 -> num_experts_per_tok |
    n_shared_experts=2 | moe_latent_size=0 | moe_latent_size=64; mlp_bias=True -> mlp_bias |
    routed_scaling_factor=0.0
nemotron_h_omni:
    llm_config=None -> text_config | llm_config.num_key_value_heads=7 | downsample_ratio=0.25 |
    vit_hidden_size=640 -> vision_hidden_size | vision_config={'num_attention_heads': 7} ->
    num_attention_heads | vision_config={'max_img_size': 8} -> max_img_size |
    vision_config={'use_swiglu_ffn': True} -> use_swiglu_ffn |
    vision_config={'qkv_bias': False} -> qkv_bias | vision_config={'hidden_act': 'relu'} ->
    hidden_act | vision_config={'mlp_ratio': 1e-09} -> mlp_ratio |
    vision_config={'mlp_ratio': 1e+20} -> mlp_ratio | vision_config={'num_registers': -1} ->
    num_registers
minicpmv4_7:
    downsample_mode='4x' | insert_layer_id=12 | insert_layer_id=-1 |
    vision_config={'image_size': 8} -> image_size | vision_config={'num_channels': 1} ->
    num_channels | merger_times=2 | text_config=None
Jamba-1.5-Mini:
    attn_layer_offset=8 | attn_layer_period=0 | expert_layer_offset=2 | num_experts_per_tok=17 |
    num_experts=0 | num_experts=65537 | num_key_value_heads=5 | mamba_d_conv=1 |
    mamba_dt_rank='much' | mamba_inner_layernorms=False | hidden_act='gelu' | hidden_size='wide' |
    num_attention_heads=0
LFM2-1.2B:
    num_key_value_heads=5 | layer_types='conv' | full_attn_idxs=2 | num_hidden_layers=1000000000 |
    num_hidden_layers='16' | conv_L_cache=1 | hidden_size='wide' | num_attention_heads=0 |
    head_dim=63 | block_ffn_dim_multiplier=-1.0 | block_ffn_dim_multiplier=1e+308 |
    block_ffn_dim_multiplier=1e-09 | block_ff_dim='many' -> intermediate_size |
    rope_parameters={'rope_type': 'yarn'} -> yarn
LFM2-8B-A1B:
    num_experts_per_tok=33 | num_experts=65537 | num_dense_layers=-1 | use_expert_bias=False |
    routed_scaling_factor=0.0 | layer_types=['conv'] | num_key_value_heads=5
LFM3-1.7B:
    attention_bias=True | layer_types=['conv'] | layer_types=['mamba'] | sliding_window=0 |
    conv_L_cache=1 | num_key_value_heads=5 | rope_parameters='default' |
    rope_parameters.full_attention.rope_type='yarn' -> yarn |
    rope_parameters.sliding_attention.partial_rotary_factor=0.5 -> partial_rotary_factor |
    rope_parameters.full_attention.partial_rotary_factor=1.5
LFM3-VL-2B:
    text_config=None | text_config.num_key_value_heads=5 | projector_hidden_act='relu' |
    vision_config.num_attention_heads=7 -> hidden_size | vision_config.num_key_value_heads=5 |
    vision_config.conv_kernel_size=4 | vision_config.conv_kernel_size=65 |
    vision_config.layer_types=['conv'] | vision_config.layer_types=['mamba'] |
    vision_config.in_channels=1 | vision_config.rope_parameters.rope_type='default' -> rope_type
Olmo-Hybrid-7B:
    num_key_value_heads=7 | linear_num_key_heads=7; linear_key_head_dim=96 ->
    linear_num_value_heads | linear_num_key_heads=0 | layer_types=['full_attention'] |
    layer_types=['conv'] | linear_conv_kernel_dim=1 | hidden_act='gelu' | hidden_size='wide' |
    num_attention_heads=0 | rope_parameters=3 |
    rope_parameters={'rope_type': 'yarn', 'rope_theta': 10000} -> yarn |
    linear_key_head_dim=-96
gpt-oss-20B:
    num_experts_per_tok=33 | num_experts_per_tok=0 | num_local_experts=0 | num_local_experts=65537 |
    layer_types=['full_attention'] | layer_types=['mamba'] | num_key_value_heads=5 | head_dim=63 |
    sliding_window=0 | swiglu_limit=0.0 | swiglu_alpha=-1.0 | hidden_act='gelu' |
    rope_scaling={'rope_type': 'longrope'} -> rope_type | rope_scaling=3 -> rope_parameters |
    rope_scaling.factor=0.5 -> factor | hidden_size='wide'
Kimi-Linear-48B-A3B:
    linear_attn_config=3 | linear_attn_config.full_attn_layers=7 -> full_attn_layers |
    linear_attn_config.num_heads=0
    -> linear_num_heads | linear_attn_config.short_conv_kernel_size=1 -> linear_conv_kernel_dim |
    layer_types=['full_attention'] | mlp_layer_types=['sparse'] | first_k_dense_replace='one' ->
    mlp_layer_types | num_hidden_layers=1000000000 | num_hidden_layers='27' | q_lora_rank=1536 |
    mla_use_nope=False | moe_layer_freq=2 | moe_router_activation_func='softmax' |
    num_experts_per_token=257 -> num_experts_per_tok | num_expert_group=3 -> n_group |
    topk_group=2 | tie_word_embeddings=True | attention_bias=True | kv_lora_rank=0 |
    v_head_dim='wide' | hidden_act='gelu' | routed_scaling_factor=0.0
Ministral-3-8B:
    num_key_value_heads=5 | head_dim=63 | hidden_act='gelu' | sliding_window=0 |
    rope_parameters.rope_type='longrope' -> longrope | rope_parameters=3 |
    rope_parameters.factor=0.5 | rope_parameters.rope_theta=1.0 |
    rope_parameters.original_max_position_embeddings=0 | rope_parameters.beta_fast=0 |
    rope_parameters.beta_fast=1e-40 | rope_parameters.beta_slow=1e-40 |
    rope_parameters.llama_4_scaling_beta=-1.0 | rope_parameters.partial_rotary_factor=0.5 |
    text_config={'model_type': 'mistral'} -> text_config
LFM2-VL-1.6B:
    projector_hidden_act='relu' | vision_feature_layer=-2 | downsample_factor=0 |
    text_config=None | text_config.num_key_value_heads=5 | vision_config.num_patches=255 |
    vision_config.num_attention_heads=7 -> hidden_size |
    vision_config.model_type='siglip_vision_model' | vision_config.num_channels=1
"""
REFUSED_TOO: dict[str, list[tuple[dict[str, Any], str]]] = {
    **dict.fromkeys(WITH_EXPERTS, OF_EXPERTS),
    "llama": [({"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}}, "high_freq_factor")],
    "qwen3_5": [
        *(({f"{TEXT}{key}": value}, key) for key, values in BAD_TEXT.items() for value in values)
    ],
    "Olmo-Hybrid-7B": [
        ({"hidden_size": 10**400}, "hidden_size"),
        ({"linear_num_key_heads": 10**400}, "linear_num_key_heads"),
    ],
    "Gemma-3-4B": [({f"{TEXT}layer_types": ["mamba"] * 34}, "layer_types")],
    "Falcon-H1-0.5B-Instruct": [({"lm_head_multiplier": math.inf}, "lm_head_multiplier")],
    "Granite-4.0-H-350M": [({"layer_types": ["sliding_attention"] * 32}, "layer_types")],
    "Nemotron-Nano-9B-v2": [
        *(
            ({"hybrid_override_pattern": pattern}, "layers_block_type")
            for pattern in ("MX", "", "M" * 5000, None)
        )
    ],
    "LFM2-1.2B": [
        ({"num_hidden_layers": 12} | NEWER_LFM2, "layer_types"),
        ({"layer_types": ["mamba"] * 16}, "layer_types"),
        ({"rope_parameters": {"rope_type": "\ud800"}}, "not supported"),
    ],
}


def refusals() -> list[tuple[str, dict[str, Any], str]]:
    found = [(name, *row) for name, rows in REFUSED_TOO.items() for row in rows]
    for block in REFUSED_TABLE.replace("\n ", " ").strip().splitlines():
        name, _, rows = block.partition(":")
        for row in rows.split("|"):
            change, _, words = row.partition("->")
            values = values_of(change)
            found.append((name, values, words.strip() or next(iter(values)).rpartition(".")[2]))
    return found


def test_what_does_not_fit_is_named() -> None:
    for name, change, words in refusals():
        with pytest.raises(BrokenConfigError, match=words) as caught:
            parse(changed(CONFIGS[name], change))
        assert caught.value.message.startswith("config.json does not describe a model"), change


def test_rope_of_older_files_and_of_long_contexts() -> None:
    older = parse(CONFIGS["llama"], rope_scaling={"type": "linear", "factor": 2})
    frequencies = older.rope_parameters.frequencies(16, CPU)
    assert torch.equal(frequencies, inverse_frequencies(1e4, 16, CPU) / 2)
    stretched = parse(CONFIGS["llama"], rope_theta=500000, rope_scaling=LLAMA3).rope_parameters
    ratio = stretched.frequencies(128, CPU) / inverse_frequencies(5e5, 128, CPU)
    assert ratio[0] == 1 and ratio[-1] == 1 / 8 and bool((ratio.diff() <= 0).all())
    # Gemma's older files scale the full layers' alone.
    text = parse(RELEASED["Gemma-3-4B"]).text_config
    full, sliding = (each.frequencies(256, CPU) for each in (text.full_rope, text.sliding_rope))
    assert torch.equal(full, inverse_frequencies(1e6, 256, CPU) / 8)
    assert torch.equal(sliding, inverse_frequencies(1e4, 256, CPU))
    # LFM3's keep their place in the head, and the last half of them stands still.
    lfm3 = parse(RELEASED["LFM3-1.7B"]).full_rope.frequencies(128, CPU)
    assert torch.equal(lfm3[:32], inverse_frequencies(1e6, 128, CPU)[:32]) and not lfm3[32:].any()
    # The strangest numbers that are read make numbers.
    strange = {"rope_theta": 1 + 2**-52, "beta_fast": 1e-30, "beta_slow": 1e30, "factor": 1.0}
    yarn = parse(
        RELEASED["Ministral-3-8B"], rope_parameters=LLAMA3 | strange | {"rope_type": "yarn"}
    ).yarn
    assert yarn.frequencies(128, CPU).isfinite().all()
    # In float32 the slowest pair of Falcon-H1 still turns.
    falcon = parse(RELEASED["Falcon-H1-0.5B-Instruct"]).rope_parameters.frequencies(64, CPU)
    assert falcon.dtype == torch.float32 and 0 < float(falcon[-1]) < 1e-10


KINDS = {
    "Nemotron-Nano-9B-v2": {"M": 27, "*": 4, "-": 25},
    "Nemotron-3-Nano-30B-A3B": {"M": 23, "*": 6, "E": 23},
}


@pytest.mark.parametrize("name", KINDS)
def test_a_nemotron_h_has_the_blocks_of_its_pattern(name: str) -> None:
    kinds = parse(RELEASED[name]).layers_block_type
    letters = {"M": L, "*": F, "-": "mlp", "E": "moe"}
    assert {letter: kinds.count(letters[letter]) for letter in KINDS[name]} == KINDS[name]


# ------------------------------------------------------------------ sparse experts


def sparse(config: dict[str, Any]) -> list[int]:
    """The layers that have experts."""
    plan, _ = planned(config)
    names = [name for name in plan if ".experts.0." in name and name.endswith("down_proj.weight")]
    return [int(name.split("layers.")[1].split(".")[0]) for name in names]


def test_some_layers_may_be_dense() -> None:
    small = {"num_hidden_layers": 8, "hidden_size": 64, "num_experts": 8}
    change = small | {"decoder_sparse_step": 2, "mlp_only_layers": [3]}
    assert sparse(RELEASED["Qwen3-30B-A3B"] | change) == [1, 5, 7]
    assert sparse(RELEASED["Qwen3.5-35B-A3B"] | small) == list(range(8))
    jamba = RELEASED["Jamba-1.5-Mini"] | {"hidden_size": 64, "intermediate_size": 64}
    assert sparse(jamba) == list(range(1, 32, 2))
    assert sparse(jamba | {"num_experts": 1}) == []
    plan, _ = planned(jamba)
    attention = [name for name in plan if name.endswith("q_proj.weight")]
    assert [int(name.split(".")[2]) for name in attention] == [4, 12, 20, 28]
