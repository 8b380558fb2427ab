"""Prompts read without a chat around them: for sizes and shapes that no template makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from core.api.params import CacheSettings
from core.api.prompt import Image, Prompt, Segment, TextRun
from core.cache.context import Usage
from core.cache.restore import Restored
from core.engine.passes.prefill import Prefill
from tests.oracle.checkpoints import token_id
from tests.promises.machine import DEFAULT, Machine

GRID = 64


@dataclass(frozen=True)
class Reading:
    """The point a prompt continued from, and the states at its end."""

    restored: Restored
    last_hidden: Tensor
    states: tuple[Tensor, ...]


def prompt(*segments: Segment) -> Prompt:
    return Prompt(segments, frozenset({token_id("<|im_end|>")}), GRID)


def text(count: int, salt: int = 1) -> TextRun:
    """`count` ids of plain text, without a turn's end."""
    return TextRun(tuple((7 * index * salt + index // 5) % 250 for index in range(count)))


def embedding(image: Image) -> Tensor:
    """Stand-in for a tower's output: numbers that depend on the picture's key alone."""
    generator = torch.Generator().manual_seed(int.from_bytes(image.key[:4]))
    return torch.randn(image.num_tokens, 32, generator=generator)


@torch.inference_mode()
def read(machine: Machine, given: Prompt, settings: CacheSettings = DEFAULT) -> Reading:
    """Restore what can be and prefill the rest, as a session does."""
    cache = machine.cache
    cache.apply(settings)
    machine.model.forget()
    restored = cache.restore(given, Usage(turn=False))
    prefill = Prefill(cast(Any, machine.model), cache, restored, embedding, lambda: None)
    for _ in prefill.run(given, cache.planned(given, settings)):
        pass
    assert sum(machine.model.fed) == given.num_tokens - restored.cut.token.value
    cache.check_integrity()
    assert prefill.last_hidden is not None
    states = tuple(tensor for state in prefill.state.layers.values() for tensor in state)
    return Reading(restored, prefill.last_hidden, states)


def read_like_cold(machine: Machine, given: Prompt, settings: CacheSettings = DEFAULT) -> Reading:
    """Read warm; hidden row and every state must be those of a machine that has read nothing."""
    warm, cold = read(machine, given, settings), read(Machine(machine.base), given)
    assert cold.restored.num_runs == 0
    assert torch.equal(warm.last_hidden, cold.last_hidden)
    assert all(map(torch.equal, warm.states, cold.states))
    return warm
