"""Gemma 3, with and without vision: config, block with its cache spec, model, weight names.

A pure transformer. Most layers see only the last tokens (a sliding window) and turn by their own
RoPE; every sixth sees everything. All of them keep all keys, with the window in the mask, so that
any cut restores by truncation. The tokens of one picture attend to one another both ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import model_validator
from torch import Tensor

from core.layers.attention import Attention
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mlp import GeGLU
from core.layers.norm import ZeroCentredRMSNorm
from core.layers.rope import RoPE, Rotations
from core.models.config.attention_settings import AttentionSettings
from core.models.config.rope_settings import RopeSettings, one_spelling
from core.models.config.settings import Count, Depth, Positive, Settings, parse_settings
from core.models.decoder import Decoder, Stack
from core.models.towers.gemma3_vision import VisionConfig, VisionTower
from core.weights.plan import Weights
from kernels.common.shapes import SumShape

LayerType = Literal["sliding_attention", "full_attention"]

# ------------------------------------------------------------------ config


class TextConfig(AttentionSettings):
    """`text_config` of config.json, or the whole of it in a text-only folder.

    What the file leaves out has the value that transformers gives it; the published files leave out
    much.
    """

    vocab_size: Count = 262_208
    intermediate_size: Count
    num_hidden_layers: Depth
    num_attention_heads: Count = 8
    num_key_value_heads: Count = 4
    head_dim: Count = 256
    query_pre_attn_scalar: Positive = 256.0
    max_position_embeddings: Count = 131_072
    rms_norm_eps: Positive = 1e-6
    attention_bias: bool = False
    hidden_activation: Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"
    sliding_window: Count = 4096
    sliding_window_pattern: Depth = 6
    layer_types: tuple[LayerType, ...] = ()
    full_rope: RopeSettings
    sliding_rope: RopeSettings
    use_bidirectional_attention: Literal[False] = False
    tie_word_embeddings: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: Any) -> Any:
        """Give each kind of layer its RoPE, in the newer spelling or the older."""
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in values.items() if value is not None}
        for refused in ("final_logit_softcapping", "attn_logit_softcapping"):
            if refused in given:
                raise ValueError(f'"{refused}" is not supported')
        if isinstance(given.get("layer_types"), list):
            given["layer_types"] = tuple(given["layer_types"])
        if "_sliding_window_pattern" in given:
            given.setdefault("sliding_window_pattern", given["_sliding_window_pattern"])
        return given | _ropes(given)

    @model_validator(mode="after")
    def _fits(self) -> TextConfig:
        self.check_heads()
        if self.layer_types and len(self.layer_types) != self.num_hidden_layers:
            raise ValueError('"layer_types" does not name "num_hidden_layers" layers')
        return self

    @property
    def types(self) -> tuple[LayerType, ...]:
        """The kind of every layer; without a list, every `sliding_window_pattern`-th is full."""
        return self.layer_types or tuple(
            "sliding_attention" if (index + 1) % self.sliding_window_pattern else "full_attention"
            for index in range(self.num_hidden_layers)
        )

    @property
    def ropes(self) -> dict[LayerType, RopeSettings]:
        return {"full_attention": self.full_rope, "sliding_attention": self.sliding_rope}


def _ropes(given: Mapping[str, Any]) -> dict[str, Any]:
    """The two sets of RoPE parameters; older files scale the full layers' alone."""
    both = given.get("rope_parameters") or {}
    if not isinstance(both, dict):
        raise ValueError('"rope_parameters" is not an object')
    full = {**given, "rope_parameters": both.get("full_attention")}
    sliding = {**given, "rope_parameters": both.get("sliding_attention"), "rope_scaling": None}
    return {
        "full_rope": {"rope_theta": 1_000_000.0} | one_spelling(full),
        "sliding_rope": one_spelling(sliding, "rope_local_base_freq"),
    }


