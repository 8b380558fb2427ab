"""The interface of compared engines: one task at a time, and its reading.

An engine may be in this process (tests) or in one of its own (tests.bench.process), with its own
peak of memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

Task = Literal["load", "prompt", "context", "generate", "image"]
PATCH = 16  # a side in pixels
PATCH_NUMBERS = 1536  # of two frames of three colours
# The demo tokenizer's ordinary words; what lies above them is special or nothing.
ORDINARY_IDS = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """The time of one task, and counts that identify it.

    `tokens` were read, generated or made of a picture, `ids` sampled, after a context of `context`
    tokens. `least_bytes` must at least be moved to generate them, or held to read them, and
    `operations` done: 0 if unknown. `peak_bytes` is the most memory its process has held beyond
    `import torch`, on a GPU the most that torch has allocated there. `helpers` are packages whose
    kernels it called.
    """

    seconds: float
    tokens: int = 0
    context: int = 0
    ids: tuple[int, ...] = ()
    least_bytes: int = 0
    operations: int = 0
    peak_bytes: int = 0
    helpers: str = ""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine and its folder or file; `longest` is the longest context in tokens.

    `scratch` may keep its measurements of this machine.
    """

    name: Literal["waymark", "transformers"]
    precision: str
    folder: Path
    longest: int
    scratch: Path
    device: str = "cpu"


class Peer(Protocol):
    """One engine with one model.

    `load` opens the model, again if there is one. `prompt` reads `size` tokens up to the first
    answer's id. `context` does so unless that many were just read. `generate` samples `size` ids
    after them, always from the same place. `image` puts a square of `size` pixels through the
    tower.
    """

    def run(self, task: Task, size: int) -> Reading: ...

    def close(self) -> None: ...


def now(device: str) -> float:
    """The time in seconds, once a GPU has done all that it was told."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def prompt_ids(count: int) -> tuple[int, ...]:
    """Ordinary ids, the same every time."""
    generator = torch.Generator().manual_seed(7)
    return tuple(torch.randint(ORDINARY_IDS, (count,), generator=generator).tolist())


def patches(size: int) -> tuple[Tensor, int]:
    """The patches of a square of noise [n * n, numbers], and n; `size` is its side in pixels."""
    side = size // PATCH
    generator = torch.Generator().manual_seed(size)
    return torch.rand(side * side, PATCH_NUMBERS, generator=generator) * 2 - 1, side
