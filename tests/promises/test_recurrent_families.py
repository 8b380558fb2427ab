"""The promises on hybrids beside Qwen3.5, whose states are of other kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from core.api.chat import ImagePart, Message
from core.api.params import CacheSettings, SamplingParams
from core.engine.loaded import LoadedModel
from core.loading.precision import PRECISIONS
from tests.promises.fixtures import RECURRENT
from tests.promises.machine import Machine, last_end, same, system, user, words
from tests.promises.test_families import deepest_cut, on_disk

SHORT = SamplingParams(temperature=0, max_tokens=8, frequency_penalty=0.3)
Loads = Callable[..., LoadedModel]
EACH = pytest.mark.parametrize("family", RECURRENT)


def long_chat() -> list[Message]:
    return [system("Be brief."), user(words(60, "q")), user(words(80, "r"))]


@EACH
@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_X1_every_checkpoint_of_a_hybrid_leads_to_the_same_bits(
    loaded_of: Loads, family: str, precision: str
) -> None:
    base, chat = loaded_of(family, precision), long_chat()
    cold = Machine(base).ask(chat, sampling=SHORT)
    places = [held.token for held in cold.stats.checkpoints]
    assert len(places) >= 4 and len(cold.ids) == 8
    for branched in (False, True):
        machine = Machine(base)
        for place in reversed(places):
            machine.ask(chat, sampling=SHORT)
            for node in machine.held(chat):
                if node.end.token.value > place:
                    machine.cache.tree.drop_checkpoint(node)
            if branched:
                machine.ask([user("elsewhere " + words(150, "e"))], sampling=SHORT)
            answer = machine.ask(chat, sampling=SHORT)
            assert answer.stats.restored_at.token == answer.reused == place
            assert answer.stats.restored_from == ("memory" if branched else "slab")
            same(answer, cold)


@EACH
@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_X4_what_a_hybrid_keeps_has_the_type_it_lives_in(
    loaded_of: Loads, family: str, precision: str
) -> None:
    machine = Machine(loaded_of(family, precision))
    machine.ask(long_chat())
    kept = PRECISIONS[precision].dtype
    held = list(machine.cache.tree.checkpoints())
    assert held
    for node in held:
        assert node.checkpoint is not None and node.checkpoint.last_hidden.dtype == kept
        for tail, *states in node.checkpoint.state.layers.values():
            assert tail.dtype == kept and all(each.dtype == torch.float32 for each in states)


@EACH
def test_S1_S5_a_hybrid_reads_only_what_is_new(loaded_of: Loads, family: str) -> None:
    machine, chat = Machine(loaded_of(family)), long_chat()
    first = machine.same_as_cold(chat)
    again = machine.same_as_cold(chat)
    assert again.fed == () and again.ids == first.ids
    on: list[Message] = [*chat, first.reply, user("And then?")]
    unsettled = machine.same_as_cold(on)
    assert unsettled.stats.miss.reason == "unsettled"
    assert unsettled.reused == last_end(first.finished.prompt_ids)
    on.append(unsettled.reply)
    assert machine.settle(on).tokens > 0
    after = machine.same_as_cold([*on, user("More.")])
    assert after.stats.miss is None and after.evaluated < 20


@EACH
def test_S7_S9_edits_and_branches_of_a_hybrid_go_on_from_what_they_share(
    loaded_of: Loads, family: str
) -> None:
    machine, chat = Machine(loaded_of(family)), long_chat()
    first = machine.same_as_cold(chat)
    edited = [*chat[:2], user(words(80, "z"))]
    branch = machine.same_as_cold(edited)
    assert branch.reused == deepest_cut(machine, edited, first) > 100
    back = machine.same_as_cold(chat)
    assert back.evaluated == 0 and back.stats.restored_from == "memory"
    on: list[Message] = [*chat, back.reply, user("And on.")]
    assert machine.same_as_cold(on).reused == deepest_cut(machine, on, back)


@EACH
def test_D1_a_hybrid_reads_only_what_is_new_after_a_restart(
    loaded_of: Loads, tmp_path: Path, family: str
) -> None:
    base = loaded_of(family)
    settings = CacheSettings(count=32, interval=512, restore="always")
    chat: list[Message] = [user(words(100))]
    before = on_disk(base, tmp_path)
    first = before.ask(chat, cache=settings, chat="one")
    while before.cache.write_some():
        pass
    chat += [first.reply, user("And now?")]
    after = on_disk(base, tmp_path)
    second = after.same_as_cold(chat, cache=settings, chat="one")
    assert second.stats.restored_from == "disk"
    assert second.reused == deepest_cut(after, chat, first) and second.evaluated < 40


def test_I1_I3_D1_pictures_of_a_model_with_experts_are_reused_whole(
    loaded_of: Loads, picture: Callable[..., ImagePart], tmp_path: Path
) -> None:
    machine = Machine(loaded_of("qwen3_5_moe"), tmp_path / "cache")
    shown = picture(1, "wide")
    cold = machine.same_as_cold([user(words(30), shown, "What is it?")])
    again = machine.same_as_cold([user(words(30), shown, "Is it red?")])
    assert again.stats.images_encoded == 0 and again.reused > 40
    other = machine.same_as_cold([user(words(30), picture(2), "What is it?")])
    assert other.stats.images_encoded == 1
    machine.reopen()
    restored = machine.ask([user(words(30), shown, "What is it?")])
    assert restored.stats.restored_from == "disk" and restored.stats.images_encoded == 0
    same(restored, cold)
