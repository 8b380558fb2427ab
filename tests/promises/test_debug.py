"""WAYMARK_DEBUG=integrity: a day of a chat under it, and what it finds when something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from core.api.chat import Message
from core.cache.node import Node
from core.cache.state import RecurrentState
from core.engine import debug
from tests.promises.fixtures import LoadedOf, PictureOf
from tests.promises.machine import Machine, system, user, words


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Turns the checks on; has the runs of each restore that was checked."""
    monkeypatch.setenv("WAYMARK_DEBUG", "log,integrity")
    restores: list[int] = []
    real = debug.check_restored

    def noted(loaded: Any, prompt: Any, restored: Any, *rest: Any) -> None:
        restores.append(restored.num_runs)
        model = loaded.model
        counted = list(model.fed), model.num_encoded
        real(loaded, prompt, restored, *rest)
        # What the check itself computes is no part of the request.
        model.fed, model.num_encoded = counted

    monkeypatch.setattr(debug, "check_restored", noted)
    return restores


@pytest.mark.parametrize(
    ("name", "precision"),
    [("hybrid", "float32"), ("pure", "float32"), ("hybrid", "bfloat16"), ("hybrid", "int4")],
)
def test_S13_a_day_of_a_chat_passes_every_check(
    loaded_of: LoadedOf,
    picture: PictureOf,
    tmp_path: Path,
    checked: list[int],
    name: str,
    precision: str,
) -> None:
    machine = Machine(loaded_of(name, precision), tmp_path / "cache")
    chat: list[Message] = [system(words(20)), user(picture(1, "wide"), "What is it?")]
    reply = machine.ask(chat).reply
    for said in (words(50), words(20, "more")):
        chat += [reply, user(said, picture(2))]
        machine.settle(chat[:-1])
        reply = machine.ask(chat).reply
        assert machine.ask(chat).reply == reply
    machine.ask([*chat[:2], user("A title.")], side=True)
    machine.ask([*chat[:3], user("Edited.")])
    machine.ask([user("Another chat.")])
    assert machine.ask(chat).stats.restored_from == "memory"
    machine.reopen()
    assert machine.ask(chat).stats.restored_from == "disk"
    assert len(checked) == 10 and checked.count(0) == 2


def spoiled_state(node: Node) -> None:
    assert node.checkpoint is not None
    state = RecurrentState(
        {
            layer: tuple(tensor + (index == 1) * 1e-6 for index, tensor in enumerate(tensors))
            for layer, tensors in node.checkpoint.state.layers.items()
        }
    )
    node.checkpoint = replace(node.checkpoint, state=state)


def spoiled_hidden(node: Node) -> None:
    assert node.checkpoint is not None
    node.checkpoint = replace(node.checkpoint, last_hidden=node.checkpoint.last_hidden * 1.5)


def spoiled_rows(node: Node) -> None:
    assert node.rows is not None
    (_, values), *_ = node.rows.layers.values()
    with torch.inference_mode():
        values[-1, 0, 0] += 1.0


@pytest.mark.parametrize(
    ("spoil", "words_said"),
    [
        (spoiled_state, "a restored state differs"),
        (spoiled_hidden, "a restored hidden row differs"),
        (spoiled_rows, "restored keys or values differ"),
    ],
)
def test_S4_a_planted_mistake_is_found(
    machine: Machine, spoil: Callable[[Node], None], words_said: str
) -> None:
    chat: list[Message] = [user(words(80))]
    machine.ask(chat)
    machine.ask([user("Another chat.")])
    assert machine.ask(chat).fed == ()
    machine.ask([user("Another chat.")])
    spoil(machine.held(chat)[-1])
    with pytest.raises(AssertionError, match=words_said):
        machine.ask(chat)


def test_S4_rows_planted_in_the_kv_buffer_are_found(machine: Machine) -> None:
    chat: list[Message] = [user(words(80))]
    machine.ask(chat)
    (keys, _), *_ = machine.cache.kv_buffer.view(0, 1).layers.values()
    with torch.inference_mode():
        keys[0, 0, 0] += 1.0
    with pytest.raises(AssertionError, match="restored keys or values differ"):
        machine.ask(chat)
