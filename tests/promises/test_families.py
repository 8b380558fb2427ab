"""The promises on pure transformers: any cut restores by truncation, and no checkpoint is kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.api.chat import Message
from core.api.params import CacheSettings, SamplingParams
from core.engine.loaded import LoadedModel
from tests.promises.fixtures import PURE
from tests.promises.machine import Answer, Machine, num_common, system, user, words

OFF = CacheSettings(count=0, interval=512)


@pytest.fixture(params=PURE)
def pure(request: pytest.FixtureRequest, loaded_of: Callable[..., LoadedModel]) -> Machine:
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


def test_S5_a_pure_transformer_regenerates_without_a_token(pure: Machine) -> None:
    chat: list[Message] = [user(words(50))]
    first = pure.same_as_cold(chat, cache=OFF)
    again = pure.same_as_cold(chat, cache=OFF)
    assert again.fed == () and again.ids == first.ids
    hot = SamplingParams(temperature=1, max_tokens=4, seed=3)
    assert pure.same_as_cold(chat, cache=OFF, sampling=hot).fed == ()


def test_S7_S9_edits_and_branches_of_a_pure_transformer_read_only_what_is_new(
    pure: Machine,
) -> None:
    chat: list[Message] = [system("Be brief."), user(words(30, "a"))]
    answers = []
    for said in (words(30, "b"), words(30, "c")):
        answers.append(pure.same_as_cold(chat, cache=OFF))
        chat += [answers[-1].reply, user(said)]
    answers.append(pure.same_as_cold(chat, cache=OFF))
    edited = [*chat[:3], user(words(30, "z"))]
    branch = pure.same_as_cold(edited, cache=OFF)
    assert branch.reused == deepest_cut(pure, edited, answers[-1]) > 50
    # Back to the first branch, and on from it, and to the second again.
    back = pure.same_as_cold(chat, cache=OFF)
    assert back.evaluated == 0 and back.stats.restored_from == "memory"
    on: list[Message] = [*chat, back.reply, user("And on.")]
    assert pure.same_as_cold(on, cache=OFF).reused == deepest_cut(pure, on, back)
    assert pure.same_as_cold(edited, cache=OFF).evaluated == 0


def test_S1_a_settled_reply_of_a_pure_transformer_is_not_read_again(pure: Machine) -> None:
    chat: list[Message] = [user(words(40))]
    chat.append(pure.ask(chat, cache=OFF).reply)
    assert pure.settle(chat, cache=OFF).tokens > 0
    chat.append(user("More."))
    after = pure.same_as_cold(chat, cache=OFF)
    assert after.stats.miss is None and after.evaluated < 20


@pytest.mark.parametrize("name", PURE)
def test_X1_a_pure_transformer_gives_equal_bits_cold_and_warm_in_bfloat16(
    loaded_of: Callable[..., LoadedModel], name: str
) -> None:
    machine = Machine(loaded_of(name, "bfloat16"))
    greedy = SamplingParams(temperature=0, max_tokens=40)
    chat: list[Message] = [user(words(90))]
    for said in ("Go on.", words(20, "b")):
        chat += [machine.same_as_cold(chat, cache=OFF, sampling=greedy).reply, user(said)]
    machine.ask([user(words(90, "other"))], cache=OFF)
    restored = machine.same_as_cold(chat, cache=OFF, sampling=greedy)
    assert restored.reused > 150
