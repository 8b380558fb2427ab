"""Trains the tokenizer on generated conversations and writes every settings file of the model."""

from __future__ import annotations

import random

import small_talk
from conversations import Plan, make_conversation
from published_model import DEMO_FOLDER, write_settings
from tokenizer import train_tokenizer
from world import draw_scene_from


def generated_lines(count: int, seed: int) -> list[str]:
    """The texts of `count` conversations, with listed names mixed in."""
    rng = random.Random(seed)
    scenes = [draw_scene_from(rng, held_out=False) for _ in range(1000)]
    lines = []
    for _ in range(count):
        talk = make_conversation(rng, scenes, Plan())
        lines += [
            talk.system,
            *(text for t in talk.turns for text in (t.text, t.answer, t.thought)),
        ]
        lines.append(
            f"My {rng.choice(small_talk.FIRST_NAMES)} and the {rng.choice(small_talk.ANIMALS)}"
        )
    return lines


def main() -> None:
    tokenizer = train_tokenizer(generated_lines(8000, seed=7))
    write_settings(tokenizer)
    print(f"{tokenizer.get_vocab_size()} tokens -> {DEMO_FOLDER}")


if __name__ == "__main__":
    main()
