"""Tiny Gemma 4 folders, made with transformers' own classes, and prompts for both sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    Gemma4Config,
    Gemma4ForCausalLM,
    Gemma4ForConditionalGeneration,
    Gemma4TextConfig,
    Gemma4UnifiedConfig,
    Gemma4UnifiedForCausalLM,
    Gemma4UnifiedForConditionalGeneration,
    Gemma4UnifiedTextConfig,
    PreTrainedModel,
)

from core.api.prompt import Image
from tests.oracle.checkpoints import randomise, save
from tests.oracle.runs import Picture, Pieces, prompt_of
from tests.text.tiny_tokenizer import gemma4_image_ids, write_text_folder

VOCABULARY = 680  # more rows than the tokenizer has ids, as in the releases


@dataclass(frozen=True)
class TinyGemma4:
    """`layers` spells the kinds: S for a sliding window, F for full attention; the
    last `shared` have no keys of their own. `per_layer` is the width of per-layer embeddings.

    `experts` are beside each dense layer, of which a token takes `top_k`; none if 0. `text` is the
    family of the tokenizer and the template.
    """

    layers: str = "SSFSF"
    window: int = 8
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    full_dim: int = 32
    full_kv_heads: int | None = None
    keys_as_values: bool = False
    shared: int = 0
    per_layer: int = 0
    double_wide: bool = False
    experts: int = 0
    top_k: int = 0
    unified: bool = False
    cap: float | None = 3.0
    others: Mapping[str, Any] = field(default_factory=dict)
    both_ways: bool = True
    text_only: bool = False
    text: str = "gemma4"
    tied: bool = True
    pooling: int = 2
    patch_size: int = 4
    vision_hidden: int = 24
    vision_heads: int = 2
    vision_dim: int = 12
    vision_depth: int = 2
    clipped: bool = False
    standardize: bool = False
    positions: int = 160
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "1GB"
    seed: int = 0


def text_config(tiny: TinyGemma4) -> dict[str, Any]:
    kinds = {"S": "sliding_attention", "F": "full_attention"}
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": 48,
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [kinds[letter] for letter in tiny.layers],
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "head_dim": tiny.head_dim,
        "global_head_dim": tiny.full_dim,
        "num_global_key_value_heads": tiny.full_kv_heads,
        "attention_k_eq_v": tiny.keys_as_values,
        "num_kv_shared_layers": tiny.shared,
        "hidden_size_per_layer_input": tiny.per_layer,
        "vocab_size_per_layer_input": VOCABULARY,
        "use_double_wide_mlp": tiny.double_wide,
        "enable_moe_block": tiny.experts > 0,
        "num_experts": tiny.experts or None,
        "top_k_experts": tiny.top_k or None,
        "moe_intermediate_size": 24 if tiny.experts else None,
        "final_logit_softcapping": tiny.cap,
        "use_bidirectional_attention": "vision" if tiny.both_ways else None,
        "sliding_window": tiny.window,
        "max_position_embeddings": tiny.max_positions,
        "tie_word_embeddings": tiny.tied,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": 1000.0,
                "partial_rotary_factor": 0.25,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
        **tiny.others,
    }


def make_gemma4(tiny: TinyGemma4) -> PreTrainedModel:
    """The oracle itself, float32."""
    model: PreTrainedModel
    if tiny.unified:
        model = _make_unified(tiny)
    elif tiny.text_only:
        model = Gemma4ForCausalLM(Gemma4TextConfig(**text_config(tiny)))
    else:
        vision = {
            "hidden_size": tiny.vision_hidden,
            "intermediate_size": 2 * tiny.vision_hidden,
            "num_hidden_layers": tiny.vision_depth,
            "num_attention_heads": tiny.vision_heads,
            "num_key_value_heads": tiny.vision_heads,
            "head_dim": tiny.vision_dim,
            "pooling_kernel_size": tiny.pooling,
            "patch_size": tiny.patch_size,
            "position_embedding_size": tiny.positions,
            "use_clipped_linears": tiny.clipped,
            "standardize": tiny.standardize,
        }
        image_ids: dict[str, Any] = dict(gemma4_image_ids())
        config = Gemma4Config(
            text_config=text_config(tiny),
            vision_config=vision,
            tie_word_embeddings=tiny.tied,
            **image_ids,
        )
        model = Gemma4ForConditionalGeneration(config)
    randomise(model, tiny.seed, _is_plain)
    _spread_buffers(model, tiny)
    return model


def _make_unified(tiny: TinyGemma4) -> PreTrainedModel:
    """Its classes know neither experts nor per-layer embeddings."""
    absent = ("hidden_size_per_layer_input", "enable_moe_block", "num_experts", "top_k_experts")
    beside = ("vocab_size_per_layer_input", "moe_intermediate_size")
    text = {key: value for key, value in text_config(tiny).items() if key not in absent + beside}
    if tiny.text_only:
        return Gemma4UnifiedForCausalLM(Gemma4UnifiedTextConfig(**text))
    vision = {
        "patch_size": tiny.patch_size,
        "pooling_kernel_size": tiny.pooling,
        "mm_embed_dim": tiny.vision_hidden,
        "output_proj_dims": tiny.vision_hidden,
        "mm_posemb_size": tiny.positions,
    }
    image_ids: dict[str, Any] = dict(gemma4_image_ids())
    config = Gemma4UnifiedConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=tiny.tied, **image_ids
    )
    return Gemma4UnifiedForConditionalGeneration(config)


def _is_plain(name: str) -> bool:
    """Every norm, and the scales of a router and of its experts, multiply by their weight."""
    norms = ("norm.weight", "norm_1.weight", "norm_2.weight", "ln1.weight", "ln2.weight")
    return name.endswith((*norms, "scale"))


def _spread_buffers(model: PreTrainedModel, tiny: TinyGemma4) -> None:
    generator = torch.Generator().manual_seed(tiny.seed)
    ranges = {"input_min": -1.5, "input_max": 1.2, "output_min": -1.6, "output_max": 1.4}
    for name, parameter in model.named_parameters():
        # Nothing else scales scores, of which a softmax should see more than the largest.
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            parameter.data.mul_(0.35)
    for name, buffer in model.named_buffers():
        end = name.rsplit(".", 1)[-1]
        if end in ranges:
            buffer.fill_(ranges[end])
        elif end in {"layer_scalar", "std_scale"}:
            buffer.copy_(0.6 + 0.3 * torch.rand(buffer.shape, generator=generator))
        elif end == "std_bias":
            buffer.copy_(torch.randn(buffer.shape, generator=generator))


def write_gemma4(path: Path, tiny: TinyGemma4 = TinyGemma4()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_gemma4(tiny)
    path.mkdir(parents=True, exist_ok=True)
    write_text_folder(path, tiny.text)
    save(model, path, tiny.dtype, tiny.max_shard_size)
    (path / "preprocessor_config.json").write_text(json.dumps(preprocessor(tiny)))
    return model


def preprocessor(tiny: TinyGemma4) -> dict[str, Any]:
    return {
        "image_processor_type": "Gemma4ImageProcessor",
        "processor_class": "Gemma4Processor",
        "do_convert_rgb": True,
        "do_normalize": False,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.0, 0.0, 0.0],
        "image_std": [1.0, 1.0, 1.0],
        "max_soft_tokens": 70,
        "patch_size": tiny.patch_size,
        "pooling_kernel_size": tiny.pooling,
        "resample": 3,
        "rescale_factor": 1 / 255,
    }


@dataclass(frozen=True)
class Pooled(Picture):
    """Random patches, row by row; a square of `side` patches is a token, positions a line."""

    patch: int = 4
    side: int = 2

    @property
    def pixels(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        size = (self.rows * self.columns, 3 * self.patch**2)
        return torch.rand(size, generator=generator)

    @property
    def segment(self) -> Image:
        rows, columns = self.rows // self.side, self.columns // self.side
        return Image(f"pooled {self.seed:>9}".encode(), rows, columns, rows * columns, in_line=True)


def oracle_inputs(pieces: Pieces) -> dict[str, Tensor]:
    """Arguments of the oracle's forward, pictures padded as its processor does."""
    image_id = gemma4_image_ids()["image_token_id"]
    given = {"input_ids": torch.tensor([prompt_of(pieces).ids(image_id)])}
    pictures = [piece for piece in pieces if isinstance(piece, Pooled)]
    if pictures:
        most = max(each.rows * each.columns for each in pictures) + pictures[0].side ** 2
        padded = torch.zeros(len(pictures), most, pictures[0].pixels.shape[1])
        places = torch.full((len(pictures), most, 2), -1)
        for index, each in enumerate(pictures):
            padded[index, : len(each.pixels)] = each.pixels
            order = torch.arange(len(each.pixels))
            both = torch.stack([order % each.columns, order // each.columns], dim=1)
            places[index, : len(each.pixels)] = both
        marks = prompt_of([(0,) * len(p) if isinstance(p, tuple) else p for p in pieces]).ids(1)
        given |= {
            "pixel_values": padded,
            "image_position_ids": places,
            "mm_token_type_ids": torch.tensor([marks]),
        }
    return given


def masks(oracle: Gemma4UnifiedForConditionalGeneration, given: dict[str, Tensor]) -> Any:
    """The masks that the oracle generates with. Its forward alone would make other ones, in which
    pictures attend both ways in full layers too."""
    marks = given.get("mm_token_type_ids")
    if marks is None:
        return {}
    text, length = oracle.config.get_text_config(), marks.shape[1]
    found = oracle.create_masks_for_generate(
        oracle.config,
        torch.zeros(1, length, text.hidden_size),
        None,
        None,
        torch.arange(length)[None],
        marks,
    )
    return {"attention_mask": found}
