"""The shapes that `--shape` names: released models by their published sizes, whole or cut.

`35B-A3B/8` has eight of the release's layers. A cut keeps the mix of its kinds of layers, or what
is computed of it for the whole model would be of another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from tests.bench.folders import RELEASED, TINY, Shape, config_of, numbers_in, published
from tests.models.releases import RELEASED as CONFIGS

_TINY_ATTENTION = {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 1024}
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
    "intermediate_size": 64, "shared_intermediate_size": 64,
}  # fmt: skip


class ShapeError(ValueError):
    """Which shape there is not, for a person to read."""


@dataclass(frozen=True)
class Release:
    """The facts of a config.json, and a letter for each layer: alike are those made alike.

    `listed` is the key that names what each layer is, where there is one. `fused`: all experts of a
    layer are published in two tensors. `tiny` are sizes for tests of the benches themselves.
    """

    config: Mapping[str, Any]
    kinds: str
    tiny: Mapping[str, Any] = field(default_factory=dict)
    listed: str = ""
    fused: bool = False

    def cut_to(self, layers: int, quick: bool = False) -> dict[str, Any]:
        """config.json of so many layers, one of `cuts`."""
        config = {**deepcopy(dict(self.config)), **(self.tiny if quick else {})}
        config["num_hidden_layers"] = layers
        if self.listed:
            config[self.listed] = config[self.listed][next(_starts(self.kinds, layers))]
        return config


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
        """Its name where it is part of a file's."""
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
        """config.json of next to no layer behind the same table and head: what is left of the time
        is theirs, whichever engine runs it."""
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
            "max_position_embeddings": self.text["max_position_embeddings"],
            "bos_token_id": None,
            "eos_token_id": None,
        }


_LISTED_GRANITE = "".join(each[0] for each in CONFIGS["Granite-4.0-H-350M"]["layer_types"])
_NEMOTRON_H = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
_NEMOTRON_H_8B = CONFIGS["Nemotron-Nano-9B-v2"] | {
    "num_hidden_layers": 52, "hidden_size": 4096, "intermediate_size": 21504,
    "num_attention_heads": 32, "mamba_head_dim": 64, "max_position_embeddings": 8192,
    "hybrid_override_pattern": _NEMOTRON_H, "layer_norm_epsilon": 1e-5,
}  # fmt: skip
# Text alone: the tower of 35B-A3B is the 9B's.
RELEASES = {
    "35B-A3B": Release(
        CONFIGS["Qwen3.5-35B-A3B"], "LLLF" * 10, fused=True,
        tiny=_TINY_ATTENTION | _TINY_DELTA_NET | _TINY_EXPERTS,
    ),
    "Qwen3-Next-80B-A3B": Release(
        CONFIGS["Qwen3-Next-80B-A3B"], "LLLF" * 12,
        tiny=_TINY_ATTENTION | _TINY_DELTA_NET | _TINY_EXPERTS,
    ),
    "Qwen3-30B-A3B": Release(
        CONFIGS["Qwen3-30B-A3B"], "F" * 48,
        tiny=_TINY_ATTENTION | _TINY_EXPERTS | {"head_dim": 32},
    ),
    "Falcon-H1-0.5B": Release(
        CONFIGS["Falcon-H1-0.5B-Instruct"], "B" * 36,
        tiny=_TINY_ATTENTION | _TINY_MAMBA | {"hidden_size": 32, "head_dim": 16},
    ),
    "Granite-4-H-350M": Release(
        CONFIGS["Granite-4.0-H-350M"], _LISTED_GRANITE, listed="layer_types",
        tiny=_TINY_ATTENTION | _TINY_MAMBA | {"hidden_size": 32},
    ),
    "Nemotron-H-8B": Release(
        _NEMOTRON_H_8B, _NEMOTRON_H, listed="hybrid_override_pattern",
        tiny=_TINY_ATTENTION | {
            "hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "mamba_num_heads": 8,
            "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16,
        },
    ),
    "Jamba-1.5-Mini": Release(
        CONFIGS["Jamba-1.5-Mini"], "mMmMaMmM" * 4,
        tiny=_TINY_ATTENTION | {
            "hidden_size": 32, "intermediate_size": 64, "num_experts": 4, "mamba_dt_rank": 8,
        },
    ),
}  # fmt: skip


def names() -> Sequence[str]:
    """What can be named, whole."""
    return [*RELEASED, *RELEASES]


def dense(name: str) -> Shape | None:
    """The sizes of a Qwen3.5 without experts, whose ops are measured too; None for all others."""
    return RELEASED.get(name.partition("/")[0])


def described(name: str, quick: bool) -> str:
    """What is measured, in words: how much is left of a release, and what its vocabulary costs."""
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
    """The shape of a name; `quick`: with sizes of nothing much, and with as few layers as its mix
    allows unless it was cut. Raises ShapeError."""
    base, slash, wanted = name.partition("/")
    if base not in names():
        raise ShapeError(f"there is no shape {base}; there are {', '.join(names())}")
    shape = dense(base)
    kinds = "LLLF" * (shape.layers // 4) if shape else RELEASES[base].kinds
    possible, whole = cuts(kinds), len(kinds)
    if quick and not slash:
        whole = possible[0]
    layers = int(wanted) if slash and wanted.isdecimal() else 0 if slash else whole
    if layers not in possible:
        raise ShapeError(
            f"{name} would not have the mix of kinds of layers that {base} has; a cut has "
            f"{_spelled(possible)} layers"
        )
    if shape:
        sizes = replace(TINY if quick else shape, layers=layers)
        return Cut(name, config_of(sizes), layers, whole)
    release = RELEASES[base]
    return Cut(name, release.cut_to(layers, quick), layers, whole, release.fused)


def _spelled(numbers: list[int]) -> str:
    least, most = numbers[0], numbers[-1]
    if numbers == list(range(least, most + 1, least)):
        return f"{least} to {most}" if least == 1 else f"a multiple of {least} up to {most}"
    return ", ".join(map(str, numbers))


def cuts(kinds: str) -> list[int]:
    """With how many layers the mix of all of them is kept."""
    return [layers for layers in range(1, len(kinds) + 1) if any(_starts(kinds, layers))]


def _starts(kinds: str, layers: int) -> Iterator[slice]:
    """Where as many layers follow each other that have the whole's mix."""
    whole = Counter(kinds)
    for start in range(len(kinds) - layers + 1):
        part = slice(start, start + layers)
        counts = Counter(kinds[part])
        if all(counts[kind] * len(kinds) == whole[kind] * layers for kind in whole):
            yield part
