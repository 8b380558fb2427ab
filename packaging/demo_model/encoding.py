"""A conversation as token ids, what of them is to be learnt, and M-RoPE positions.

The pieces are those the chat template writes; `test_training_parts.py` holds them to the template.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from conversations import Conversation, Turn
from tokenizers import Tokenizer

TOKENS_PER_PICTURE = 9
PICTURE_SIDE = 3
IGNORED = -100


@dataclass(frozen=True)
class Piece:
    """A stretch of the prompt; `learnt` where the assistant writes it."""

    text: str
    learnt: bool = False


def user_pieces(turn: Turn, talk: Conversation, shown_before: int) -> list[Piece]:
    marks = [
        (f"Picture {shown_before + i + 1}: " if talk.number_pictures else "")
        + "<|vision_start|><|image_pad|><|vision_end|>"
        for i in range(len(turn.pictures))
    ]
    parts = [turn.text, *marks] if talk.picture_last else [*marks, turn.text]
    return [Piece("<|im_start|>user\n"), Piece("".join(parts).strip()), Piece("<|im_end|>\n")]


def answer_pieces(turn: Turn, talk: Conversation, last: bool) -> list[Piece]:
    """One answer: with the think block only at the end, as the template keeps history."""
    if not last:
        return [
            Piece("<|im_start|>assistant\n"),
            Piece(f"{turn.answer}<|im_end|>", True),
            Piece("\n"),
        ]
    if talk.thinking:
        written = f"{turn.thought}\n</think>\n\n{turn.answer}<|im_end|>"
        return [Piece("<|im_start|>assistant\n<think>\n"), Piece(written, True)]
    opened = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    return [Piece(opened), Piece(f"{turn.answer}<|im_end|>", True)]


def conversation_pieces(talk: Conversation) -> list[Piece]:
    pieces = [Piece(f"<|im_start|>system\n{talk.system}<|im_end|>\n")] if talk.system else []
    shown = 0
    for number, turn in enumerate(talk.turns):
        pieces += user_pieces(turn, talk, shown)
        pieces += answer_pieces(turn, talk, number == len(talk.turns) - 1)
        shown += len(turn.pictures)
    return pieces


@dataclass
class Encoded:
    """Token ids, labels (`IGNORED` where nothing is learnt), positions (t, h, w) and pictures."""

    ids: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    positions: list[tuple[int, int, int]] = field(default_factory=list)
    pictures: list[int] = field(default_factory=list)
    next_position: int = 0

    def add(self, token: int, label: int) -> None:
        self.ids.append(token)
        self.labels.append(label)
        self.positions.append((self.next_position,) * 3)
        self.next_position += 1

    def add_picture(self, pad: int) -> None:
        start = self.next_position
        for cell in range(TOKENS_PER_PICTURE):
            row, column = divmod(cell, PICTURE_SIDE)
            self.ids.append(pad)
            self.labels.append(IGNORED)
            self.positions.append((start, start + row, start + column))
        self.next_position += PICTURE_SIDE


class Encoder:
    """Encodes conversations with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.pad: int = tokenizer.encode("<|endoftext|>").ids[0]
        self.picture: int = tokenizer.encode("<|image_pad|>").ids[0]
        # Pieces recur: a cache of them makes encoding free beside a training step.
        self.ids_of = lru_cache(200_000)(lambda text: tokenizer.encode(text).ids)

    def encode(self, talk: Conversation) -> Encoded:
        encoded = Encoded()
        for piece in conversation_pieces(talk):
            for token in self.ids_of(piece.text):
                if token == self.picture:
                    encoded.add_picture(token)
                else:
                    encoded.add(token, token if piece.learnt else IGNORED)
        encoded.pictures = [number for turn in talk.turns for number in turn.pictures]
        return encoded
