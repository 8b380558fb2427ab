"""Model folders for the benches: the demo model, and random weights of a released shape.

Random weights are made tensor by tensor and go straight to disk, so memory holds only a piece. The
family itself lists the tensors.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from core.loading.registry import family_of
from core.models.decoder import MTP_MARK
from core.weights.plan import Weights, plan_weights
from core.weights.spec import TensorSpec

DEMO = Path(__file__).parents[2] / "resources" / "models" / "demo"
TEXT_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)
PIECE = 16 * 2**20  # numbers made at a time: 64 MB before they become bfloat16
# Families whose norms multiply by 1 plus their weight.
ZERO_CENTRED = frozenset({"qwen3_5", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"})
ONES = (".D", ".layer_scalar", ".scale", "_scale")  # what multiplies, besides norms
_FUSED = ("experts.gate_up_proj", "experts.down_proj")


class NoRoomError(Exception):
    """Why random weights were not written, for a person to read."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a Qwen3.5 with vision; the defaults are the released 0.8B's.

    `linear_heads` are the delta net's key heads, `value_heads` its value heads.
    """

    layers: int = 24
    hidden: int = 1024
    mlp: int = 3584
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 256
    linear_heads: int = 16
    value_heads: int = 16
    linear_dim: int = 128
    vocabulary: int = 248_320
    positions: int = 262_144
    vision_depth: int = 12
    vision_hidden: int = 768
    vision_heads: int = 12
    vision_mlp: int = 3072
    tied: bool = True

    @property
    def delta_columns(self) -> int:
        """Queries, keys and values of one delta net, side by side."""
        return (2 * self.linear_heads + self.value_heads) * self.linear_dim


# What is the same in all of them (width of heads, vocabulary, taps) are the defaults.
RELEASED = {
    "0.8B": Shape(),
    "4B": Shape(
        layers=32, hidden=2560, mlp=9216, heads=16, kv_heads=4, value_heads=32,
        vision_depth=24, vision_hidden=1024, vision_heads=16, vision_mlp=4096,
    ),
    "9B": Shape(
        layers=32, hidden=4096, mlp=12_288, heads=16, kv_heads=4, value_heads=32,
        vision_depth=27, vision_hidden=1152, vision_heads=16, vision_mlp=4304, tied=False,
    ),
}  # fmt: skip

# As small as the demo model's tokenizer allows: for tests of the benches themselves.
TINY = Shape(
    layers=4, hidden=32, mlp=48, heads=2, kv_heads=1, head_dim=32, linear_heads=2, value_heads=2,
    linear_dim=16, vocabulary=1024, positions=4096, vision_depth=1, vision_hidden=32,
    vision_heads=2, vision_mlp=48,
)  # fmt: skip


def write_random(
    folder: Path, shape: Shape, seed: int = 0, device: str = "cpu", *, mtp: bool = False
) -> Path:
    """A whole model folder of a Qwen3.5, perhaps with an MTP head."""
    return write_folder(folder, config_of(shape), seed=seed, device=device, mtp=mtp)


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    *,
    fused: bool = False,
    mtp: bool = False,
    seed: int = 0,
    device: str = "cpu",
) -> Path:
    """A whole model folder in bfloat16, with the demo model's tokenizer and template.

    Numbers are generated on `device`: billions take a processor minutes. `fused`: all experts of a
    layer are in two tensors. Raises NoRoomError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = published(config, fused, mtp)
    needed, free = 2 * numbers_in(tensors), shutil.disk_usage(folder).free
    if needed > free:
        raise NoRoomError(
            f"The random weights take {needed / 1e9:,.1f} GB, and {folder} has room for "
            f"{free / 1e9:,.1f}. Fewer layers take less (SHAPE/LAYERS)."
        )
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name in TEXT_FILES:
        shutil.copy(DEMO / name, folder / name)
    processor = json.loads((DEMO / "preprocessor_config.json").read_text())
    processor["size"] = {"shortest_edge": 64 * 64, "longest_edge": 4096 * 4096}
    if has_vision(config):
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    with (folder / "model.safetensors").open("wb") as file:
        generator = torch.Generator(device).manual_seed(seed)
        _write_weights(file, tensors, generator, str(config["model_type"]) in ZERO_CENTRED)
    return folder


