"""Gemma 4, with and without vision: sliding windows and full attention with two sizes of heads.

The last layers may read the keys and values of an earlier layer of their kind. Large models reuse
keys as values in full layers and have experts beside each dense layer; small ones have per-layer
embeddings. Audio is not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from core.layers.attention import Attention
from core.layers.block import HybridBlock, Norms
from core.layers.feed_forward import DenseAndSparse, FeedForward, SparseExperts, SwiGLU
from core.layers.norm import RMSNorm
from core.layers.per_layer import PerLayerBlock, PerLayerInputs
from core.layers.rope import RoPE, inverse_frequencies
from core.models.decoder import Decoder, Family, Tower, with_prefixes
from core.models.gemma.gemma4_vision import VisionConfig, VisionTower
from core.models.settings import (
    Count,
    Depth,
    Experts,
    Index,
    Positive,
    Settings,
    TextSettings,
    check_layer_types,
    is_tied,
)
from core.weights.plan import Weights
from kernels.common.shapes import AttentionShape, ExpertShape, Routing

LayerType = Literal["sliding_attention", "full_attention"]

# ------------------------------------------------------------------ config


class RopeConfig(Settings):
    """With "proportional" only the first pairs of a head rotate."""

    rope_type: Literal["default", "proportional"] = "default"
    rope_theta: Positive
    partial_rotary_factor: float = Field(default=1.0, gt=0, le=1)
    factor: float = Field(default=1.0, ge=1, allow_inf_nan=False)

    def frequencies(self, dim: int, device: torch.device) -> Tensor:
        found = inverse_frequencies(self.rope_theta, dim, device)
        if self.rope_type == "proportional":
            found[int(self.partial_rotary_factor * dim // 2) :] = 0
            found /= self.factor
        return found


_FULL_ROPE = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
_SLIDING_ROPE = {"rope_type": "default", "rope_theta": 1e4}


class TextConfig(TextSettings):
    vocab_size: Count = 262_144
    hidden_size: Count = 2304
    intermediate_size: Count = 9216
    num_hidden_layers: Depth = 30
    num_attention_heads: Count = 8
    num_key_value_heads: Count = 4
    head_dim: Count = 256
    global_head_dim: Count = 512
    num_global_key_value_heads: Count | None = None
    hidden_activation: Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"
    max_position_embeddings: Count = 131_072
    rms_norm_eps: Positive = 1e-6
    pad_token_id: Index = 0
    attention_bias: bool = False
    attention_k_eq_v: bool = False
    sliding_window: Count = 512
    layer_types: tuple[LayerType, ...]
    full_rope: RopeConfig
    sliding_rope: RopeConfig
    final_logit_softcapping: Positive | None = None
    use_bidirectional_attention: Literal["vision"] | None = None
    vocab_size_per_layer_input: Count = 262_144
    hidden_size_per_layer_input: Index = Field(default=256, le=2**24)
    num_kv_shared_layers: Index = 0
    use_double_wide_mlp: bool = False
    enable_moe_block: bool = False
    num_experts: Experts = 0
    top_k_experts: Index = 0
    moe_intermediate_size: Index = Field(default=0, le=2**24)
    tie_word_embeddings: bool | None = None

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        ropes = given.get("rope_parameters") or {}
        if not isinstance(ropes, dict):
            raise ValueError('"rope_parameters" is not an object')
        found = given | {
            "full_rope": ropes.get("full_attention") or _FULL_ROPE,
            "sliding_rope": ropes.get("sliding_attention") or _SLIDING_ROPE,
            "layer_types": _layer_types(given),
        }
        if "num_global_key_value_heads" in given and not given.get("attention_k_eq_v"):
            del found["num_global_key_value_heads"]
        return found | _of_full_layers(found)

    @model_validator(mode="after")
    def _fits(self) -> TextConfig:
        self.check_heads()
        if self.num_attention_heads % self.kv_heads("full_attention"):
            raise ValueError(
                '"num_attention_heads" is not a multiple of the full layers\' key heads'
            )
        if self.global_head_dim % 2:
            raise ValueError('"global_head_dim" is not an even number')
        check_layer_types(self.layer_types, self.num_hidden_layers)
        if not set(self.layer_types[self.first_shared :]) <= set(
            self.layer_types[: self.first_shared]
        ):
            raise ValueError('"num_kv_shared_layers" leaves layers without keys to share')
        if self.hidden_size_per_layer_input and self.vocab_size_per_layer_input < self.vocab_size:
            raise ValueError('"vocab_size_per_layer_input" is less than "vocab_size"')
        if self.pad_token_id >= self.vocab_size:
            raise ValueError('"pad_token_id" is not in the vocabulary')
        if self.enable_moe_block and not (
            0 < self.top_k_experts <= self.num_experts and self.moe_intermediate_size
        ):
            raise ValueError('"top_k_experts" is not 1 to "num_experts", or experts have no size')
        return self

    @property
    def first_shared(self) -> int:
        return max(0, self.num_hidden_layers - self.num_kv_shared_layers)

    def kv_heads(self, kind: LayerType) -> int:
        full = self.num_global_key_value_heads if kind == "full_attention" else None
        return full or self.num_key_value_heads

    def dim(self, kind: LayerType) -> int:
        return self.global_head_dim if kind == "full_attention" else self.head_dim

    def shape(self, kind: LayerType) -> AttentionShape:
        window = self.sliding_window if kind == "sliding_attention" else None
        return AttentionShape(self.num_attention_heads, self.kv_heads(kind), self.dim(kind), window)


def _layer_types(given: Mapping[str, Any]) -> Any:
    """Without a list every sixth layer is full; the last one always is."""
    types, layers = given.get("layer_types"), given.get("num_hidden_layers", 30)
    if types is None and isinstance(layers, int):
        kinds = ("sliding_attention", "full_attention")
        types = [kinds[(index + 1) % 6 == 0] for index in range(min(layers, 1024))]
    return [*types[:-1], "full_attention"] if isinstance(types, list) and types else types


def _of_full_layers(given: Mapping[str, Any]) -> dict[str, Any]:
    """The heads of full layers as transformers 5.23 writes them: by layer."""
    written, types = given.get("per_layer_config"), given["layer_types"]
    if written is None or not isinstance(types, list):
        return {}
    full = {index for index, kind in enumerate(types) if kind == "full_attention"}
    # Zeros pad the numbers to one width.
    known = isinstance(written, dict) and all(key.isdecimal() for key in written)
    if not known or not {int(key) for key in written} <= full:
        raise ValueError('"per_layer_config" is not of full layers')
    names = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
    first: Any = next(iter(written.values()), {})
    alike = isinstance(first, dict) and all(each == first for each in written.values())
    if not (alike and set(first) <= set(names) and (len(written) in {0, len(full)})):
        raise ValueError('"per_layer_config" does not make all full layers alike')
    found = {names[key]: value for key, value in first.items()}
    return {"global_head_dim": given.get("head_dim", 256)} | found


class Gemma4Config(Settings):
    text_config: TextConfig
    vision_config: VisionConfig | None = None
    tie_word_embeddings: bool | None = None

    # The `model_type` of text-only folders.
    text_only: ClassVar[str] = "gemma4_text"

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        if values.get("model_type") == cls.text_only:
            return {"text_config": values}
        return given

    @property
    def tied(self) -> bool:
        return is_tied(self, usual=True)


# ------------------------------------------------------------------ model


def _experts(config: TextConfig, weights: Weights, norm: RMSNorm) -> FeedForward:
    """The router reads x / RMS(x) times its scale / sqrt(width), the experts norm x."""
    width, count = config.hidden_size, config.num_experts
    routing = Routing(config.top_k_experts)
    inner = config.moe_intermediate_size
    shape = ExpertShape(width, inner, count, routing, shared=False, gelu=True, factors=True)
    router = RMSNorm(weights.scope("router.norm"), width, config.rms_norm_eps)
    factors = weights.tensor("router.per_expert_scale", (count,), torch.float32)
    norms = router.times(width**-0.5), norm
    return SparseExperts(weights, width, shape, router="router.proj", norms=norms, factors=factors)


def _attention(config: TextConfig, weights: Weights, layer: int, norm: RMSNorm) -> Attention:
    kind, owns = config.layer_types[layer], layer < config.first_shared
    return Attention(
        weights,
        config.hidden_size,
        config.shape(kind),
        rope=kind,
        norm=RMSNorm,
        epsilon=config.rms_norm_eps,
        bias=config.attention_bias,
        scale=1.0,
        both_ways=kind == "sliding_attention" and config.use_bidirectional_attention == "vision",
        value_norm=True,
        keys_as_values=kind == "full_attention" and config.attention_k_eq_v,
        shared_kv=kind if config.num_kv_shared_layers else None,
        owns_kv=owns,
        input_norm=norm.as_input,
    )


def _block(config: TextConfig, weights: Weights, layer: int) -> HybridBlock:
    width, epsilon = config.hidden_size, config.rms_norm_eps

    def norm(name: str) -> RMSNorm:
        return RMSNorm(weights.scope(name), width, epsilon)

    halves = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    names = (f"{name}_layernorm" for name in halves)
    mixer_norm, after_mixer, mlp_norm, after_mlp = map(norm, names)
    wide = config.use_double_wide_mlp and layer >= config.first_shared
    inner, scope = config.intermediate_size * (2 if wide else 1), weights.scope("mlp")
    mlp: FeedForward = SwiGLU(scope, width, inner, gelu=True, input_norm=mlp_norm.as_input)
    norms = Norms(mixer_norm, mlp_norm, after_mixer, after_mlp)
    if config.enable_moe_block:
        sparse = _experts(config, weights, norm("pre_feedforward_layernorm_2"))
        after_dense, after_sparse = (norm(f"post_feedforward_layernorm_{n}") for n in (1, 2))
        dense = mlp_norm, mlp, after_dense
        mlp = DenseAndSparse(weights, width, dense, (sparse, after_sparse))
        norms = Norms(mixer_norm, None, after_mixer, after_mlp)
    attention = _attention(config, weights.scope("self_attn"), layer, mixer_norm)
    scale = float(weights.tensor("layer_scalar", (1,), torch.float32))
    size = config.hidden_size_per_layer_input
    if not size:
        return HybridBlock(weights, width, norms, attention, mlp, scale=scale)
    return PerLayerBlock(
        weights, width, norms, attention, mlp, layer=layer, size=size, epsilon=epsilon, scale=scale
    )


def build(config: Gemma4Config, weights: Weights, device: torch.device) -> Decoder:
    text, vision = config.text_config, config.vision_config
    tower = VisionTower(weights, vision, text.hidden_size) if vision else None
    return decoder(text, weights, device, config.tied, tower)


def decoder(
    text: TextConfig, weights: Weights, device: torch.device, tied: bool, tower: Tower | None
) -> Decoder:
    scope = weights.scope("model.language_model")
    width, epsilon = text.hidden_size, text.rms_norm_eps
    ropes: dict[LayerType, RopeConfig] = {
        "full_attention": text.full_rope,
        "sliding_attention": text.sliding_rope,
    }
    size, layers = text.hidden_size_per_layer_input, text.num_hidden_layers
    vocab_size, pad = text.vocab_size_per_layer_input, text.pad_token_id
    per_layer = (
        PerLayerInputs(scope, width, layers, size, vocab_size, pad, epsilon) if size else None
    )
    return Decoder(
        weights,
        scope,
        device,
        text,
        tied=tied,
        blocks=[_block(text, *each) for each in scope.layers(range(layers))],
        norm=RMSNorm(scope.scope("norm"), width, epsilon),
        ropes={
            kind: RoPE(rope.frequencies(text.dim(kind), device), weights.dtype)
            for kind, rope in ropes.items()
        },
        tower=tower,
        # Rounded to the model's type before it multiplies, as in Gemma 3.
        embedding_multiplier=torch.tensor(width**0.5).to(weights.dtype).item(),
        logits_cap=text.final_logit_softcapping,
        per_layer=per_layer,
    )


# ------------------------------------------------------------------ names


def published_names(config: Gemma4Config, found: Collection[str]) -> Callable[[str], str]:
    text = "model.language_model."
    rename = with_prefixes(found, (text, "embed_tokens.weight", (text, "model.")))
    return lambda name: rename(name).replace(".router.norm.weight", ".router.scale")


FAMILY = Family("Gemma4Model", Gemma4Config, build, published_names)