class Gemma3Config(Settings):
    """What the model needs of config.json, whichever way it was written."""

    text_config: TextConfig
    vision_config: VisionConfig | None = None
    mm_tokens_per_image: Count = 256
    tie_word_embeddings: bool | None = None

    @model_validator(mode="after")
    def _fits(self) -> Gemma3Config:
        side = math.isqrt(self.mm_tokens_per_image)
        vision = self.vision_config
        if vision and (side**2 != self.mm_tokens_per_image or vision.side % side):
            raise ValueError(
                '"mm_tokens_per_image" does not divide the patches into squares of equal size'
            )
        return self

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding; the top level wins over `text_config`."""
        here, inner = self.tie_word_embeddings, self.text_config.tie_word_embeddings
        return bool((inner is None or inner) if here is None else here)


def parse_config(values: Mapping[str, Any]) -> Gemma3Config:
    """config.json as a Gemma3Config; raises BrokenConfigError naming the keys at fault."""
    if values.get("model_type") == "gemma3_text":
        values = {"text_config": values}
    return parse_settings(Gemma3Config, values)


# ------------------------------------------------------------------ block


class Block:
    """x + norm(attention(norm x)), then x + norm(mlp(norm x)): a norm at either side of each."""

    def __init__(self, weights: Weights, config: TextConfig, kind: LayerType) -> None:
        width, epsilon = config.hidden_size, config.rms_norm_eps

        def norm(name: str) -> ZeroCentredRMSNorm:
            return ZeroCentredRMSNorm(weights.scope(name), width, epsilon)

        def head_norm(scope: Weights) -> ZeroCentredRMSNorm:
            return ZeroCentredRMSNorm(scope, config.head_dim, epsilon)

        self.kind = kind
        self.before_attention = norm("input_layernorm")
        self.after_attention = norm("post_attention_layernorm")
        self.before_mlp = norm("pre_feedforward_layernorm")
        self.after_mlp = norm("post_feedforward_layernorm")
        inner, input_norm = config.intermediate_size, self.before_mlp.as_input
        self.mlp = GeGLU(weights.scope("mlp"), width, inner, input_norm=input_norm)
        self._add = weights.ops(SumShape(width)).add
        self.attention = Attention(
            weights.scope("self_attn"),
            config.attention_sizes,
            head_norm,
            bias=config.attention_bias,
            scale=config.query_pre_attn_scalar**-0.5,
            window=config.sliding_window if kind == "sliding_attention" else None,
            input_norm=self.before_attention.as_input,
        )

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        inputs, rotation = self.before_attention(hidden), rotations[self.kind]
        attended = self.attention(inputs, rotation, memory, layer, both_ways=image)
        normed, hidden = self.before_mlp.of_sum(self.after_attention(attended), hidden)
        return self._add(hidden, self.after_mlp(self.mlp(normed, memory.is_step)))

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return (self.attention.spec,)


# ------------------------------------------------------------------ model


class Gemma3Model(Decoder):
    """The text stack, its head, and the vision tower where the folder has one."""

    def __init__(self, config: Gemma3Config, weights: Weights, device: torch.device) -> None:
        text, vision = config.text_config, config.vision_config
        scope = weights.scope("language_model.model")
        side = math.isqrt(config.mm_tokens_per_image)
        stack = Stack(
            vocab_size=text.vocab_size,
            hidden_size=text.hidden_size,
            max_positions=text.max_position_embeddings,
            tied=config.tied,
            blocks=[
                Block(scope.scope(f"layers.{index}"), text, kind)
                for index, kind in enumerate(text.types)
            ],
            norm=ZeroCentredRMSNorm(scope.scope("norm"), text.hidden_size, text.rms_norm_eps),
            ropes={
                kind: RoPE(settings.frequencies(text.head_dim, device), weights.dtype)
                for kind, settings in text.ropes.items()
            },
            tower=VisionTower(weights, vision, side, text.hidden_size) if vision else None,
        )
        super().__init__(stack, weights, scope, device)
        # Rounded to the model's type before it multiplies, as the models were trained: in bfloat16
        # the square root of 3,072 is 55.5 and not 55.43.
        self.embedding_scale = torch.tensor(text.hidden_size**0.5).to(device, weights.dtype)

    @torch.inference_mode()
    def embed(self, ids: Tensor) -> Tensor:
        """Token ids [n] -> [n, hidden_size], scaled as this family trains them."""
        return super().embed(ids) * self.embedding_scale


# ------------------------------------------------------------------ weight names

# What the model asks for, a name that tells one spelling from another, and the spellings: those of
# the hub, of transformers 4 and 5, and of text-only folders.
_SPELLINGS = (
    (
        "language_model.model.",
        "embed_tokens.weight",
        ("language_model.model.", "model.language_model.", "model."),
    ),
    (
        "vision_tower.vision_model.",
        "post_layernorm.weight",
        (
            "vision_tower.vision_model.",
            "vision_tower.",
            "model.vision_tower.vision_model.",
            "model.vision_tower.",
        ),
    ),
    (
        "multi_modal_projector.",
        "mm_soft_emb_norm.weight",
        ("multi_modal_projector.", "model.multi_modal_projector."),
    ),
    ("lm_head.", "weight", ("lm_head.", "language_model.lm_head.")),
)


def published_names(config: Gemma3Config, found: Collection[str]) -> Callable[[str], str]:
    """From the names the model asks for to the folder's, which put other words before them."""
    chosen = {
        asked: next((each for each in spellings if each + telling in found), spellings[0])
        for asked, telling, spellings in _SPELLINGS
    }

    def published(name: str) -> str:
        prefix = next(each for each in chosen if name.startswith(each))
        return chosen[prefix] + name.removeprefix(prefix)

    return published
