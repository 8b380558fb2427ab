"""Tiny Gemma 3 folders, made with transformers' own classes, and prompts for both sides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    Gemma3Config,
    Gemma3ForCausalLM,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    PreTrainedModel,
)

from core.api.prompt import Image
from core.models.decoder import Decoder
from tests.models.memory import ConcatenatingMemory
from tests.oracle.checkpoints import randomise, save
from tests.oracle.runs import Picture, Pieces, prompt_of
from tests.text.tiny_tokenizer import gemma3_image_ids, write_text_folder

VOCABULARY = 680  # more rows than the tokenizer has ids, as in the releases
TOWER_NORMS = ("layer_norm1", "layer_norm2", "post_layernorm")
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0}


@dataclass(frozen=True)
class TinyGemma3:
    """`layers` spells the kinds: S for a sliding window, F for full attention.

    A picture is a square of `image_size` pixels and costs `tokens_per_side` squared tokens.
    """

    layers: str = "SFS"
    window: int = 8
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    scalar: int = 12
    full_rope: dict[str, Any] = field(default_factory=lambda: dict(LINEAR_ROPE))
    text_only: bool = False
    tied: bool = True
    image_size: int = 24
    patch_size: int = 4
    tokens_per_side: int = 3
    vision_hidden: int = 24
    vision_heads: int = 2
    vision_depth: int = 2
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "1GB"
    seed: int = 0

    @property
    def num_tokens(self) -> int:
        return self.tokens_per_side**2


def text_config(tiny: TinyGemma3) -> dict[str, Any]:
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
        "query_pre_attn_scalar": tiny.scalar,
        "sliding_window": tiny.window,
        "max_position_embeddings": tiny.max_positions,
        "tie_word_embeddings": tiny.tied,
        "rope_parameters": {
            "full_attention": tiny.full_rope,
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
    }


def make_gemma3(tiny: TinyGemma3) -> PreTrainedModel:
    """The oracle itself, float32."""
    model: PreTrainedModel
    if tiny.text_only:
        model = Gemma3ForCausalLM(Gemma3TextConfig(**text_config(tiny)))
    else:
        vision = {
            "model_type": "siglip_vision_model",
            "hidden_size": tiny.vision_hidden,
            "intermediate_size": 2 * tiny.vision_hidden,
            "num_hidden_layers": tiny.vision_depth,
            "num_attention_heads": tiny.vision_heads,
            "image_size": tiny.image_size,
            "patch_size": tiny.patch_size,
            "vision_use_head": False,
        }
        image_ids: dict[str, Any] = dict(gemma3_image_ids())
        config = Gemma3Config(
            text_config=text_config(tiny),
            vision_config=vision,
            mm_tokens_per_image=tiny.num_tokens,
            tie_word_embeddings=tiny.tied,
            **image_ids,
        )
        model = Gemma3ForConditionalGeneration(config)
    return randomise(model, tiny.seed, _is_plain_norm)


def _is_plain_norm(name: str) -> bool:
    """The tower's norms multiply by their weights, all others by 1 plus them."""
    return name.split(".")[-2] in TOWER_NORMS and name.endswith("weight")


def write_gemma3(path: Path, tiny: TinyGemma3 = TinyGemma3()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_gemma3(tiny)
    path.mkdir(parents=True, exist_ok=True)
    write_text_folder(path, "gemma3")
    save(model, path, tiny.dtype, tiny.max_shard_size)
    (path / "preprocessor_config.json").write_text(json.dumps(preprocessor(tiny)))
    return model


def preprocessor(tiny: TinyGemma3) -> dict[str, Any]:
    return {
        "image_processor_type": "Gemma3ImageProcessor",
        "processor_class": "Gemma3Processor",
        "do_convert_rgb": None,
        "do_pan_and_scan": None,
        "image_seq_length": tiny.num_tokens,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "resample": 2,
        "rescale_factor": 1 / 255,
        "size": {"height": tiny.image_size, "width": tiny.image_size},
    }


@dataclass(frozen=True)
class Square(Picture):
    """Random pixels of one picture, by its folder's sizes."""

    tiny: TinyGemma3 = TinyGemma3()

    @classmethod
    def of(cls, tiny: TinyGemma3, seed: int = 0) -> Square:
        side = tiny.image_size // tiny.patch_size
        return cls(side, side, seed, tiny)

    @property
    def whole(self) -> Tensor:
        """Input of the oracle's tower: [3, size, size]."""
        generator = torch.Generator().manual_seed(self.seed)
        size = self.tiny.image_size
        return torch.rand(3, size, size, generator=generator) * 2 - 1

    @property
    def pixels(self) -> Tensor:
        """Input of our tower: patches row by row, each channel by channel."""
        patch = self.tiny.patch_size
        cut = self.whole.unfold(1, patch, patch).unfold(2, patch, patch)
        return cut.permute(1, 2, 0, 3, 4).flatten(0, 1).flatten(1)

    @property
    def segment(self) -> Image:
        side = self.tiny.tokens_per_side
        return Image(f"square {self.seed:>9}".encode(), side, side, side * side, in_line=True)


def oracle_inputs(pieces: Pieces) -> dict[str, Tensor]:
    """Arguments of the oracle's forward; it would join pictures next to each other."""
    image_id = gemma3_image_ids()["image_token_index"]
    given = {"input_ids": torch.tensor([prompt_of(pieces).ids(image_id)])}
    squares = [piece.whole for piece in pieces if isinstance(piece, Square)]
    if squares:
        marks = prompt_of([(0,) * len(p) if isinstance(p, tuple) else p for p in pieces]).ids(1)
        given |= {"pixel_values": torch.stack(squares), "token_type_ids": torch.tensor([marks])}
    return given


def our_logits(
    model: Decoder, pieces: Pieces, cuts: Sequence[int] = (), forced: Sequence[int] = ()
) -> Tensor:
    """[tokens, vocabulary], prefilled from cut to cut and picture to picture, then `forced`."""
    memory = ConcatenatingMemory(model.layer_specs)
    rows = [
        model.forward(embeddings, places, memory, image=image)
        for embeddings, places, image in _chunks(model, pieces, cuts)
    ]
    position = prompt_of(pieces).end.position.value
    for step, token in enumerate(forced):
        place = torch.full((3, 1), position + step)
        rows.append(model.forward(model.embed(torch.tensor([token])), place, memory))
    return model.logits(torch.cat(rows))


def _chunks(
    model: Decoder, pieces: Pieces, cuts: Sequence[int]
) -> Iterator[tuple[Tensor, Tensor, bool]]:
    runs = prompt_of(pieces).runs
    for run, piece in zip(runs, pieces, strict=True):
        places = torch.tensor(run.position_ids())
        if isinstance(piece, Picture):
            rows, columns = piece.rows, piece.columns
            yield model.encode_image(piece.pixels, rows, columns, lambda: None), places, True
            continue
        start = run.start.token.value
        inside = [cut - start for cut in cuts if start < cut < run.end.token.value]
        embedded = model.embed(torch.tensor(piece))
        for some, where in zip(
            torch.tensor_split(embedded, inside), torch.tensor_split(places, inside, 1), strict=True
        ):
            yield some, where, False
