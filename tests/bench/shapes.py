"""The shapes that `--shape` names: released models by their published sizes, whole or cut.

`35B-A3B/8` has eight of the release's layers. A cut keeps the mix of layers, so figures of the
whole model can be computed from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from tests.bench.folders import RELEASED, TINY, Shape, config_of, numbers_in, published
from tests.models.releases import RELEASED as CONFIGS

_TINY_ATTENTION = {
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 1024,
    "pad_token_id": 0,
}
_TINY_DELTA_NET = {
    "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 16, "shared_expert_intermediate_size": 32,
}  # fmt: skip
_TINY_EXPERTS = {
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "intermediate_size": 64, "hidden_size": 64,
}  # fmt: skip
_TINY_MAMBA = {
    "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 16,
    "intermediate_size": 64,
}  # fmt: skip


class ShapeError(ValueError):
    """A shape that doesn't exist, for a person to read."""


@dataclass(frozen=True)
class Release:
    """The facts of a config.json whose layers repeat with a `period`.

    `fused`: experts of a layer are published in two tensors. `tiny` are sizes for tests. `in_cuts`
    is set in a cut only: without it, the first layers would not have the mix of the whole.
    """

    config: Mapping[str, Any]
    period: int
    tiny: Mapping[str, Any]
    fused: bool = False
    in_cuts: Mapping[str, Any] = field(default_factory=dict)

    def cut_to(self, layers: int, quick: bool = False) -> dict[str, Any]:
        """config.json of so many layers, a multiple of the period."""
        config = {**deepcopy(dict(self.config)), **(self.tiny if quick else {})}
        if layers < config["num_hidden_layers"]:
            config |= self.in_cuts
        if config.get("layer_types"):
            config["layer_types"] = config["layer_types"][:layers]
        if "linear_attn_config" in config:
            config["linear_attn_config"] = {
                key: [index for index in value if index <= layers]
                if key.endswith("_layers")
                else value
                for key, value in config["linear_attn_config"].items()
            }
        return config | {"num_hidden_layers": layers}


@dataclass(frozen=True)
class Cut:
    """A shape as it was named: so many `layers` of the `whole` release's, under this config."""

    name: str
    config: Mapping[str, Any]
    layers: int
    whole: int
    fused: bool = False

    @property
    def release(self) -> str:
        return self.name.partition("/")[0]

    @property
    def label(self) -> str:
        return self.name.replace("/", "-")

    @property
    def is_whole(self) -> bool:
        return self.layers == self.whole

    @property
    def text(self) -> Mapping[str, Any]:
        """The part of its config that the text stack has."""
        text: Mapping[str, Any] = self.config.get("text_config", self.config)
        return text

    def head(self) -> dict[str, Any]:
        """config.json of almost no layers with the same table and head, to time those alone."""
        tied = self.config.get("tie_word_embeddings", False)
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.text["hidden_size"],
            "vocab_size": self.text["vocab_size"],
            "tie_word_embeddings": tied,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "head_dim": 64,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e4,
            "max_position_embeddings": self.text.get("max_position_embeddings", 131_072),
            "bos_token_id": None,
            "eos_token_id": None,
        }


