"""The promises on pure transformers, where any cut restores by truncation and no checkpoint is
kept; on Gemma 3, whose pictures attend both ways and can't be cut; and on hybrids beside Qwen3.5.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from core.api.chat import Message
from core.api.params import CacheSettings, SamplingParams
from core.engine.debug import check_positions
from core.loading.precision import PRECISIONS
from tests.promises.fixtures import PURE, RECURRENT, LoadedOf, PictureOf, families
from tests.promises.machine import (
    DEFAULT,
    Answer,
    CountdownFlag,
    Machine,
    num_common,
    same,
    same_from_every_checkpoint,
    spans,
    system,
    user,
    words,
)
from tests.sweeps import rotated, thinned

OFF = CacheSettings(count=0, interval=512)
SHORT = SamplingParams(temperature=0, max_tokens=8, frequency_penalty=0.3)


@pytest.fixture(params=families(*PURE))
def pure(request: pytest.FixtureRequest, loaded_of: LoadedOf) -> Machine:
    return Machine(loaded_of(request.param))


def deepest_cut(machine: Machine, messages: list[Message], before: Answer) -> int:
    """The last cut of a chat up to which it is the chat that was answered before."""
    prompt = machine.prompt(messages)
    image_id = machine.base.text.image_token_id
    ids = prompt.ids(image_id if image_id is not None else 0)
    agreed = num_common(ids, before.finished.prompt_ids)
    return max(0, *(cut.token.value for cut in prompt.cuts if cut.token.value <= agreed))


def test_S12_a_pure_transformer_reuses_at_any_cut_with_count_0(pure: Machine) -> None:
    document = words(200)
    first = pure.same_as_cold([user(document)], cache=OFF)
    assert first.stats.prompt_tokens > 400
    for said in (words(40), document.replace("77 78", "77 and 78"), words(150), document + " x"):
        changed: list[Message] = [user(said)]
        answer = pure.same_as_cold(changed, cache=OFF)
        assert answer.reused == deepest_cut(pure, changed, first) >= 64
        assert answer.stats.checkpoints == () and answer.stats.checkpoints_held == 0
        assert answer.stats.bytes.checkpoints == 0


@pytest.mark.parametrize("name", families(*PURE))
def test_X1_a_pure_transformer_gives_equal_bits_cold_and_warm_in_bfloat16(
    loaded_of: LoadedOf, name: str
) -> None:
    machine = Machine(loaded_of(name, "bfloat16"))
    greedy = SamplingParams(temperature=0, max_tokens=40)
    chat: list[Message] = [user(words(90))]
    for said in ("Go on.", words(20, "b")):
        chat += [machine.same_as_cold(chat, cache=OFF, sampling=greedy).reply, user(said)]
    machine.ask([user(words(90, "other"))], cache=OFF)
    restored = machine.same_as_cold(chat, cache=OFF, sampling=greedy)
    assert restored.reused > 150


# ---------------------------------------------------------------- pictures that attend both ways


@pytest.fixture(params=["gemma3", "gemma4_large"])
def gemma(request: pytest.FixtureRequest, loaded_of: LoadedOf) -> Machine:
    return Machine(loaded_of(request.param))


def pictured(picture: PictureOf) -> list[Message]:
    """Two pictures in the middle of text that has cuts of its own."""
    return [user(words(30), picture(1, "wide"), words(25, "b"), picture(2, "tall"), "Compare.")]


def test_I8_bidirectional_pictures_go_whole_through_one_forward(
    gemma: Machine, picture: PictureOf
) -> None:
    chat = pictured(picture)
    answer = gemma.same_as_cold(chat, cache=OFF)
    prompt = gemma.prompt(chat)
    tokens = [end - start for start, end in spans(prompt)]
    assert gemma.model.images_fed == tokens and gemma.model.num_encoded == 2
    assert len(tokens) == 2 and min(tokens) >= 9
    assert answer.fed == tuple(run.num_tokens for run in prompt.runs)
    # Its positions go on by one a token, unlike those of a grid.
    assert answer.stats.prompt_positions == answer.stats.prompt_tokens
    check_positions(prompt)


@pytest.mark.parametrize(
    ("gemma", "block"),
    thinned(
        itertools.product(["gemma3", "gemma4_large"], range(4)),
        {("gemma3", 0), ("gemma3", 2), ("gemma4_large", 1)},
    ),
    indirect=["gemma"],
)
def test_I8_bidirectional_a_stop_never_leaves_a_cut_inside_a_picture(
    gemma: Machine, picture: PictureOf, block: int
) -> None:
    chat = pictured(picture)
    prompt, expected = gemma.prompt(chat), gemma.cold(chat, cache=OFF)
    cuts = {0, *(run.end.token.value for run in prompt.runs)}
    for looks in range(12 * block, 12 * block + 12):
        stopped = Machine(gemma.base)
        stopped.prompt(chat)  # its pictures are known: a stop while they are decoded has no cuts
        first = stopped.ask(chat, cache=OFF, flag=CountdownFlag(looks))
        assert {node.end.token.value for node in stopped.cache.tree} <= cuts
        then = stopped.ask(chat, cache=OFF)
        assert then.reused == sum(first.fed)
        same(then, expected)


def test_I1_I3_bidirectional_pictures_are_reused_whole_or_not_at_all(
    gemma: Machine, picture: PictureOf
) -> None:
    shown = picture(1, "wide")
    first = gemma.same_as_cold([user(words(30), shown, "What is it?")], cache=OFF)
    same_picture: list[Message] = [user(words(30), shown, "Is it red?")]
    again = gemma.same_as_cold(same_picture, cache=OFF)
    ((start, end),) = spans(gemma.prompt(same_picture))
    assert again.reused == end and again.stats.images_encoded == 0
    swapped = gemma.same_as_cold([user(words(30), picture(2), "What is it?")], cache=OFF)
    assert swapped.reused == start and swapped.stats.images_encoded == 1
    assert not torch.equal(first.rows[0], swapped.rows[0])
    # Elsewhere in a chat it is read again, and not encoded.
    moved = gemma.same_as_cold([user("Is it red?", shown)], cache=OFF)
    assert moved.stats.images_encoded == 0 and moved.evaluated > 9


def test_S5_S9_X1_bidirectional_pictures_survive_turns_branches_and_regenerating(
    gemma: Machine, picture: PictureOf
) -> None:
    chat: list[Message] = [user(picture(1), "What is it?")]
    first = gemma.same_as_cold(chat, cache=OFF)
    other = gemma.same_as_cold([user(picture(3), "What is it?")], cache=OFF)
    assert other.stats.images_encoded == 1
    chat += [first.reply, user("And this?", picture(2))]
    second = gemma.same_as_cold(chat, cache=OFF)
    assert second.reused == deepest_cut(gemma, chat, first) > 9
    again = gemma.same_as_cold(chat, cache=OFF)
    assert again.fed == () and again.ids == second.ids
    edited: list[Message] = [*chat[:2], user("Forget it.")]
    assert gemma.same_as_cold(edited, cache=OFF).stats.images_encoded == 0
    back = gemma.same_as_cold(chat, cache=OFF)
    assert back.evaluated == 0 and back.stats.restored_from == "memory"


@pytest.mark.parametrize("family", ["gemma3", "gemma4_large"])
def test_X1_bidirectional_pictures_give_equal_bits_in_bfloat16(
    loaded_of: LoadedOf, picture: PictureOf, family: str
) -> None:
    machine = Machine(loaded_of(family, "bfloat16"))
    chat = pictured(picture)
    machine.same_as_cold([user(words(30), picture(2))], cache=OFF)
    chat += [machine.same_as_cold(chat, cache=OFF).reply, user("More.")]
    assert machine.same_as_cold(chat, cache=OFF).reused > 100


# ---------------------------------------------------------------- hybrids, with states of their own


def long_chat() -> list[Message]:
    return [system("Be brief."), user(words(60, "q")), user(words(80, "r"))]


@pytest.mark.parametrize(
    ("family", "precision"),
    thinned(
        itertools.product(RECURRENT, PRECISIONS),
        rotated(RECURRENT, ["bfloat16", "int8"]),
    ),
)
def test_X1_every_checkpoint_of_a_hybrid_leads_to_the_same_bits(
    loaded_of: LoadedOf, family: str, precision: str
) -> None:
    cold = same_from_every_checkpoint(loaded_of(family, precision), long_chat(), SHORT)
    assert len(cold.stats.checkpoints) >= 4 and len(cold.ids) == 8


@pytest.mark.parametrize(
    ("family", "precision"),
    [*(("hybrid", each) for each in PRECISIONS), *((each, "int8") for each in RECURRENT)],
)
def test_X4_what_a_hybrid_keeps_has_the_type_it_lives_in(
    loaded_of: LoadedOf, family: str, precision: str
) -> None:
    machine = Machine(loaded_of(family, precision))
    machine.ask(long_chat())
    machine.ask([user("elsewhere")])
    kept = PRECISIONS[precision].dtype
    rows = [node.rows for node in machine.cache.tree if node.rows is not None]
    held = machine.cache.tree.checkpoints()
    assert rows and held
    assert {part.dtype for row in rows for pair in row.layers.values() for part in pair} <= {kept}
    for node in held:
        assert node.checkpoint is not None and node.checkpoint.last_hidden.dtype == kept
        for tail, *states in node.checkpoint.state.layers.values():
            assert tail.dtype == kept and all(each.dtype == torch.float32 for each in states)


@pytest.fixture(params=families(*PURE, *RECURRENT))
def any_family(
    request: pytest.FixtureRequest, loaded_of: LoadedOf
) -> tuple[Machine, CacheSettings]:
    """A pure transformer keeps no checkpoints and needs none."""
    return Machine(loaded_of(request.param)), OFF if request.param in PURE else DEFAULT


def test_S1_S5_only_what_is_new_is_read(any_family: tuple[Machine, CacheSettings]) -> None:
    (machine, cache), chat = any_family, long_chat()
    first = machine.same_as_cold(chat, cache=cache)
    again = machine.same_as_cold(chat, cache=cache)
    assert again.fed == () and again.ids == first.ids
    hot = SamplingParams(temperature=1, max_tokens=4, seed=3)
    assert machine.same_as_cold(chat, cache=cache, sampling=hot).fed == ()
    on: list[Message] = [*chat, first.reply, user("And then?")]
    unsettled = machine.same_as_cold(on, cache=cache)
    assert unsettled.stats.miss.reason == "unsettled"
    assert unsettled.reused == deepest_cut(machine, on, first) > 100
    on.append(unsettled.reply)
    assert machine.settle(on, cache=cache).tokens > 0
    after = machine.same_as_cold([*on, user("More.")], cache=cache)
    assert after.stats.miss is None and after.evaluated < 20


def test_S7_S9_edits_and_branches_go_on_from_what_they_share(
    any_family: tuple[Machine, CacheSettings],
) -> None:
    (machine, cache), chat = any_family, long_chat()
    first = machine.same_as_cold(chat, cache=cache)
    edited = [*chat[:2], user(words(80, "z"))]
    branch = machine.same_as_cold(edited, cache=cache)
    assert branch.reused == deepest_cut(machine, edited, first) > 100
    # Back to the first branch, and on from it, and to the second again.
    back = machine.same_as_cold(chat, cache=cache)
    assert back.evaluated == 0 and back.stats.restored_from == "memory"
    on: list[Message] = [*chat, back.reply, user("And on.")]
    assert machine.same_as_cold(on, cache=cache).reused == deepest_cut(machine, on, back)
    assert machine.same_as_cold(edited, cache=cache).evaluated == 0


def test_I1_I3_D1_pictures_of_a_model_with_experts_are_reused_whole(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path
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


# ---------------------------------------------------------------- after a restart


@pytest.mark.parametrize(
    ("family", "count"),
    [("gemma3", 0), ("gemma3", 32), ("gemma4", 0), *((each, 32) for each in RECURRENT)],
)
def test_D1_only_what_is_new_is_read_after_a_restart(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path, family: str, count: int
) -> None:
    machine = Machine(loaded_of(family), tmp_path)
    settings = CacheSettings(count=count, interval=512, restore="always")
    shown = [picture(1)] if family in PURE else []
    chat: list[Message] = [user(*shown, words(100))]
    first = machine.ask(chat, cache=settings, chat="one")
    machine.reopen()
    chat += [first.reply, user("And now?")]
    second = machine.same_as_cold(chat, cache=settings, chat="one")
    assert second.stats.restored_from == "disk"
    assert second.reused == deepest_cut(machine, chat, first) and second.evaluated < 40
    assert second.stats.images_encoded == 0
