"""X0 to X3: cold, restored and branched answers are the same to the bit, whatever the settings."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.api.chat import Message
from core.api.params import CacheSettings, SamplingParams
from core.loading.precision import PRECISIONS
from tests.promises.fixtures import LoadedOf, PictureOf
from tests.promises.machine import (
    Machine,
    num_common,
    same,
    same_from_every_checkpoint,
    system,
    two_hundred_tokens,
    user,
    words,
)

# Frequency keeps a random model from saying the same thing for ever.
SHORT = SamplingParams(temperature=0, max_tokens=8, frequency_penalty=0.3)


def chat_with_pictures(picture: PictureOf) -> list[Message]:
    said = words(60)
    return [system("Be brief."), user(said, picture(1, "wide"), words(80, "q"), picture(2))]


@pytest.mark.parametrize(
    ("name", "precision"),
    [*(("hybrid", each) for each in PRECISIONS), ("qwen3_vl", "int8"), ("lfm2_vl", "int4")],
)
def test_X1_two_hundred_tokens_are_the_same_cold_restored_and_branched(
    loaded_of: LoadedOf, picture: PictureOf, name: str, precision: str
) -> None:
    base = loaded_of(name, precision)
    machine, chat = Machine(base), chat_with_pictures(picture)
    long = two_hundred_tokens(base, chat)
    cold = machine.ask(chat, sampling=long)
    assert len(cold.ids) == 200 and len(set(cold.ids)) > 50
    assert len(cold.fed) > 4 and cold.stats.images_encoded == 2
    restored = machine.ask(chat, sampling=long)
    assert restored.fed == () and restored.stats.restored_from == "slab"
    same(restored, cold)
    other: list[Message] = [system("Be brief."), user(words(200, "o"), picture(3, "tall"))]
    assert machine.ask(other, sampling=long).reused > 0
    back = machine.ask(chat, sampling=long)
    assert back.fed == () and back.stats.restored_from == "memory"
    same(back, cold)


@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_X1_every_checkpoint_of_a_path_leads_to_the_same_bits(
    loaded_of: LoadedOf, picture: PictureOf, precision: str
) -> None:
    base = loaded_of("hybrid", precision)
    chat = chat_with_pictures(picture)
    cold = same_from_every_checkpoint(base, chat, SHORT)
    assert len(cold.stats.checkpoints) >= len(cold.fed) > 4


@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_X4_what_is_kept_has_the_type_it_lives_in(
    loaded_of: LoadedOf, picture: PictureOf, precision: str
) -> None:
    machine = Machine(loaded_of("hybrid", precision))
    machine.ask(chat_with_pictures(picture))
    machine.ask([user("elsewhere")])
    kept = PRECISIONS[precision].dtype
    rows = [node.rows for node in machine.cache.tree if node.rows is not None]
    assert rows
    assert {part.dtype for row in rows for pair in row.layers.values() for part in pair} == {kept}
    for node in machine.cache.tree.checkpoints():
        assert node.checkpoint is not None and node.checkpoint.last_hidden.dtype == kept
        for tail, state in node.checkpoint.state.layers.values():
            assert (tail.dtype, state.dtype) == (kept, torch.float32)


def test_X2_the_same_request_gives_the_same_ids(machine: Machine, picture: PictureOf) -> None:
    chat = chat_with_pictures(picture)
    hot = SamplingParams(temperature=1.5, top_p=0.95, top_k=50, seed=11, max_tokens=20)
    answers = [machine.ask(chat, sampling=hot)]
    for turn in range(9):
        if turn % 3 == 1:
            machine.ask([user("in between " + words(40 * turn))])
        if turn == 5:
            machine.cache.clear()
        answers.append(machine.ask(chat, sampling=hot))
    for answer in answers[1:]:
        same(answer, answers[0])
    other = machine.ask(chat, sampling=hot.model_copy(update={"seed": 12}))
    assert other.ids != answers[0].ids and other.stats.seed == 12


@pytest.mark.parametrize("interval", [1, 128, 32_768])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 256])
def test_X3_settings_never_change_an_output(
    machine: Machine, picture: PictureOf, count: int, interval: int
) -> None:
    settings = CacheSettings(count=count, interval=interval)
    chat = chat_with_pictures(picture)
    first = machine.ask(chat, cache=settings)
    chat += [first.reply, user(words(70, "n"))]
    for messages in (chat, chat[:2], chat, [*chat[:2], first.reply, user("Else.")]):
        answer = machine.ask(messages, cache=settings)
        same(answer, Machine(machine.base).ask(messages))


PARTS = st.lists(
    st.sampled_from(["a", "bb c", "\n", "1 2 3 " * 30, 1, 2, 3]), min_size=1, max_size=4
)


@given(st.lists(PARTS, min_size=2, max_size=4), st.lists(PARTS, min_size=1, max_size=2))
def test_X0_cuts_inside_a_common_prefix_are_the_same(
    loaded_of: LoadedOf,
    picture: PictureOf,
    common: list[list[str | int]],
    rest: list[list[str | int]],
) -> None:
    machine = Machine(loaded_of("hybrid"))

    def message(parts: list[str | int]) -> Message:
        shown = [part if isinstance(part, str) else picture(part) for part in parts]
        return user("m", *shown)

    one = machine.prompt([message(parts) for parts in common])
    other = machine.prompt([message(parts) for parts in (*common[:-1], *rest)])
    shared = num_common(one.ids(-1), other.ids(-1))
    keys = list(zip(machine.cache.tree.keys(one), machine.cache.tree.keys(other), strict=False))
    agreed = num_common([left for left, _ in keys], [right for _, right in keys])
    # Pictures share their placeholder, so only what the keys agree on is surely common.
    end = one.runs[agreed - 1].end.token.value if agreed else 0
    inside = [[cut for cut in made.cuts if cut.token.value <= end] for made in (one, other)]
    assert inside[0] == inside[1] and end <= shared