def published(
    config: Mapping[str, Any], fused: bool = False, mtp: bool = False
) -> dict[str, TensorSpec]:
    """The tensors of a release by published name, in the order the family asks for them."""
    family = family_of(config)
    parsed = family.parse(config)

    # gpt-oss has inputs before outputs.
    of_oss = config["model_type"] == "gpt_oss"
    axes = (0, config["hidden_size"], 2 * config["intermediate_size"]) if of_oss else ()

    def build(weights: Weights) -> None:
        weights.stored = lambda name: (
            axes if (fused and name.endswith(_FUSED)) or (mtp and name == MTP_MARK) else None
        )
        family.build(parsed, weights, torch.device("cpu"))

    # A text stack alone has no prefix.
    alone = str(config["model_type"]).endswith("_text")
    name = family.published_names(parsed, ("model.embed_tokens.weight",) if alone else ())
    return {name(asked): spec for asked, spec in plan_weights(build, torch.bfloat16).items()}


def numbers_in(tensors: Mapping[str, TensorSpec], scope: str = "") -> int:
    """Numbers in the tensors whose names hold `scope`."""
    return sum(spec.num_elements for name, spec in tensors.items() if scope in name)


def has_vision(config: Mapping[str, Any]) -> bool:
    return "vision_config" in config


def config_of(shape: Shape) -> dict[str, Any]:
    """config.json with the demo model's token ids, so that its tokenizer fits."""
    config: dict[str, Any] = json.loads((DEMO / "config.json").read_text())
    config["text_config"] |= {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "num_hidden_layers": shape.layers,
        "layer_types": None,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "linear_num_key_heads": shape.linear_heads,
        "linear_num_value_heads": shape.value_heads,
        "linear_key_head_dim": shape.linear_dim,
        "linear_value_head_dim": shape.linear_dim,
        "max_position_embeddings": shape.positions,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e7,
            "partial_rotary_factor": 0.25,
            "mrope_section": _sections(shape.head_dim // 8),
            "mrope_interleaved": True,
        },
    }
    del config["text_config"]["layer_types"]
    config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = shape.tied
    config["vision_config"] |= {
        "depth": shape.vision_depth,
        "hidden_size": shape.vision_hidden,
        "intermediate_size": shape.vision_mlp,
        "num_heads": shape.vision_heads,
        "out_hidden_size": shape.hidden,
        "num_position_embeddings": 2304,
    }
    return config


def _sections(pairs: int) -> list[int]:
    """Rotated pairs of dimensions by axis: a third each, the rest to the first axes."""
    return [(pairs + 2 - axis) // 3 for axis in range(3)]


def _write_weights(
    file: BinaryIO, plan: dict[str, TensorSpec], generator: torch.Generator, zero_centred: bool
) -> None:
    """A safetensors file: the length of the header, the header, then every tensor in order."""
    header: dict[str, Any] = {}
    end = 0
    for name, spec in plan.items():
        start, end = end, end + 2 * spec.num_elements
        header[name] = {"dtype": "BF16", "shape": spec.stored_shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    file.write(len(text).to_bytes(8, "little") + text)
    for name, spec in plan.items():
        for piece in _pieces(name, spec, generator, zero_centred):
            file.write(piece.bfloat16().cpu().view(torch.uint8).numpy().tobytes())


def _pieces(
    name: str, spec: TensorSpec, generator: torch.Generator, zero_centred: bool
) -> Iterator[Tensor]:
    """The numbers of a tensor in pieces: matrices keep the size of their inputs; decay is as at the
    start of training (Dao and Gu 2024, arXiv:2405.21060).

    `zero_centred`: norms of the text stack multiply by 1 plus their weight.
    """
    left, device = spec.num_elements, generator.device
    while left > 0:
        noise = torch.randn(min(PIECE, left), generator=generator, device=device)
        left -= noise.numel()
        if name.endswith("A_log"):
            yield _uniform(noise.shape, generator).mul(15).add(1).log()
        elif name.endswith(("dt_bias", "dt_proj.bias")):
            # What softplus turns into 0.001 to 0.1. With rates near one, heads would forget within
            # a few tokens, and an engine that lets factors become denormal numbers would crawl.
            step = _uniform(noise.shape, generator).mul(math.log(100)).exp() / 1000
            yield step + (-torch.expm1(-step)).log()
        elif len(spec.shape) > 1:
            yield noise / math.sqrt(math.prod(spec.shape[1:]))
        else:
            plain = "visual" in name or name.endswith("linear_attn.norm.weight") or not zero_centred
            scales = "norm" in name and name.endswith("weight")
            yield 0.1 * noise + (1 if (plain and scales) or name.endswith(ONES) else 0)


def _uniform(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """In [0, 1)."""
    return torch.rand(shape, generator=generator, device=generator.device)
