"""Nemotron-H (text only): config, block with its cache spec, model, weight names.

Each block is one thing alone: Mamba-2, full attention without positions, or what remembers nothing:
an MLP, or sparse experts beside one. Experts are chosen by sigmoids, and may read a projection to
fewer numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from core.layers.attention import Attention
from core.layers.experts import ExpertSizes, FeedForward, SparseExperts, WithShared
from core.layers.mamba2 import Mamba2, Mamba2Form, Mamba2Sizes
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mlp import SquaredReluMLP
from core.layers.norm import RMSNorm
from core.layers.rope import Rotations
from core.models.config.attention_settings import AttentionSettings
from core.models.config.settings import Count, Positive, Taps, parse_settings
from core.models.decoder import Decoder, Stack
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import Routing, SumShape

BlockType = Literal["linear_attention", "full_attention", "mlp", "moe"]
_LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
_OLDER_NAMES = {"mamba": "linear_attention", "attention": "full_attention"}
# Keys under the names that older files have for them.
_OLDER_KEYS = {
    "mamba_n_groups": "n_groups",
    "mamba_d_conv": "conv_kernel",
    "mamba_dt_min": "time_step_min",
    "mamba_conv_bias": "use_conv_bias",
    "num_local_experts": "n_routed_experts",
}
_MOST_BLOCKS = 1024

# ------------------------------------------------------------------ config


class NemotronHConfig(AttentionSettings):
    """config.json; what it leaves out has the value that transformers gives it."""

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

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: Any) -> Any:
        """The kinds of blocks from whichever key has them, and older keys under newer names."""
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in values.items() if value is not None}
        older = {name: given[key] for key, name in _OLDER_KEYS.items() if key in given}
        types = given.get("layers_block_type", given.get("layer_types"))
        if types is None:
            types = given.get("hybrid_override_pattern")
        if isinstance(types, str):
            types = [_LETTERS.get(letter, letter) for letter in types[: _MOST_BLOCKS + 1]]
        if isinstance(types, list):
            given["layers_block_type"] = tuple(_OLDER_NAMES.get(str(each), each) for each in types)
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
        """Raises ValueError where experts can't be chosen as the other keys say."""
        size, rest = divmod(self.n_routed_experts, self.n_group)
        if rest or (self.n_group > 1 and size < 2):
            raise ValueError('"n_group" does not part "n_routed_experts" into groups')
        if self.topk_group > self.n_group:
            raise ValueError('"topk_group" is more than "n_group"')
        if self.num_experts_per_tok > size * self.topk_group:
            raise ValueError('"num_experts_per_tok" is more than "topk_group" groups have')
        if self.moe_latent_size and self.mlp_bias:
            raise ValueError('"mlp_bias" is not supported beside "moe_latent_size"')

    @property
    def expert_sizes(self) -> ExpertSizes:
        routing = Routing(
            k=self.num_experts_per_tok,
            normalise=self.norm_topk_prob,
            sigmoid=True,
            groups=self.n_group,
            open_groups=self.topk_group,
            scale=self.routed_scaling_factor,
        )
        return ExpertSizes(
            hidden=self.hidden_size,
            inner=self.moe_intermediate_size,
            count=self.n_routed_experts,
            routing=routing,
            gated=False,
            latent=self.moe_latent_size,
        )

    @property
    def mamba_sizes(self) -> Mamba2Sizes:
        return Mamba2Sizes(
            hidden=self.hidden_size,
            heads=self.mamba_num_heads,
            head_dim=self.mamba_head_dim,
            groups=self.n_groups,
            state_dim=self.ssm_state_size,
            kernel=self.conv_kernel,
        )

    @property
    def mamba_form(self) -> Mamba2Form:
        return Mamba2Form(
            epsilon=self.layer_norm_epsilon,
            norm_groups=self.n_groups,
            conv_bias=self.use_conv_bias,
            projection_bias=self.use_bias,
            output_bias=self.use_bias,
            # Of tokens that are generated too, or what a token is would depend on who wrote it.
            limits=(self.time_step_min, math.inf),
        )


def parse_config(values: Mapping[str, Any]) -> NemotronHConfig:
    """config.json as a NemotronHConfig; raises BrokenConfigError naming the keys at fault."""
    return parse_settings(NemotronHConfig, values)


# ------------------------------------------------------------------ block


class Block:
    """x + mixer(norm x)."""

    def __init__(self, weights: Weights, config: NemotronHConfig, kind: BlockType) -> None:
        width = config.hidden_size
        self.norm = RMSNorm(weights.scope("norm"), width, config.layer_norm_epsilon)
        self._add = weights.ops(SumShape(width)).add
        scope, input_norm = weights.scope("mixer"), self.norm.as_input
        self.mixer: Mamba2 | Attention | FeedForward
        if kind == "linear_attention":
            self.mixer = Mamba2(scope, config.mamba_sizes, config.mamba_form, input_norm)
        elif kind == "full_attention":
            sizes = config.attention_sizes
            self.mixer = Attention(scope, sizes, None, bias=False, input_norm=input_norm)
        elif kind == "mlp":
            self.mixer = _mlp(scope, config, config.intermediate_size, input_norm)
        else:
            inner, shared = (
                config.moe_shared_expert_intermediate_size,
                scope.scope("shared_experts"),
            )
            self.mixer = WithShared(
                scope,
                width,
                SparseExperts(scope, config.expert_sizes, input_norm),
                _mlp(shared, config, inner, input_norm),
            )

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        inputs = self.norm(hidden)
        if isinstance(self.mixer, Mamba2):
            mixed = self.mixer(inputs, memory, layer)
        elif isinstance(self.mixer, Attention):
            mixed = self.mixer(inputs, None, memory, layer)
        else:
            mixed = self.mixer(inputs, memory.is_step)
        return self._add(hidden, mixed)

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        return (self.mixer.spec,) if isinstance(self.mixer, Mamba2 | Attention) else ()


def _mlp(weights: Weights, config: NemotronHConfig, inner: int, norm: InputNorm) -> SquaredReluMLP:
    width, bias = config.hidden_size, config.mlp_bias
    return SquaredReluMLP(weights, width, inner, bias=bias, input_norm=norm)


# ------------------------------------------------------------------ model


class NemotronHModel(Decoder):
    """The text stack and its head."""

    def __init__(self, config: NemotronHConfig, weights: Weights, device: torch.device) -> None:
        scope = weights.scope("model")
        stack = Stack(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            max_positions=config.max_position_embeddings,
            tied=config.tie_word_embeddings,
            blocks=[
                Block(scope.scope(f"layers.{index}"), config, kind)
                for index, kind in enumerate(config.layers_block_type)
            ],
            norm=RMSNorm(scope.scope("norm_f"), config.hidden_size, config.layer_norm_epsilon),
            ropes={},
        )
        super().__init__(stack, weights, scope, device)


# ------------------------------------------------------------------ weight names

_TABLE, _OTHER_TABLE = "model.embed_tokens.", "model.embeddings."
_SPELLINGS = "backbone.", "model."


def published_names(config: NemotronHConfig, found: Collection[str]) -> Callable[[str], str]:
    """From the names the model asks for to the folder's: releases say backbone for model."""
    present = [each for each in _SPELLINGS if f"{each}norm_f.weight" in found]
    spelling = (present or _SPELLINGS)[0]

    def published(name: str) -> str:
        name = name.replace(_TABLE, _OTHER_TABLE, 1)
        return spelling + name.removeprefix("model.") if name.startswith("model.") else name

    return published
