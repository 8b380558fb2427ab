"""Granite 4 (text only): config, block with its cache spec, model, weight names.

Most blocks are Mamba-2, some full attention, which may know no positions; in the smallest releases
all of them are attention under RoPE. The larger ones have sparse experts in every block, beside the
feed-forward layer that every token goes through. Numbers in config.json multiply embeddings, what
each block adds, and scores, and divide the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from core.layers.attention import Attention
from core.layers.experts import ExpertSizes, FeedForward, SparseExperts, WithShared
from core.layers.mamba2 import Mamba2, Mamba2Form
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mlp import SwiGLU
from core.layers.norm import RMSNorm
from core.layers.rope import RoPE, Rotations
from core.models.config.attention_settings import AttentionSettings
from core.models.config.mamba2_settings import Mamba2Settings, mamba2_spelling
from core.models.config.rope_settings import RopeSettings, one_spelling
from core.models.config.settings import Count, Depth, Experts, Positive, parse_settings
from core.models.decoder import Decoder, Stack
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import Routing, SumShape

LayerType = Literal["linear_attention", "full_attention"]
_OLDER_NAMES = {"mamba": "linear_attention", "attention": "full_attention"}

# ------------------------------------------------------------------ config


class GraniteHybridConfig(Mamba2Settings, AttentionSettings):
    """config.json; what it leaves out has the value that transformers gives it."""

    vocab_size: Count
    intermediate_size: Count = 11008  # of an expert
    shared_intermediate_size: Count = 1024
    num_hidden_layers: Depth
    max_position_embeddings: Count = 2048
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    hidden_act: Literal["silu"] = "silu"
    layer_types: tuple[LayerType, ...]
    position_embedding_type: Literal["rope", "nope"] = "nope"
    rope_parameters: RopeSettings = RopeSettings()
    tie_word_embeddings: bool = False
    num_local_experts: Experts = 8
    num_experts_per_tok: Annotated[int, Field(ge=0)] = 2
    mamba_expand: Count = 2
    embedding_multiplier: Positive = 1.0
    attention_multiplier: Positive = 1.0
    residual_multiplier: Positive = 1.0
    logits_scaling: Positive = 1.0

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: Any) -> Any:
        """Gather RoPE's keys in one place, and fill in what follows from other keys."""
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in values.items() if value is not None}
        types = given.get("layer_types", given.get("layers_block_type"))
        if isinstance(types, list):
            given["layer_types"] = tuple(_OLDER_NAMES.get(str(each), each) for each in types)
        hidden, expand = given.get("hidden_size"), given.get("mamba_expand", 2)
        width = expand * hidden if isinstance(hidden, int) and isinstance(expand, int) else None
        mamba = mamba2_spelling(given, width, given.get("mamba_n_heads", 128))
        return _left_out(given) | given | mamba | {"rope_parameters": one_spelling(given)}

    @model_validator(mode="after")
    def _fits(self) -> GraniteHybridConfig:
        if self.num_local_experts and not 0 < self.num_experts_per_tok <= self.num_local_experts:
            raise ValueError('"num_experts_per_tok" is not 1 to "num_local_experts"')
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError('"layer_types" does not name "num_hidden_layers" layers')
        self.check_heads()
        self.check_mamba(self.mamba_expand * self.hidden_size)
        return self

    @property
    def expert_sizes(self) -> ExpertSizes:
        """Those of a block that has experts: their weights are a softmax over the chosen ones."""
        return ExpertSizes(
            hidden=self.hidden_size,
            inner=self.intermediate_size,
            count=self.num_local_experts,
            routing=Routing(self.num_experts_per_tok),
        )

    @property
    def mamba_form(self) -> Mamba2Form:
        return Mamba2Form(
            epsilon=self.rms_norm_eps,
            norm_groups=self.mamba_n_groups,
            conv_bias=self.mamba_conv_bias,
            projection_bias=self.mamba_proj_bias,
            output_bias=self.mamba_proj_bias,
            limits=self.time_step_limit,
        )


def _left_out(given: Mapping[str, Any]) -> dict[str, Any]:
    """What transformers takes for keys that config.json may leave out."""
    heads, hidden = given.get("num_attention_heads"), given.get("hidden_size")
    left_out: dict[str, Any] = {"num_key_value_heads": heads}
    if isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        left_out["head_dim"] = hidden // heads
    layers = given.get("num_hidden_layers")
    if isinstance(layers, int) and 0 < layers <= 1024:
        left_out["layer_types"] = ("linear_attention",) * layers
    return left_out


