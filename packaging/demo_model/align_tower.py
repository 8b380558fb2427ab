"""Turns the trained tower towards the words: a cell's token nears the sum of its words' embeddings.

A cell with a large red star at the top left is aimed at what " large", " red", " star", " top" and
" left" stand for. Question and picture then match by sameness, which one attention head learns for
all words at once; without it 600 steps taught which things there are, not which lies where.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
from pictures import to_patches
from published_model import DEMO_FOLDER, REPOSITORY, base_config
from tokenizers import Tokenizer
from torch.nn import functional as F
from tower import descend, run_tower
from train_tower import draw_pictures
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5VisionModel
from world import PLACES, Scene

# Large beside what the first layers add, so that a word is still itself at the first attention.
EMBEDDING_SPREAD = 0.5
# Four or five words in one token: a little less of each keeps its size near a word's.
GAIN = 0.8
KIND_LENGTH = 3.0


def first_embedding(vocabulary: int, width: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return EMBEDDING_SPREAD * torch.randn(vocabulary, width, generator=generator)


def kind_marks(width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two orthogonal directions of length one: what all words share, what all picture cells
    share."""
    generator = torch.Generator().manual_seed(seed + 1)
    basis, _ = torch.linalg.qr(torch.randn(width, 2, generator=generator))
    return basis[:, 0], basis[:, 1]


@torch.no_grad()
def mark_kinds(tower: Qwen3_5VisionModel, table: torch.Tensor, seed: int) -> None:
    """Add the marks, so that the first look-up can prefer picture cells to words."""
    word, cell = kind_marks(table.shape[1], seed)
    table += KIND_LENGTH * word
    tower.merger.linear_fc2.bias += KIND_LENGTH * cell


class Words:
    """Vectors of words that are one token each."""

    def __init__(self, tokenizer: Tokenizer, table: torch.Tensor) -> None:
        self.tokenizer, self.table = tokenizer, table

    def of(self, text: str) -> torch.Tensor:
        ids = self.tokenizer.encode(f" {text}").ids
        assert len(ids) == len(text.split()), f"{text!r} is not one token a word"
        return self.table[ids].sum(0)


def targets(scenes: list[Scene], words: Words) -> torch.Tensor:
    """[N, 9, width]: what each cell's token is to be."""
    places = torch.stack([words.of(place) for place in PLACES])
    empty = words.of("nothing")
    wanted = places + empty
    wanted = wanted.unsqueeze(0).repeat(len(scenes), 1, 1)
    for row, scene in enumerate(scenes):
        for thing in scene.things:
            held = words.of(f"{thing.size} {thing.colour} {thing.shape}")
            wanted[row, thing.cell] += held - empty
    return GAIN * wanted


def align(tower: Qwen3_5VisionModel, words: Words, steps: int, batch: int, bank: int) -> float:
    """Train the tower towards the words; the share of spread it misses on held-out pictures."""
    rng = random.Random(3)
    scenes, pixels = draw_pictures(bank, rng, held_out=False)
    wanted = targets(scenes, words)

    def loss() -> torch.Tensor:
        chosen = torch.randint(0, bank, (batch,))
        return F.mse_loss(run_tower(tower, to_patches(pixels[chosen])), wanted[chosen])

    descend([*tower.parameters()], loss, steps)
    unseen, their_pixels = draw_pictures(400, rng, held_out=True)
    aim = targets(unseen, words)
    with torch.no_grad():
        missed = (run_tower(tower, to_patches(their_pixels)) - aim).square().mean()
    return (missed / aim.square().mean()).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "demo_model")
    parser.add_argument("--steps", type=int, default=3300)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--bank", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    config = base_config()
    tower = Qwen3_5VisionModel(config.vision_config)
    tower.load_state_dict(torch.load(options.work / "tower.pt"))
    text = config.text_config
    table = first_embedding(text.vocab_size, text.hidden_size, options.seed)
    words = Words(Tokenizer.from_file(str(DEMO_FOLDER / "tokenizer.json")), table)
    missed = align(tower, words, options.steps, options.batch, options.bank)
    mark_kinds(tower, table, options.seed)
    aligned = {"tower": tower.state_dict(), "table": table, "seed": options.seed}
    torch.save(aligned, options.work / "aligned.pt")
    print(f"missed share of the spread on held-out pictures: {missed:.4f}")


if __name__ == "__main__":
    main()
