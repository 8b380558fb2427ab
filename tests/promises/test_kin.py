"""The promises on Qwen3.5's kin: models whose layers or files differ and whose memory does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.api.chat import ImagePart, Message
from core.api.params import SamplingParams
from core.engine.loaded import LoadedModel
from tests.promises.fixtures import KIN
from tests.promises.machine import Machine, same, system, user, words

Draw = Callable[..., ImagePart]
PRECISIONS = ("float32", "bfloat16", "int4")
KINDS = pytest.mark.parametrize(
    ("name", "precision"), [(name, precision) for name in KIN for precision in PRECISIONS]
)
LONG = SamplingParams(temperature=0, max_tokens=60, frequency_penalty=0.3)


def conversation(machine: Machine, picture: Draw) -> list[Message]:
    shown = [picture(1, "wide")] if machine.base.model.has_vision else ["(no picture)"]
    return [system("Be brief."), user(words(60), *shown, words(80, "q"))]


@KINDS
def test_X1_S4_S9_turns_branches_and_regenerating_give_the_bits_of_cold_engines(
    loaded_of: Callable[..., LoadedModel], picture: Draw, name: str, precision: str
) -> None:
    machine = Machine(loaded_of(name, precision))
    chat = conversation(machine, picture)
    first = machine.same_as_cold(chat, sampling=LONG)
    again = machine.same_as_cold(chat, sampling=LONG)
    assert again.fed == () and again.ids == first.ids
    for said in ("Go on.", words(20, "b")):
        chat += [machine.ask(chat, sampling=LONG).reply, user(said)]
        assert machine.same_as_cold(chat, sampling=LONG).reused > 0
    edited = [*chat[:3], user(words(30, "z"))]
    assert machine.same_as_cold(edited, sampling=LONG).reused > 0
    back = machine.same_as_cold(chat, sampling=LONG)
    assert back.evaluated == 0 and back.stats.restored_from == "memory"


@KINDS
def test_X1_D1_after_a_restart_only_what_is_new_is_read(
    loaded_of: Callable[..., LoadedModel],
    picture: Draw,
    tmp_path: Path,
    name: str,
    precision: str,
) -> None:
    machine = Machine(loaded_of(name, precision), tmp_path / "cache")
    chat = conversation(machine, picture)
    cold = machine.ask(chat, sampling=LONG)
    machine.reopen()
    restored = machine.ask(chat, sampling=LONG)
    assert restored.stats.restored_from == "disk" and restored.stats.images_encoded == 0
    assert restored.reused > 100
    same(restored, cold)


@pytest.mark.parametrize("name", KIN)
def test_S1_a_settled_reply_is_not_read_again(
    loaded_of: Callable[..., LoadedModel], picture: Draw, name: str
) -> None:
    machine = Machine(loaded_of(name))
    chat = conversation(machine, picture)
    chat.append(machine.ask(chat).reply)
    assert machine.settle(chat).tokens > 0
    chat.append(user("More."))
    after = machine.same_as_cold(chat)
    assert after.stats.miss is None and after.evaluated < 20


def test_I1_I3_pictures_are_reused_whole(
    loaded_of: Callable[..., LoadedModel], picture: Draw
) -> None:
    machine = Machine(loaded_of("qwen3_5_moe"))
    shown = picture(1, "wide")
    machine.same_as_cold([user(words(30), shown, "What is it?")])
    again = machine.same_as_cold([user(words(30), shown, "Is it red?")])
    assert again.stats.images_encoded == 0 and again.reused > 40
    other = machine.same_as_cold([user(words(30), picture(2), "What is it?")])
    assert other.stats.images_encoded == 1
