"""W2: what is said before a click is what the request then reads, by the same counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.api.chat import Message
from core.api.params import SamplingParams
from tests.promises.fixtures import LoadedOf, PictureOf
from tests.promises.machine import Answer, Machine, system, user, words

FAMILIES = ("hybrid", "thinking", "qwen3_vl", "lfm2_vl")


@pytest.fixture(params=FAMILIES)
def machine(request: pytest.FixtureRequest, loaded_of: LoadedOf, tmp_path: Path) -> Machine:
    return Machine(loaded_of(request.param), tmp_path / "cache")


def foreseen(machine: Machine, chat: list[Message], **options: Any) -> Answer:
    """An answer that read exactly what had been predicted."""
    predicted = machine.predict(chat)
    answer = machine.ask(chat, **options)
    stats = answer.stats
    assert predicted.prompt_tokens == stats.prompt_tokens
    assert (predicted.tokens, predicted.encoded) == (stats.evaluated_tokens, stats.images_encoded)
    return answer


def test_W2_each_way_on_reads_what_was_predicted(machine: Machine, picture: PictureOf) -> None:
    chat: list[Message] = [system("Be brief."), user(picture(1, "wide"), words(40))]
    cold = foreseen(machine, chat)
    assert cold.reused == 0 and cold.stats.images_encoded == 1
    # Regenerate.
    assert foreseen(machine, chat).evaluated == 0
    # An edit of the words after a picture.
    edited = foreseen(machine, [*chat[:1], user(picture(1, "wide"), words(30, "e"))])
    assert 0 < edited.evaluated < cold.evaluated and edited.stats.images_encoded == 0
    # A next turn, with the reply read in idle time and before it.
    longer = [*chat, cold.reply, user("And then?")]
    assert machine.predict(longer[:-1]).tokens > 0
    turn = foreseen(machine, longer)
    settled = [*longer, turn.reply]
    assert machine.predict(settled).tokens == machine.settle(settled).tokens
    assert machine.predict(settled).tokens == 0
    # From disk.
    machine.reopen()
    assert machine.predict(settled).tokens == 0
    assert foreseen(machine, [*settled, user("Why?")]).stats.restored_from == "disk"


def test_W2_continue_reads_what_was_predicted(machine: Machine) -> None:
    chat: list[Message] = [system("Be brief."), user(words(30))]
    ten = SamplingParams(temperature=0, max_tokens=3, frequency_penalty=0.3)
    answer = machine.ask(chat, sampling=ten)
    if answer.finished.reason == "length":
        assert foreseen(machine, [*chat, answer.paused], sampling=ten).evaluated == 3
