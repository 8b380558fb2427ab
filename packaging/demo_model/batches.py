"""Batches for training: a bank of pictures the frozen tower has read, and talk about them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from conversations import Plan, make_conversation
from encoding import IGNORED, Encoded, Encoder
from pictures import to_patches
from tower import run_tower
from train_tower import draw_pictures
from transformers import Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5VisionModel
from world import Scene

# Conversations are sorted by length in pools of this many batches: padding falls from half to 5 %.
POOL = 12


@dataclass(frozen=True)
class Bank:
    """Scenes and what the tower made of one picture of each, [N, 9, width]."""

    scenes: Sequence[Scene]
    tokens: torch.Tensor


@dataclass(frozen=True)
class Batch:
    """Padded on the right: causal layers never look there."""

    ids: torch.Tensor  # [batch, length]
    labels: torch.Tensor  # [batch, length]
    positions: torch.Tensor  # [3, batch, length]
    pictures: torch.Tensor  # [pictures of the batch], numbers of the bank, in reading order


@torch.no_grad()
def fill_bank(tower: Qwen3_5VisionModel, count: int, seed: int, held_out: bool) -> Bank:
    """Draw `count` pictures and run the tower on them."""
    scenes, pixels = draw_pictures(count, random.Random(seed), held_out)
    parts = [run_tower(tower, to_patches(part)) for part in pixels.split(256)]
    return Bank(scenes, torch.cat(parts))


def embed(model: Qwen3_5ForConditionalGeneration, batch: Batch, bank: Bank) -> torch.Tensor:
    """[batch, length, width]: the embedded tokens with what the tower made of the pictures."""
    embedded: torch.Tensor = model.model.language_model.embed_tokens(batch.ids)
    places = (batch.ids == model.config.image_token_id).unsqueeze(-1)
    return embedded.masked_scatter(places, bank.tokens[batch.pictures].flatten(0, 1))


def pad_together(samples: Sequence[Encoded], pad: int) -> Batch:
    length = max(len(sample.ids) for sample in samples)
    ids = torch.full((len(samples), length), pad)
    labels = torch.full((len(samples), length), IGNORED)
    positions = torch.zeros(3, len(samples), length, dtype=torch.long)
    for row, sample in enumerate(samples):
        used = len(sample.ids)
        ids[row, :used] = torch.tensor(sample.ids)
        labels[row, :used] = torch.tensor(sample.labels)
        positions[:, row, :used] = torch.tensor(sample.positions).T
    pictures = torch.tensor([n for sample in samples for n in sample.pictures], dtype=torch.long)
    return Batch(ids, labels, positions, pictures)


def batches(
    rng: random.Random, bank: Bank, encoder: Encoder, plan: Plan, tokens: int
) -> Iterator[Batch]:
    """Endless batches of about `tokens` tokens each."""
    while True:
        total, samples = 0, []
        while total < tokens * POOL:
            samples.append(encoder.encode(make_conversation(rng, bank.scenes, plan)))
            total += len(samples[-1].ids)
        samples.sort(key=lambda sample: len(sample.ids))
        groups: list[list[Encoded]] = [[]]
        for sample in samples:
            if groups[-1] and (len(groups[-1]) + 1) * len(sample.ids) > tokens:
                groups.append([])
            groups[-1].append(sample)
        rng.shuffle(groups)
        for group in groups:
            yield pad_together(group, encoder.pad)
