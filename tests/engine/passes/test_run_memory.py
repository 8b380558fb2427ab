"""States before and after runs and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from core.api.positions import TokenIndex
from core.cache.kv_buffer import KVBuffer
from core.cache.state import RecurrentState
from core.engine.passes.memory import RunMemory, StepMemory, replay_advances
from core.layers.memory import FullAttentionSpec, LayerState, RecurrentSpec, StateTensor
from kernels.common.trace import Watch

SPECS = (RecurrentSpec((StateTensor((3, 5), torch.bfloat16), StateTensor((2, 4), torch.float32))),)
CPU = torch.device("cpu")


def kv_buffer() -> KVBuffer:
    return KVBuffer(SPECS, CPU, 16)


def ignore() -> None:
    """Nobody cancels."""


def test_a_run_moves_copies_on_and_leaves_what_was_before() -> None:
    before = RecurrentState.zeros(SPECS, CPU)
    memory = RunMemory(kv_buffer(), before, TokenIndex(0), ignore, (1,))
    for tensor in memory.state(0):
        tensor.add_(1)
    assert all(not tensor.any() for tensor in before.layers[0])
    (after,) = memory.new_states()
    assert all(tensor.eq(1).all() for tensor in after.layers[0])
    assert after.matches(SPECS)
    storages = [tensor.untyped_storage().nbytes() for tensor in after.layers[0]]
    assert storages == [tensor.nbytes for tensor in after.layers[0]]


class Allocations(Watch):
    """Counts new tensors."""

    count = 0

    def do(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.count += func.__name__.split(".")[0] not in {"copy_", "detach", "view"}
        return func(*args, **kwargs)


def test_states_have_their_room_before_the_first_activation() -> None:
    """Laid between activations they would keep those of the next layer from fitting there."""
    before = RecurrentState.zeros(SPECS, CPU)
    with Allocations() as allocations:
        memory = RunMemory(kv_buffer(), before, TokenIndex(0), ignore, (1,))
        taken = allocations.count
        memory.state(0)
        assert taken >= 2 and allocations.count == taken


def test_a_run_that_a_layer_took_no_part_in_has_no_state() -> None:
    memory = RunMemory(kv_buffer(), RecurrentState.zeros(SPECS, CPU), TokenIndex(0), ignore, (1,))
    with pytest.raises(AssertionError):
        memory.new_states()


def test_steps_are_taken_back_by_the_calls_that_made_them() -> None:
    """The state from before stays, and tokens of a step that are not kept leave no trace."""
    before = RecurrentState.zeros(SPECS, CPU).copy()
    state, calls = before.copy(), list[int]()

    def add(own: LayerState, count: int) -> Tensor:
        calls.append(count)
        for tensor in own:
            tensor.add_(count)
        return own[0]

    for _ in range(2):
        StepMemory(kv_buffer(), state, TokenIndex(0), ignore).advance(0, add)
    kept, memory = state.copy(), StepMemory(kv_buffer(), state, TokenIndex(0), ignore, 3)
    memory.advance(0, add)
    assert all(tensor.eq(5).all() for tensor in state.layers[0])
    replay_advances(kept, memory.advances, 2)
    assert all(tensor.eq(4).all() for tensor in kept.layers[0])
    assert calls == [1, 1, 3, 2] and not any(tensor.any() for tensor in before.layers[0])


def test_latents_take_one_row_of_a_token() -> None:
    spec = FullAttentionSpec(1, 5, torch.bfloat16, latent=True)
    held, other = (KVBuffer((spec,), CPU, 16) for _ in range(2))
    memory = RunMemory(held, RecurrentState.zeros((spec,), CPU), TokenIndex(2), ignore, (3,))
    (rows,) = memory.extend_kv(0, torch.ones(3, 1, 5, dtype=torch.bfloat16))
    assert rows.shape == (5, 1, 5) and rows[2:].eq(1).all()
    copied = held.copy_out(2, 5)
    assert (
        copied.matches({0: spec}, 3) and copied.num_bytes == 3 * spec.bytes_per_token == 3 * 5 * 2
    )
    assert not copied.matches({0: FullAttentionSpec(1, 5, torch.bfloat16)}, 3)
    other.copy_in(2, copied)
    assert torch.equal(other.view(2, 5).layers[0][0], rows[2:])