def parse_config(values: Mapping[str, Any]) -> GraniteHybridConfig:
    """config.json as a GraniteHybridConfig; raises BrokenConfigError naming the keys at fault."""
    return parse_settings(GraniteHybridConfig, values)


# ------------------------------------------------------------------ block


class Block:
    """x + r mixer(norm x), then x + r mlp(norm x); the mixer is Mamba-2 or attention, what is
    called mlp perhaps beside experts."""

    def __init__(self, weights: Weights, config: GraniteHybridConfig, kind: LayerType) -> None:
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.mixer_norm = RMSNorm(weights.scope("input_layernorm"), width, epsilon)
        self.mlp_norm = RMSNorm(weights.scope("post_attention_layernorm"), width, epsilon)
        self.mlp = _feed_forward(weights, config, self.mlp_norm.as_input)
        self._multiplier = config.residual_multiplier
        self._add = weights.ops(SumShape(width)).add
        self.mixer: Mamba2 | Attention
        input_norm = self.mixer_norm.as_input
        if kind == "linear_attention":
            scope, sizes = weights.scope("mamba"), config.mamba_sizes_in(width)
            self.mixer = Mamba2(scope, sizes, config.mamba_form, input_norm)
        else:
            self.mixer = Attention(
                weights.scope("self_attn"),
                config.attention_sizes,
                None,
                bias=config.attention_bias,
                scale=config.attention_multiplier,
                input_norm=input_norm,
            )

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        inputs = self.mixer_norm(hidden)
        if isinstance(self.mixer, Mamba2):
            mixed = self.mixer(inputs, memory, layer)
        else:
            mixed = self.mixer(inputs, rotations.get("full_attention"), memory, layer)
        normed, hidden = self.mlp_norm.of_sum(mixed, hidden, self._multiplier)
        return self._add(hidden, self.mlp(normed, memory.is_step), self._multiplier)

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return (self.mixer.spec,)


def _feed_forward(weights: Weights, config: GraniteHybridConfig, norm: InputNorm) -> FeedForward:
    width = config.hidden_size
    shared = SwiGLU(
        weights.scope("shared_mlp"),
        width,
        config.shared_intermediate_size,
        input_norm=norm,
        names=("input_linear", "output_linear"),
    )
    if not config.num_local_experts:
        return shared
    scope = weights.scope("block_sparse_moe")
    sparse = SparseExperts(scope, config.expert_sizes, norm, router="router")
    return WithShared(weights, width, sparse, shared)


# ------------------------------------------------------------------ model


class GraniteHybridModel(Decoder):
    """The text stack and its head."""

    def __init__(self, config: GraniteHybridConfig, weights: Weights, device: torch.device) -> None:
        scope = weights.scope("model")
        rope = RoPE(config.rope_parameters.frequencies(config.head_dim, device), weights.dtype)
        stack = Stack(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            max_positions=config.max_position_embeddings,
            tied=config.tie_word_embeddings,
            blocks=[
                Block(scope.scope(f"layers.{index}"), config, kind)
                for index, kind in enumerate(config.layer_types)
            ],
            norm=RMSNorm(scope.scope("norm"), config.hidden_size, config.rms_norm_eps),
            ropes={"full_attention": rope} if config.position_embedding_type == "rope" else {},
            embedding_multiplier=config.embedding_multiplier,
            logits_multiplier=1 / config.logits_scaling,
        )
        super().__init__(stack, weights, scope, device)


# ------------------------------------------------------------------ weight names


# How releases spell what is asked for as other families have it.
_SPELLINGS = {
    "block_sparse_moe.experts.gate_up_proj": "block_sparse_moe.input_linear.weight",
    "block_sparse_moe.experts.down_proj": "block_sparse_moe.output_linear.weight",
    "block_sparse_moe.router.weight": "block_sparse_moe.router.layer.weight",
}


def published_names(config: GraniteHybridConfig, found: Collection[str]) -> Callable[[str], str]:
    """From the names the model asks for to the folder's, which may be either."""

    def published(name: str) -> str:
        for ours, theirs in _SPELLINGS.items():
            other = name.replace(ours, theirs)
            if name.endswith(ours) and name not in found and other in found:
                return other
        return name

    return published