def _text(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """With the class that llama.cpp's converter asks for."""
    return {**config, "architectures": [f"{name}ForCausalLM"]}


def _gemma4(name: str, period: int, **tiny: Any) -> Release:
    """Text alone."""
    sizes = _TINY_ATTENTION | {
        "head_dim": 32, "global_head_dim": 32, "hidden_size": 64, "intermediate_size": 64,
        "vocab_size_per_layer_input": 1024, **tiny,
    }  # fmt: skip
    return Release(_text(CONFIGS[name]["text_config"], "Gemma4"), period, sizes, fused=True)


# Text alone: the tower of 35B-A3B is the 9B's.
RELEASES = {
    "35B-A3B": Release(
        CONFIGS["Qwen3.5-35B-A3B"], 4, _TINY_ATTENTION | _TINY_DELTA_NET | _TINY_EXPERTS, fused=True
    ),
    "Falcon-H1-0.5B": Release(
        CONFIGS["Falcon-H1-0.5B-Instruct"], 1,
        _TINY_ATTENTION | _TINY_MAMBA | {"hidden_size": 32, "head_dim": 16},
    ),
    # Its experts in bfloat16, as other programs convert them; each quantises for itself.
    "gpt-oss-20b": Release(
        CONFIGS["gpt-oss-20B"] | {"layer_types": None, "quantization_config": None}, 2,
        _TINY_ATTENTION | _TINY_EXPERTS | {"head_dim": 32, "num_local_experts": 8}, fused=True,
    ),
    # Layers that share keys and values come last, so that a cut has another mix.
    "E2B": _gemma4("Gemma-4-E2B", 35, hidden_size_per_layer_input=16),
    "E4B": _gemma4("Gemma-4-E4B", 42, hidden_size_per_layer_input=16),
    "26B-A4B": _gemma4(
        "Gemma-4-26B-A4B", 6, num_global_key_value_heads=1, num_experts=8, top_k_experts=2,
        moe_intermediate_size=32,
    ),
    # Their dense layers at the start are as wide as the experts that a token goes through.
    "LFM2-8B-A1B": Release(
        _text(CONFIGS["LFM2-8B-A1B"], "Lfm2Moe") | {"tie_word_embeddings": True}, 4,
        _TINY_ATTENTION | _TINY_EXPERTS, in_cuts={"num_dense_layers": 0},
    ),
    "LFM3-1.7B": Release(
        _text(CONFIGS["LFM3-1.7B"], "Lfm3"), 24,
        _TINY_ATTENTION | {"head_dim": 32, "hidden_size": 64, "intermediate_size": 64},
    ),
    "Kimi-Linear-48B-A3B": Release(
        _text(CONFIGS["Kimi-Linear-48B-A3B"], "KimiLinear"), 4,
        _TINY_ATTENTION | _TINY_EXPERTS | {
            "kv_lora_rank": 32, "num_key_value_heads": 2, "qk_nope_head_dim": 32,
            "v_head_dim": 32, "num_experts_per_token": 2,
            "linear_attn_config": CONFIGS["Kimi-Linear-48B-A3B"]["linear_attn_config"]
            | {"head_dim": 32, "num_heads": 2},
        },
        in_cuts={"first_k_dense_replace": 0},
    ),
}  # fmt: skip


def names() -> Sequence[str]:
    return [*RELEASED, *RELEASES]


def dense(name: str) -> Shape | None:
    """The sizes of a Qwen3.5 without experts, whose ops are measured too; None for all others."""
    return RELEASED.get(name.partition("/")[0])


def described(name: str, quick: bool) -> str:
    """Describe the part of a release that is measured, and its vocabulary's share."""
    if quick:
        return "A tiny shape"
    cut = chosen(name)
    told = f"The {cut.release} shape, random weights"
    if dense(name) and cut.is_whole:
        return told
    every, words = numbers_in(published(cut.config, cut.fused)), cut.text["vocab_size"]
    table = words * cut.text["hidden_size"] * (1 if cut.config.get("tie_word_embeddings") else 2)
    layers = "" if cut.is_whole else f"cut to {cut.layers} of its {cut.whole} layers, "
    return (
        f"{told}, {layers}{every / 1e9:.2f} B numbers, of them {table / 1e9:.2f} B the table and "
        f"head of {words:,} words"
    )


def chosen(name: str, quick: bool = False) -> Cut:
    """The shape of a name; `quick`: with tiny sizes, and few layers unless it was cut. Raises
    ShapeError."""
    base, slash, wanted = name.partition("/")
    if base not in names():
        raise ShapeError(f"there is no shape {base}; there are {', '.join(names())}")
    shape = dense(base)
    period = 4 if shape else RELEASES[base].period
    whole = shape.layers if shape else int(RELEASES[base].config["num_hidden_layers"])
    if quick and not slash:
        whole = period
    layers = int(wanted) if slash and wanted.isdecimal() else 0 if slash else whole
    if layers not in {*range(period, whole, period), whole}:
        start = "1 to" if period == 1 else f"a multiple of {period} up to"
        raise ShapeError(
            f"{name} would not have the mix of kinds of layers that {base} has; a cut has "
            f"{start} {whole} layers"
        )
    if shape:
        sizes = replace(TINY if quick else shape, layers=layers)
        return Cut(name, config_of(sizes), layers, whole)
    release = RELEASES[base]
    return Cut(name, release.cut_to(layers, quick), layers, whole, release.fused)
