"""Tiny model folders made with transformers' own classes, whole enough for the engine to load.

`write_folder(path, Tiny(...))` writes what a release has: config, weights (single or sharded),
tokenizer, chat template, generation and preprocessor configs. Sizes are as small as the layers
allow, and the random weights are spread so that logits differ by about 1 from token to token.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from torch import Tensor
from transformers import (
    PreTrainedModel,
    Qwen3_5Config,
    Qwen3_5ForCausalLM,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5TextConfig,
)
from transformers.utils import logging

logging.disable_progress_bar()  # type: ignore[no-untyped-call]

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
MARKS = ("<think>", "</think>")
VOCABULARY = 384  # more rows than the tokenizer has ids, as in the releases

PLAIN_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content | trim }}
    {%- else %}
        {%- for part in message.content %}
            {%- if part.type == 'image' %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- else %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


@dataclass(frozen=True)
class Tiny:
    """`layers` spells the kinds: L for linear attention, F for full attention."""

    layers: str = "LLLF"
    hidden: int = 32
    mlp: int = 48
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    key_heads: int = 2
    key_dim: int = 16
    value_heads: int = 4
    value_dim: int = 32
    tied: bool = True
    attention_bias: bool = False
    vision: bool = True
    text_only: bool = False
    vision_depth: int = 2
    vision_heads: int = 2
    vision_hidden: int = 32
    vision_positions: int = 36
    max_positions: int = 4096
    dtype: torch.dtype = torch.float32  # as stored; float32 or bfloat16
    max_shard_size: str = "1GB"
    template: str = PLAIN_TEMPLATE
    template_inside_tokenizer_config: bool = False
    seed: int = 0


@cache
def tokenizer(*control: str) -> Tokenizer:
    """Byte-level BPE with a few merges; the last ids are control tokens, at the end `control`."""
    if control:
        result = Tokenizer.from_str(tokenizer().to_str())
        result.add_special_tokens([AddedToken(text, normalized=False) for text in control])
        return result
    result = Tokenizer(BPE())
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    result.train_from_iterator(
        ["user assistant system the quick brown fox and a red circle"], trainer
    )
    result.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    result.add_tokens([AddedToken(text, normalized=False) for text in MARKS])
    return result


def token_id(text: str, control: Sequence[str] = ()) -> int:
    """Id of a control token or a line break."""
    found = tokenizer(*control).token_to_id(text.replace("\n", "\u010a"))
    assert found is not None
    return found


def image_ids() -> dict[str, Any]:
    """Ids of a picture's tokens and of those around them, by their keys of config.json."""
    names = "image_pad", "video_pad", "vision_start", "vision_end"
    return {f"{name.removesuffix('_pad')}_token_id": token_id(f"<|{name}|>") for name in names}


def text_config(tiny: Tiny) -> dict[str, Any]:
    kinds = {"L": "linear_attention", "F": "full_attention"}
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.mlp,
        "num_hidden_layers": len(tiny.layers),
        "layer_types": [kinds[letter] for letter in tiny.layers],
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "head_dim": tiny.head_dim,
        "linear_num_key_heads": tiny.key_heads,
        "linear_key_head_dim": tiny.key_dim,
        "linear_num_value_heads": tiny.value_heads,
        "linear_value_head_dim": tiny.value_dim,
        "max_position_embeddings": tiny.max_positions,
        "attention_bias": tiny.attention_bias,
        "tie_word_embeddings": tiny.tied,
        "eos_token_id": token_id("<|endoftext|>"),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
    }


def vision_config(tiny: Tiny) -> dict[str, Any]:
    return {
        "depth": tiny.vision_depth,
        "hidden_size": tiny.vision_hidden,
        "intermediate_size": 2 * tiny.vision_hidden,
        "num_heads": tiny.vision_heads,
        "out_hidden_size": tiny.hidden,
        "num_position_embeddings": tiny.vision_positions,
    }


def make_model(tiny: Tiny) -> PreTrainedModel:
    """The oracle itself, float32, with weights that make every part matter."""
    if tiny.text_only:
        model: PreTrainedModel = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**text_config(tiny)))
    else:
        config = Qwen3_5Config(
            text_config=text_config(tiny),
            vision_config=vision_config(tiny),
            tie_word_embeddings=tiny.tied,
            **image_ids(),
        )
        model = Qwen3_5ForConditionalGeneration(config)
    return randomise(model, tiny.seed)


