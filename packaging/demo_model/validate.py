"""A quick look at a training state: the share of validation answers whose every token is first.

That is the share a greedy answer would get right, found with one forward for a whole batch.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path

import torch
from batches import Bank, embed, fill_bank, pad_together
from conversations import Conversation, Plan, make_conversation
from encoding import Encoder
from language import run_language
from published_model import DEMO_FOLDER, REPOSITORY
from questions import KINDS, SEEDS
from start import bare_model
from tokenizers import Tokenizer
from torch.nn import functional as F
from transformers import Qwen3_5ForConditionalGeneration

BATCH = 24


def cut_talks(bank: Bank, count: int, seed: int) -> list[Conversation]:
    """Held-out conversations that end anywhere, so that every kind comes last."""
    rng = random.Random(seed)
    talks = []
    for _ in range(count):
        talk = make_conversation(rng, bank.scenes, Plan(held_out=True))
        talk.turns = talk.turns[: rng.randint(1, len(talk.turns))]
        talks.append(talk)
    return sorted(talks, key=lambda talk: len(talk.turns))


@torch.no_grad()
def last_answers_right(
    model: Qwen3_5ForConditionalGeneration, encoder: Encoder, bank: Bank, talks: list[Conversation]
) -> list[bool]:
    """Whether each conversation's last answer would be given, token for token."""
    samples = [encoder.encode(talk) for talk in talks]
    batch = pad_together(samples, encoder.pad)
    embedded = embed(model, batch, bank)
    hidden = run_language(model.model.language_model, embedded, batch.positions)
    verdicts = []
    for row, sample in enumerate(samples):
        first = max(i for i, label in enumerate(sample.labels) if label < 0) + 1
        logits = F.linear(hidden[row, first - 1 : len(sample.ids) - 1], model.lm_head.weight)
        verdicts.append(logits.argmax(-1).tolist() == sample.labels[first:])
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "demo_model")
    parser.add_argument("--count", type=int, default=800)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(DEMO_FOLDER / "tokenizer.json"))
    encoder, model = Encoder(tokenizer), bare_model(tokenizer)
    state = torch.load(options.work / "state.pt")
    model.load_state_dict(state["model"])
    path = options.work / "validation.pt"
    if not path.exists():
        bank = fill_bank(model.model.visual, 400, SEEDS["validation"], held_out=True)
        torch.save((bank.scenes, bank.tokens), path)
    bank = Bank(*torch.load(path, weights_only=False))
    talks = cut_talks(bank, options.count, SEEDS["validation"])
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for start in range(0, len(talks), BATCH):
        group = talks[start : start + BATCH]
        for talk, good in zip(group, last_answers_right(model, encoder, bank, group), strict=True):
            kind = talk.turns[-1].kind
            total[kind] += 1
            right[kind] += good
    shares = [
        f"{kind} {right[kind] / total[kind]:.0%} ({total[kind]})" for kind in KINDS if total[kind]
    ]
    print(f"step {state['step']}: " + ", ".join(shares))


if __name__ == "__main__":
    main()
