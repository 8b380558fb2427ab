"""Texts, replies and pictures of a given cost, the same for the same seed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from PIL import Image as Pillow
from tokenizers import Tokenizer

from core.api.chat import AssistantMessage, ImagePart, ReplyIds, TextPart, UserMessage


class Words:
    """Text of a given number of tokens: words that are single tokens, chosen by a seed."""

    def __init__(self, folder: Path, tokenizer_fingerprint: str) -> None:
        vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
        self._words = sorted(
            (word[1:], token_id)
            for word, token_id in vocabulary.items()
            if word[0] == "\u0120" and len(word) > 3 and word[1:].isascii() and word[1:].isalpha()
        )
        self._fingerprint = tokenizer_fingerprint

    def text(self, tokens: int, seed: int) -> str:
        return " ".join(word for word, _ in self._draw(tokens, seed))

    def user(self, tokens: int, seed: int, *pictures: ImagePart) -> UserMessage:
        return UserMessage(content=(*pictures, TextPart(text=self.text(tokens, seed))))

    def reply(self, tokens: int, seed: int) -> AssistantMessage:
        """A reply as if it had been sampled."""
        ids = ReplyIds.pack(
            [token_id for _, token_id in self._draw(tokens, seed)], self._fingerprint, False
        )
        return AssistantMessage(text=self.text(tokens, seed), ids=ids)

    def _draw(self, tokens: int, seed: int) -> list[tuple[str, int]]:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(len(self._words), (tokens,), generator=generator).tolist()
        # The first word may melt into the glue before it, so it is always the same.
        return [self._words[index] for index in (0, *drawn[1:])]


def picture(folder: Path, seed: int, size: int) -> ImagePart:
    """A square of noise: every seed is another picture of the same cost."""
    path = folder / f"{seed}-{size}.png"
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(256, (size * size * 3,), generator=generator).tolist()
    Pillow.frombytes("RGB", (size, size), bytes(noise)).save(path)
    return ImagePart(digest=hashlib.sha256(path.read_bytes()).hexdigest(), path=str(path))
