"""Kimi Linear (text only): mostly Kimi delta attention, every fourth layer latent attention,
without positions. After the first layers, whose MLPs are dense, experts are chosen by sigmoids
beside a shared one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator

from core.layers.attention import LatentAttention
from core.layers.block import HybridBlock, Mixer, Norms
from core.layers.feed_forward import FeedForward, SparseExperts, SwiGLU, WithShared
from core.layers.gated_deltanet import GatedDeltaNet
from core.layers.norm import RMSNorm
from core.models.decoder import Decoder, Family
from core.models.settings import (
    Count,
    Depth,
    Experts,
    Positive,
    Taps,
    TextSettings,
    check_layer_types,
    check_routing,
)
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import DeltaShape, ExpertShape, Routing

LayerType = Literal["linear_attention", "full_attention"]
ForwardType = Literal["dense", "sparse"]
_EPSILON = 1e-6  # of the norm of latents; not in the config
_OLDER_KEYS = {
    "max_position_embeddings": "model_max_length",
    "num_experts": "num_local_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "norm_topk_prob": "moe_renormalize",
    "n_group": "num_expert_group",
    "n_shared_experts": "num_shared_experts",
}
_OF_DELTA = {
    "linear_head_dim": "head_dim",
    "linear_num_heads": "num_heads",
    "linear_conv_kernel_dim": "short_conv_kernel_size",
}
_MOST_LAYERS = 1024

# ------------------------------------------------------------------ config


class KimiLinearConfig(TextSettings):
    vocab_size: Count = 163_840
    hidden_size: Count = 2_304
    intermediate_size: Count = 9_216
    moe_intermediate_size: Count = 1_024
    num_hidden_layers: Depth = 27
    num_attention_heads: Count = 32
    max_position_embeddings: Count = 1_048_576
    rms_norm_eps: Positive = 1e-5
    hidden_act: Literal["silu"] = "silu"
    attention_bias: Literal[False] = False
    tie_word_embeddings: Literal[False] = False
    mla_use_nope: Literal[True] = True
    q_lora_rank: None = None
    kv_lora_rank: Count = 512
    qk_nope_head_dim: Count = 128
    qk_rope_head_dim: Count = 64
    v_head_dim: Count = 128
    linear_head_dim: Count = 128
    linear_num_heads: Count = 32
    linear_conv_kernel_dim: Taps = 4
    num_experts: Experts = 256
    num_experts_per_tok: Count = 8
    n_shared_experts: Count = 1
    n_group: Count = 1
    topk_group: Count = 1
    norm_topk_prob: bool = True
    moe_layer_freq: Literal[1] = 1
    moe_router_activation_func: Literal["sigmoid"] = "sigmoid"
    routed_scaling_factor: Positive = 2.446
    layer_types: tuple[LayerType, ...]
    mlp_layer_types: tuple[ForwardType, ...]

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        found = {key: given[other] for key, other in _OLDER_KEYS.items() if other in given}
        given = {"num_hidden_layers": 27} | found | given
        given |= {"num_key_value_heads": 1, "head_dim": 1}  # a latent's, which has other keys
        delta = given.get("linear_attn_config", {})
        if not isinstance(delta, dict):
            raise ValueError('"linear_attn_config" is not an object')
        given |= {key: delta[other] for key, other in _OF_DELTA.items() if other in delta}
        count = given["num_hidden_layers"]
        if not isinstance(count, int) or not 0 < count <= _MOST_LAYERS:
            return given
        full = delta.get("full_attn_layers", range(5, count + 1, 4))
        if not isinstance(full, list | range) or len(full) > _MOST_LAYERS:
            raise ValueError('"full_attn_layers" is not a list of layers')
        dense = given.get("first_k_dense_replace", 1)
        types = _kinds(full, count, ("linear_attention", "full_attention"))
        defaults: dict[str, Any] = {"layer_types": types}
        if isinstance(dense, int):
            among = range(dense + 1, count + 1)
            defaults["mlp_layer_types"] = _kinds(among, count, ("dense", "sparse"))
        return defaults | given

    @model_validator(mode="after")
    def _fits(self) -> KimiLinearConfig:
        check_layer_types(self.layer_types, self.num_hidden_layers)
        if len(self.mlp_layer_types) != self.num_hidden_layers:
            raise ValueError('"mlp_layer_types" does not name "num_hidden_layers" layers')
        if "sparse" in self.mlp_layer_types:
            check_routing(self.routing, self.num_experts)
        return self

    @property
    def routing(self) -> Routing:
        return Routing(
            k=self.num_experts_per_tok,
            normalise=self.norm_topk_prob,
            sigmoid=True,
            groups=self.n_group,
            open_groups=self.topk_group,
            scale=self.routed_scaling_factor,
        )

    @property
    def delta_shape(self) -> DeltaShape:
        heads, dim, taps = self.linear_num_heads, self.linear_head_dim, self.linear_conv_kernel_dim
        return DeltaShape(heads, dim, heads, dim, taps, by_channel=True)


def _kinds(layers: Collection[Any], count: int, kinds: tuple[str, str]) -> tuple[str, ...]:
    """The second of `kinds` for `layers`, counted from 1, the first for the others."""
    return tuple(kinds[index in layers] for index in range(1, count + 1))


# ------------------------------------------------------------------ model


def _block(
    config: KimiLinearConfig, weights: Weights, kinds: tuple[LayerType, ForwardType]
) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps
    norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
    mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
    scope = weights.scope("self_attn")
    mixer: Mixer
    if kinds[0] == "linear_attention":
        mixer = GatedDeltaNet(
            scope, width, config.delta_shape, epsilon, apart=True, input_norm=norm.as_input
        )
    else:
        mixer = LatentAttention(
            scope,
            width,
            config.num_attention_heads,
            rank=config.kv_lora_rank,
            shared=config.qk_rope_head_dim,
            key_dim=config.qk_nope_head_dim,
            value_dim=config.v_head_dim,
            epsilon=_EPSILON,
            input_norm=norm.as_input,
        )
    make = _experts if kinds[1] == "sparse" else _mlp
    feed_forward = make(config, weights.scope("mlp"), mlp_norm.as_input)
    return HybridBlock(weights, width, Norms(norm, mlp_norm), mixer, feed_forward)


def _mlp(config: KimiLinearConfig, weights: Weights, norm: InputNorm) -> FeedForward:
    return SwiGLU(weights, config.hidden_size, config.intermediate_size, input_norm=norm)


def _experts(config: KimiLinearConfig, weights: Weights, norm: InputNorm) -> FeedForward:
    width, inner = config.hidden_size, config.moe_intermediate_size
    shape = ExpertShape(width, inner, config.num_experts, config.routing, shared=False)
    sparse = SparseExperts(weights, width, shape, input_norm=norm)
    scope, inner = weights.scope("shared_experts"), inner * config.n_shared_experts
    return WithShared(weights, width, sparse, SwiGLU(scope, width, inner, input_norm=norm))


def build(config: KimiLinearConfig, weights: Weights, device: torch.device) -> Decoder:
    scope = weights.scope("model")
    kinds = zip(config.layer_types, config.mlp_layer_types, strict=True)
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[_block(config, *each) for each in scope.layers(kinds)],
        norm=RMSNorm(scope.scope("norm"), config.hidden_size, config.rms_norm_eps),
        ropes={},
    )


# ------------------------------------------------------------------ names

_IN_MLP = re.compile(r"^(model\.layers\.(\d+))\.mlp\.")
_OF_EXPERT = re.compile(r"\.experts\.(\d+)\.(gate|up|down)_proj\.")
_LETTERS = {"gate": "w1", "up": "w3", "down": "w2"}
_SPELLINGS = {"self_attn.norm.": "self_attn.o_norm.", "self_attn.out_proj.": "self_attn.o_proj."}


def published_names(config: KimiLinearConfig, found: Collection[str]) -> Callable[[str], str]:
    def published(name: str) -> str:
        for ours, theirs in _SPELLINGS.items():
            name = name.replace(ours, theirs)
        layer = _IN_MLP.match(name)
        sparse = layer is not None and config.mlp_layer_types[int(layer[2])] == "sparse"
        other = _OF_EXPERT.sub(
            lambda each: f".experts.{each[1]}.{_LETTERS[each[2]]}.",
            _IN_MLP.sub(r"\1.block_sparse_moe.", name),
        )
        # transformers gives this name to dense layers too.
        return other if sparse or other in found else name

    return published


FAMILY = Family("KimiLinearModel", KimiLinearConfig, build, published_names)
