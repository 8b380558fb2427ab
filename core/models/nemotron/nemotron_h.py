"""Nemotron-H: each block is Mamba-2, attention without positions, an MLP or experts. Experts are
chosen by sigmoids, may read a projection to fewer numbers, and have a shared MLP beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Mixer, Norms
from core.layers.feed_forward import FeedForward, SparseExperts, SquaredReluMLP, WithShared
from core.layers.mamba import Mamba2, Mamba2Form
from core.layers.norm import RMSNorm
from core.models.decoder import Decoder, Family, Tower, with_prefixes
from core.models.settings import Count, Positive, Taps, TextSettings, check_routing
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ExpertShape, Mamba2Shape, Routing

BlockType = Literal["linear_attention", "full_attention", "mlp", "moe"]
_LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
_OLDER_NAMES = {"mamba": "linear_attention", "attention": "full_attention"}
_OLDER_KEYS = {
    "mamba_n_groups": "n_groups",
    "mamba_d_conv": "conv_kernel",
    "mamba_dt_min": "time_step_min",
    "mamba_conv_bias": "use_conv_bias",
    "num_local_experts": "n_routed_experts",
}
_MOST_BLOCKS = 1024

# ------------------------------------------------------------------ config


class NemotronHConfig(TextSettings):
    vocab_size: Count = 131072
    hidden_size: Count = 4096
    intermediate_size: Count = 21504
    layers_block_type: tuple[BlockType, ...] = Field(min_length=1, max_length=_MOST_BLOCKS)
    num_attention_heads: Count = 32
    num_key_value_heads: Count = 8
    head_dim: Count = 128
    max_position_embeddings: Count = 4096
    mlp_bias: bool = False
    use_bias: bool = False
    use_conv_bias: bool = True
    mlp_hidden_act: Literal["relu2"] = "relu2"
    mamba_hidden_act: Literal["silu"] = "silu"
    mamba_num_heads: Count = 128
    mamba_head_dim: Count = 64
    ssm_state_size: Count = 128
    n_groups: Count = 8
    conv_kernel: Taps = 4
    time_step_min: float = Field(default=0.001, ge=0, allow_inf_nan=False)
    layer_norm_epsilon: Positive = 1e-5
    tie_word_embeddings: Literal[False] = False
    n_routed_experts: Annotated[int, Field(ge=1, le=2**16)] = 8
    num_experts_per_tok: Count = 2
    n_shared_experts: Literal[1] = 1
    moe_intermediate_size: Count = 7688
    moe_shared_expert_intermediate_size: Count = 7688
    moe_latent_size: Count | None = None
    routed_scaling_factor: Positive = 1.0
    norm_topk_prob: bool = True
    n_group: Count = 1
    topk_group: Count = 1

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        older = {name: given[key] for key, name in _OLDER_KEYS.items() if key in given}
        types = given.get("layers_block_type", given.get("layer_types"))
        if types is None:
            types = given.get("hybrid_override_pattern")
        if isinstance(types, str):
            types = [_LETTERS.get(letter, letter) for letter in types[: _MOST_BLOCKS + 1]]
        if isinstance(types, list):
            given["layers_block_type"] = [_OLDER_NAMES.get(str(each), each) for each in types]
        return given | older

    @model_validator(mode="after")
    def _fits(self) -> NemotronHConfig:
        if "moe" in self.layers_block_type:
            self._check_experts()
        self.check_heads(rotated=False)
        if self.mamba_num_heads % self.n_groups:
            raise ValueError('"mamba_num_heads" is not a multiple of "n_groups"')
        return self

    def _check_experts(self) -> None:
        check_routing(self.routing, self.n_routed_experts)
        if self.moe_latent_size and self.mlp_bias:
            raise ValueError('"mlp_bias" is not supported beside "moe_latent_size"')

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
    def mamba_shape(self) -> Mamba2Shape:
        heads, head_dim = self.mamba_num_heads, self.mamba_head_dim
        return Mamba2Shape(heads, head_dim, self.n_groups, self.ssm_state_size, self.conv_kernel)

    @property
    def mamba_form(self) -> Mamba2Form:
        return Mamba2Form(
            epsilon=self.layer_norm_epsilon,
            norm_groups=self.n_groups,
            conv_bias=self.use_conv_bias,
            projection_bias=self.use_bias,
            output_bias=self.use_bias,
            # For generated tokens too, or a token's state would depend on who wrote it.
            limits=(self.time_step_min, math.inf),
        )


# ------------------------------------------------------------------ model


def _block(config: NemotronHConfig, weights: Weights, kind: BlockType) -> HybridBlock:
    width = config.hidden_size
    norm = RMSNorm(weights.scope("norm"), width, config.layer_norm_epsilon)
    scope, input_norm = weights.scope("mixer"), norm.as_input
    mixer: Mixer | None = None
    feed_forward: FeedForward | None = None
    if kind == "linear_attention":
        mixer = Mamba2(scope, width, config.mamba_shape, config.mamba_form, input_norm)
    elif kind == "full_attention":
        shape = config.attention_shape()
        mixer = Attention(scope, width, shape, rope=None, input_norm=input_norm)
    elif kind == "mlp":
        feed_forward = _mlp(config, scope, config.intermediate_size, input_norm)
    else:
        feed_forward = _experts(config, scope, input_norm)
    return HybridBlock(weights, width, Norms(norm, norm), mixer, feed_forward)


def _experts(config: NemotronHConfig, weights: Weights, norm: InputNorm) -> FeedForward:
    width, latent = config.hidden_size, config.moe_latent_size
    shape = ExpertShape(
        latent or width,
        config.moe_intermediate_size,
        config.n_routed_experts,
        config.routing,
        shared=False,
        gated=False,
    )
    sparse = SparseExperts(weights, width, shape, input_norm=norm, latent=latent is not None)
    inner = config.moe_shared_expert_intermediate_size
    shared = _mlp(config, weights.scope("shared_experts"), inner, norm)
    return WithShared(weights, width, sparse, shared)


def _mlp(config: NemotronHConfig, weights: Weights, inner: int, norm: InputNorm) -> SquaredReluMLP:
    width, bias = config.hidden_size, config.mlp_bias
    return SquaredReluMLP(weights, width, inner, bias=bias, input_norm=norm)


def build(
    config: NemotronHConfig, weights: Weights, device: torch.device, tower: Tower | None = None
) -> Decoder:
    scope = weights.scope("model")
    return Decoder(
        weights,
        scope,
        device,
        config,
        tied=config.tie_word_embeddings,
        blocks=[_block(config, *each) for each in scope.layers(config.layers_block_type)],
        norm=RMSNorm(scope.scope("norm_f"), config.hidden_size, config.layer_norm_epsilon),
        ropes={},
        tower=tower,
    )


# ------------------------------------------------------------------ names


def published_names(config: NemotronHConfig, found: Collection[str]) -> Callable[[str], str]:
    """Releases say backbone for model."""
    rename = with_prefixes(found, ("model.", "norm_f.weight", ("backbone.", "model.")))
    return lambda name: rename(name.replace("model.embed_tokens.", "model.embeddings.", 1))


FAMILY = Family("NemotronHModel", NemotronHConfig, build, published_names)
