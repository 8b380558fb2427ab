"""Runs that share a forward leave the bits that each leaves alone, checkpoints in between too."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.api.params import CacheSettings
from core.api.prompt import Prompt, Run, TextRun
from core.cache.node import Node
from core.engine.passes import prefill
from core.loading.precision import PRECISIONS
from tests.engine.place import sweep
from tests.oracle.checkpoints import token_id
from tests.promises.fixtures import RECURRENT, LoadedOf
from tests.promises.machine import Machine, user, words
from tests.promises.reading import prompt, read, read_like_cold, text

SOME = CacheSettings(count=32, interval=40)


def turns(lengths: list[int]) -> Prompt:
    """Messages of so many tokens, each with a turn's end."""
    end = token_id("<|im_end|>")
    ids = [(7 * place * length + place) % 250 for length in lengths for place in range(length)]
    places = [sum(lengths[: number + 1]) - 1 for number in range(len(lengths))]
    return prompt(TextRun(tuple(end if at in places else each for at, each in enumerate(ids))))


def checkpoints(machine: Machine) -> dict[bytes, tuple[torch.Tensor, ...]]:
    """All that the tree holds, by key."""
    held = {node.key: node.checkpoint for node in machine.cache.tree if node.checkpoint is not None}
    return {
        key: (each.last_hidden, *(one for layer in each.state.layers.values() for one in layer))
        for key, each in held.items()
    }


@pytest.mark.parametrize(
    ("family", "precision"),
    sweep(["hybrid", *RECURRENT], [each for each in PRECISIONS if each != "float32"]),
)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lengths=st.lists(st.integers(1, 60), min_size=2, max_size=12), most=st.integers(2, 200))
def test_X1_joined_runs_are_those_that_were_read_alone(
    loaded_of: LoadedOf, family: str, precision: str, lengths: list[int], most: int
) -> None:
    base = loaded_of(family, precision)
    alone, joined = Machine(base), Machine(base)
    with patch.object(prefill, "MOST_ROWS", 0):
        expected = read(alone, turns(lengths), SOME)
    with patch.object(prefill, "MOST_ROWS", most):
        found = read(joined, turns(lengths), SOME)
    assert len(alone.model.fed) == len(turns(lengths).runs) >= len(joined.model.fed)
    assert torch.equal(found.last_hidden, expected.last_hidden)
    assert all(map(torch.equal, found.states, expected.states))
    one, other = checkpoints(alone), checkpoints(joined)
    assert one.keys() == other.keys() and len(one) > 0
    assert all(torch.equal(*pair) for key in one for pair in zip(one[key], other[key], strict=True))


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_X1_short_turns_share_a_forward(loaded_of: LoadedOf, precision: str) -> None:
    """Forty turns of twenty tokens went through all weights eighty times."""
    base = loaded_of("hybrid", precision)
    if not base.model.batch_invariant:
        pytest.skip("torch's own products of many rows are faster here")
    machine = Machine(base)
    read(machine, turns([20] * 40), SOME)
    assert len(machine.model.fed) == 2


def test_M6_a_prefill_stops_at_the_cut_that_was_asked_for(loaded_of: LoadedOf) -> None:
    """Not where the forward would have ended that this cut is in."""
    machine = Machine(loaded_of("hybrid", "bfloat16"))
    stopped = machine.ask([user(words(100))], cancel_prefill_after_tokens=70)
    assert stopped.finished.reason == "cancelled"
    assert sum(stopped.fed) == 128 == machine.ask([user(words(100))]).reused


def test_X1_a_failure_between_joined_runs_keeps_no_state_of_a_later_one(
    loaded_of: LoadedOf,
) -> None:
    machine, long = Machine(loaded_of("hybrid", "bfloat16")), prompt(text(200))
    few = CacheSettings(count=32, interval=1000)
    add = machine.cache.add

    def fails(parent: Node, run: Run) -> Node:
        if run.start.token.value > 0:
            raise MemoryError("no room for a node")
        return add(parent, run)

    with patch.object(machine.cache, "add", fails), pytest.raises(MemoryError):
        read(machine, long, few)
    assert not checkpoints(machine)
    read_like_cold(machine, long, few)
