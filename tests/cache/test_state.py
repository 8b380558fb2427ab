"""Recurrent states as values, and copies of checkpoints on their way to the host."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from core.cache.kv_buffer import KVBuffer
from core.cache.state import Checkpoint, HostCopies, RecurrentState
from core.layers.memory import RecurrentSpec, StateTensor
from tests.cache.worlds import SLIDING, Late

SPECS = (RecurrentSpec((StateTensor((3, 5), torch.bfloat16), StateTensor((2, 4), torch.float32))),)


def test_the_state_before_the_first_token_takes_no_memory() -> None:
    zeros = RecurrentState.zeros(SPECS, torch.device("cpu"))
    assert zeros.matches(SPECS) and not any(tensor.any() for tensor in zeros.layers[0])
    assert [tensor.untyped_storage().nbytes() for tensor in zeros.layers[0]] == [2, 4]
    assert zeros.num_bytes == 2 * 15 + 4 * 8


def test_copies_of_it_and_room_beside_it_have_memory_of_their_own() -> None:
    zeros = RecurrentState.zeros(SPECS, torch.device("cpu"))
    for other in (zeros.copy(), zeros.room()):
        assert other.matches(SPECS)
        for tensor in other.layers[0]:
            assert tensor.is_contiguous()
            assert tensor.untyped_storage().nbytes() == tensor.nbytes
            tensor.fill_(1)
    assert not any(tensor.any() for tensor in zeros.layers[0])


def checkpoint(seed: int) -> Checkpoint:
    draw = torch.Generator().manual_seed(seed)
    numbers = [torch.randn(size, generator=draw) for size in (4, 3, 2, 5)]
    state = RecurrentState({0: (numbers[0], numbers[1]), 3: (numbers[2],)})
    return Checkpoint(state, numbers[3])


def same(one: Checkpoint, other: Checkpoint) -> bool:
    pairs = [(one.last_hidden, other.last_hidden)]
    for layer, state in one.state.layers.items():
        pairs += zip(state, other.state.layers[layer], strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def test_copies_are_whole_once_they_were_waited_for() -> None:
    copies = HostCopies(Late())
    taken = [copies.take(checkpoint(seed)) for seed in range(3)]
    assert not any(same(each, checkpoint(seed)) for seed, each in enumerate(taken))
    copies.wait()
    assert all(same(each, checkpoint(seed)) for seed, each in enumerate(taken))
    copies.wait()


def test_what_is_copied_from_stays_until_it_is_there_and_no_longer() -> None:
    copies, source = HostCopies(Late()), checkpoint(1)
    place = weakref.ref(source.last_hidden)
    taken = copies.take(source)
    del source
    gc.collect()
    assert place() is not None
    copies.wait()
    gc.collect()
    assert place() is None and same(taken, checkpoint(1))


def test_what_has_arrived_is_let_go_with_the_next() -> None:
    begun: list[Late] = []

    class Noting(Late):
        def begin(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
            found, arrival = super().begin(tensors)
            begun.append(arrival)
            return found, arrival

    copies, source = HostCopies(Noting()), checkpoint(1)
    place = weakref.ref(source.last_hidden)
    copies.take(source)
    del source
    begun[0].synchronize()
    copies.take(checkpoint(2))
    gc.collect()
    assert place() is None


def test_without_room_for_it_each_is_copied_at_once_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Full(Late):
        def begin(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
            raise RuntimeError("out of pinned memory")

    copies = HostCopies(Full())
    for seed in range(2):
        assert same(copies.take(checkpoint(seed)), checkpoint(seed))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "out of pinned memory" in caplog.text


def test_D3_windows_are_empty_where_nothing_could_be_restored() -> None:
    """A damaged file drops the windows of a KV buffer that has no rows yet."""
    kv_buffer = KVBuffer(SLIDING, torch.device("cpu"), 6_000)
    assert kv_buffer.windowed
    kv_buffer.drop_window()
    kv_buffer.put_window(0, [])
    assert kv_buffer.holds_window(0)
