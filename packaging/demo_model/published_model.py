"""Writes the demo model as a published folder: configs, tokenizer, template and bfloat16 weights.

Each file is written beside its place and moved over it, so that a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizer import tokenizer_settings
from tokenizers import Tokenizer
from transformers import Qwen3_5Config

HERE = Path(__file__).resolve().parent
PUBLISHED = HERE / "published"
REPOSITORY = HERE.parents[1]
DEMO_FOLDER = REPOSITORY / "resources" / "models" / "demo"
# The releases keep these two in float32: a rounded decay drifts over a long conversation.
FLOAT32_ENDINGS = ("linear_attn.A_log", "linear_attn.norm.weight")


def read_config(tokenizer: Tokenizer) -> dict[str, Any]:
    """config.json with the token ids of `tokenizer` filled in."""
    config: dict[str, Any] = json.loads((PUBLISHED / "config.json").read_text())
    named = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    for key, text in named.items():
        config[key] = tokenizer.token_to_id(text)
    config["text_config"]["eos_token_id"] = tokenizer.token_to_id("<|endoftext|>")
    return config


def base_config() -> Qwen3_5Config:
    """The architecture alone, for parts that need no token ids."""
    return Qwen3_5Config(**json.loads((PUBLISHED / "config.json").read_text()))


def generation_settings(tokenizer: Tokenizer) -> dict[str, object]:
    """generation_config.json: greedy, stopping at the end of a turn or of the text."""
    end_of_turn = tokenizer.token_to_id("<|im_end|>")
    end_of_text = tokenizer.token_to_id("<|endoftext|>")
    return {
        "do_sample": False,
        "eos_token_id": [end_of_turn, end_of_text],
        "pad_token_id": end_of_text,
        "max_new_tokens": 128,
    }


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then move it over `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    write(beside)
    beside.chmod(0o644)
    os.replace(beside, path)


def published_weights(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights as published: bfloat16 but for the two float32 kinds, no tied head."""
    weights = {}
    for name, value in state.items():
        if name == "lm_head.weight":
            continue
        dtype = torch.float32 if name.endswith(FLOAT32_ENDINGS) else torch.bfloat16
        weights[name] = value.detach().to(dtype).contiguous().clone()
    return weights


def write_settings(tokenizer: Tokenizer, folder: Path = DEMO_FOLDER) -> None:
    """Write every file of the folder but the weights."""
    texts = {
        "config.json": json.dumps(read_config(tokenizer), indent=2),
        "generation_config.json": json.dumps(generation_settings(tokenizer), indent=2),
        "tokenizer_config.json": json.dumps(tokenizer_settings(tokenizer), indent=2),
        "tokenizer.json": tokenizer.to_str(pretty=False),
    }
    for name in ("chat_template.jinja", "preprocessor_config.json"):
        texts[name] = (PUBLISHED / name).read_text()
    for name, text in texts.items():
        replace_file(folder / name, lambda path, text=text: path.write_text(text.rstrip() + "\n"))


def write_weights(state: dict[str, torch.Tensor], folder: Path = DEMO_FOLDER) -> None:
    weights = published_weights(state)
    metadata = {"format": "pt"}
    path = folder / "model.safetensors"
    replace_file(path, lambda part: save_file(weights, str(part), metadata=metadata))