def write_folder(path: Path, tiny: Tiny = Tiny()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    model = make_model(tiny)
    save(model, path, tiny.dtype, tiny.max_shard_size)
    write_beside(path, tiny)
    return model


def write_text_folder(
    path: Path,
    model: PreTrainedModel,
    dtype: torch.dtype,
    max_shard_size: str = "1GB",
    template: str = PLAIN_TEMPLATE,
    control: Sequence[str] = (),
) -> PreTrainedModel:
    """Write a whole folder of a text-only model; returns the oracle, with the stored weights."""
    save(model, path, dtype, max_shard_size)
    tokenizer(*control).save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (path / "chat_template.jinja").write_text(template)
    return model


def write_beside(path: Path, tiny: Tiny = Tiny()) -> None:
    """Write all that a folder has beside config and weights."""
    if not (tiny.vision or tiny.text_only):
        _drop_vision(path)
    for name, values in folder_settings(tiny).items():
        (path / name).write_text(json.dumps(values, indent=2))
    tokenizer().save(str(path / "tokenizer.json"))
    if not tiny.template_inside_tokenizer_config:
        (path / "chat_template.jinja").write_text(tiny.template)


def save(model: PreTrainedModel, path: Path, dtype: torch.dtype, max_shard_size: str) -> None:
    """Write config and weights as `dtype`; the model itself goes on in float32, rounded alike."""
    stored = model if dtype == torch.float32 else copy.deepcopy(model).bfloat16()
    if stored is not model:
        model.load_state_dict(stored.state_dict())
    stored.save_pretrained(path, max_shard_size=max_shard_size)


def is_plain_norm(name: str) -> bool:
    """True if a norm multiplies by its weight, not by 1 plus it."""
    return name.endswith("linear_attn.norm.weight") or (
        "visual" in name and "norm" in name and name.endswith("weight")
    )


def is_norm(name: str) -> bool:
    """`is_plain_norm` of families all of whose norms are."""
    return "norm" in name.split(".")[-2] and name.endswith("weight")


def randomise(
    model: PreTrainedModel, seed: int, is_plain_norm: Callable[[str], bool] = is_plain_norm
) -> PreTrainedModel:
    """Overwrite every parameter: matrices keep the size of what passes, norms are not all alike.

    Returns the model, which infers and doesn't train.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.1 * noise if is_plain_norm(name) else _spread(name, noise))
    generator.manual_seed(seed)
    for name, buffer in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "expert_bias")):  # as far apart as scores are
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
    model.train(False)
    return model


def _spread(name: str, noise: Tensor) -> Tensor:
    if name.endswith("A_log"):
        return noise.clamp(-2, 2)
    if name.endswith(("dt_proj.bias", "forget_gate.dt_bias")):
        return 0.1 * noise - 4.0  # time steps with which states last for many tokens
    if noise.ndim == 1:
        return 0.1 * noise
    if name.endswith("embed_tokens.weight"):
        return noise / math.sqrt(noise.shape[1])
    if ".experts." in name:  # all of a layer's in one tensor
        return noise / math.sqrt(noise.shape[-1])
    return noise / math.sqrt(noise[0].numel())


def folder_settings(tiny: Tiny) -> dict[str, dict[str, Any]]:
    """Contents of the small files next to config and template, by name."""
    added = {
        str(token_id(text)): {"content": text, "special": text in SPECIAL}
        for text in SPECIAL + MARKS
    }
    tokenizer_config: dict[str, Any] = {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": added,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": tiny.max_positions,
    }
    if tiny.template_inside_tokenizer_config:
        tokenizer_config["chat_template"] = tiny.template
    stops = [token_id("<|im_end|>"), token_id("<|endoftext|>")]
    settings: dict[str, dict[str, Any]] = {
        "tokenizer_config.json": tokenizer_config,
        "generation_config.json": {"do_sample": False, "eos_token_id": stops},
    }
    if tiny.vision and not tiny.text_only:
        settings["preprocessor_config.json"] = _preprocessor()
    return settings


def _preprocessor() -> dict[str, Any]:
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "size": {"shortest_edge": 64 * 64, "longest_edge": 256 * 256},  # 4 to 64 image tokens
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }


def _drop_vision(path: Path) -> None:
    config = json.loads((path / "config.json").read_text())
    del config["vision_config"]
    (path / "config.json").write_text(json.dumps(config))
