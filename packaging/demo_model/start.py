"""The model training starts from: the aligned tower, its words, and attention that looks things up.

From a random start 500 steps learnt which things a picture holds, not which lies where: nothing
drew the attention of a word to the picture cell it speaks of. Here it is drawn there from the first
step, and training decides what to make of it.
"""

from __future__ import annotations

from pathlib import Path

import torch
from align_tower import kind_marks
from published_model import read_config
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

# The head is the embedding: scaled down in the last norm, so that the first guesses are near even.
FIRST_HEAD_SCALE = 0.2
# Both norms of the attention together: a match stands out of nine cells with nine tenths.
FIRST_SHARPNESS = 1.5


def bare_model(tokenizer: Tokenizer) -> Qwen3_5ForConditionalGeneration:
    """A model of the demo's shape in float32 with a tower that stays as it is."""
    model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(**read_config(tokenizer))).float()
    model.model.visual.requires_grad_(False)
    return model


def trained_model(tokenizer: Tokenizer, folder: Path) -> Qwen3_5ForConditionalGeneration:
    """The model of a published folder in float32, to be trained on; its head is its embedding."""
    model = bare_model(tokenizer)
    weights = load_file(folder / "model.safetensors")
    missing, unknown = model.load_state_dict(weights, strict=False)
    # transformers has no MTP head.
    assert missing == ["lm_head.weight"] and all(name.startswith("mtp.") for name in unknown)
    return model


@torch.no_grad()
def build_model(tokenizer: Tokenizer, work: Path, seed: int) -> Qwen3_5ForConditionalGeneration:
    """A fresh model in float32 with the aligned tower and its words in it."""
    torch.manual_seed(seed)
    model = bare_model(tokenizer)
    aligned = torch.load(work / "aligned.pt")
    model.model.visual.load_state_dict(aligned["tower"])
    language = model.model.language_model
    language.embed_tokens.weight.copy_(aligned["table"])
    language.norm.weight.fill_(FIRST_HEAD_SCALE - 1.0)
    for layer in language.layers:
        if hasattr(layer, "linear_attn"):
            remember_long(layer.linear_attn)
        else:
            look_up(layer.self_attn, aligned["seed"])
    return model


def remember_long(layer: nn.Module) -> None:
    """Start with half-lives of 5 to 1,000 tokens: the published start forgets within a word."""
    layer.A_log.copy_(torch.empty_like(layer.A_log).uniform_(1, 4).log())
    rate = torch.empty_like(layer.dt_bias).uniform_(-6.5, -3.5).exp()
    layer.dt_bias.copy_(rate + torch.log(-torch.expm1(-rate)))


def random_rows(rows: int, width: int) -> torch.Tensor:
    """A projection that keeps the length of what it maps, but for the dimensions it drops."""
    return torch.randn(rows, width) * width**-0.5


def look_up(layer: nn.Module, seed: int) -> None:
    """Start the first key head's queries as look-ups of picture cells by the words they share."""
    width, head = layer.k_proj.in_features, layer.head_dim
    word, cell = kind_marks(width, seed)
    bare = torch.eye(width) - torch.outer(word, word) - torch.outer(cell, cell)
    for projection in (layer.k_proj, layer.v_proj):
        projection.weight.copy_(random_rows(projection.out_features, width))
    shared, values = random_rows(head, width) @ bare, random_rows(head, width) @ bare
    wish = torch.randn(head) * head**-0.5
    layer.k_proj.weight[:head] = shared + torch.outer(wish, cell - word)
    layer.v_proj.weight[:head] = values
    queries = layer.q_proj.weight.view(-1, 2, head, width)
    for number in range(len(queries)):
        looks = number < layer.num_key_value_groups
        start = shared + torch.outer(wish, word) if looks else 0.0
        queries[number, 0] = start + (0.3 if looks else 1.0) * random_rows(head, width)
        if looks:
            layer.o_proj.weight[:, number * head : (number + 1) * head] = values.T
    layer.q_norm.weight.fill_(FIRST_SHARPNESS - 1.0)
    layer.k_norm.weight.fill_(FIRST_SHARPNESS - 1.0)
