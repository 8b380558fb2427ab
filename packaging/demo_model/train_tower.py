"""Trains the vision tower alone: each merged token tells its cell's shape, colour, size and place.

The readers are linear, so that what they read lies open to the language part's first projection.
Trained jointly from nothing the tower learnt next to nothing in 1,500 steps.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch
from pictures import to_patches, to_pixels
from published_model import REPOSITORY, base_config
from torch import nn
from torch.nn import functional as F
from tower import descend, run_tower
from transformers import Qwen3_5Config
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5VisionModel
from world import COLOURS, PLACES, SHAPES, SIZES, Scene, draw_scene, draw_scene_from, random_size

CELLS = len(PLACES)
KINDS = {"shape": SHAPES, "colour": tuple(COLOURS), "size": SIZES}


def draw_pictures(
    count: int, rng: random.Random, held_out: bool
) -> tuple[list[Scene], torch.Tensor]:
    """`count` scenes of a split and their pixels, uint8 [count, 96, 96, 3]."""
    scenes = [draw_scene_from(rng, held_out) for _ in range(count)]
    pixels = [
        torch.from_numpy(to_pixels(draw_scene(scene, rng, random_size(rng))).copy())
        for scene in scenes
    ]
    return scenes, torch.stack(pixels)


def cell_labels(scenes: list[Scene]) -> torch.Tensor:
    """[N, 9, 3] shape, colour and size numbers; 0 is an empty cell."""
    labels = torch.zeros(len(scenes), CELLS, len(KINDS), dtype=torch.long)
    for row, scene in enumerate(scenes):
        for thing in scene.things:
            values = (thing.shape, thing.colour, thing.size)
            numbers = [kind.index(v) + 1 for kind, v in zip(KINDS.values(), values, strict=True)]
            labels[row, thing.cell] = torch.tensor(numbers)
    return labels


class CellReader(nn.Module):
    """Linear readers of a merged token: three labels and the place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [len(values) + 1 for values in KINDS.values()] + [CELLS]
        self.heads = nn.ModuleList(nn.Linear(width, size) for size in sizes)

    def losses(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        places = torch.arange(CELLS).expand(tokens.shape[0], -1)
        targets = [*labels.unbind(2), places]
        normed = F.rms_norm(tokens, tokens.shape[-1:])
        pairs = zip(self.heads, targets, strict=True)
        return torch.stack(
            [F.cross_entropy(head(normed).flatten(0, 1), t.flatten()) for head, t in pairs]
        ).mean()

    def accuracy(self, tokens: torch.Tensor, labels: torch.Tensor) -> list[float]:
        """The share of cells whose shape, colour and size are read right."""
        normed = F.rms_norm(tokens, tokens.shape[-1:])
        pairs = zip(self.heads, labels.unbind(2), strict=False)
        return [(head(normed).argmax(-1) == t).float().mean().item() for head, t in pairs]


def train_tower(
    config: Qwen3_5Config, steps: int, batch: int, bank: int, seed: int
) -> tuple[Qwen3_5VisionModel, list[float]]:
    """A trained tower and its held-out accuracy on shape, colour and size."""
    rng, _ = random.Random(seed), torch.manual_seed(seed)
    tower = Qwen3_5VisionModel(config.vision_config)
    reader = CellReader(config.vision_config.out_hidden_size)
    scenes, pixels = draw_pictures(bank, rng, held_out=False)
    labels = cell_labels(scenes)
    parameters = [*tower.parameters(), *reader.parameters()]

    def loss() -> torch.Tensor:
        chosen = torch.randint(0, bank, (batch,))
        return reader.losses(run_tower(tower, to_patches(pixels[chosen])), labels[chosen])

    descend(parameters, loss, steps)
    seen, unseen = draw_pictures(500, rng, held_out=True)
    with torch.no_grad():
        tokens = run_tower(tower, to_patches(unseen))
    return tower, reader.accuracy(tokens, cell_labels(seen))


def settle_scale(tower: Qwen3_5VisionModel, wanted: float) -> None:
    """Scale the merger's last layer so that a token's entries have the spread `wanted`."""
    rng = random.Random(0)
    _, pixels = draw_pictures(64, rng, held_out=False)
    with torch.no_grad():
        spread = run_tower(tower, to_patches(pixels)).std()
        for parameter in tower.merger.linear_fc2.parameters():
            parameter.mul_(wanted / spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "demo_model")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--bank", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    tower, accuracy = train_tower(
        base_config(), options.steps, options.batch, options.bank, options.seed
    )
    settle_scale(tower, 0.2)
    options.work.mkdir(parents=True, exist_ok=True)
    torch.save(tower.state_dict(), options.work / "tower.pt")
    read = ", ".join(f"{n} {a:.2%}" for n, a in zip(KINDS, accuracy, strict=True))
    print(f"held-out cells: {read}; {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
