"""X0 to X3: cold, restored and branched answers are the same to the bit, whatever the settings."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from core.api.chat import Message
from core.api.params import CacheSettings, SamplingParams
from core.loading.precision import PRECISIONS
from tests.promises.fixtures import BLOCKS, MAPPED, PUBLISHED, LoadedOf, PictureOf
from tests.promises.machine import (
    Answer,
    Machine,
    chat_with_pictures,
    last_end,
    same,
    same_from_every_checkpoint,
    system,
    two_hundred_tokens,
    user,
    words,
)
from tests.sweeps import first_quick, thinned

# Frequency keeps a random model from saying the same thing for ever.
SHORT = SamplingParams(temperature=0, max_tokens=8, frequency_penalty=0.3)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *(("hybrid", each) for each in PRECISIONS),
        ("qwen3_vl", "int8"),
        ("lfm2_vl", "int4"),
        ("lfm3_vl", "bfloat16"),
        *first_quick(PUBLISHED),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in MAPPED),
    ],
)
def test_X1_two_hundred_tokens_are_the_same_cold_restored_and_branched(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path, name: str, precision: str
) -> None:
    chat = chat_with_pictures(picture)
    machine, long, cold = two_hundred_tokens(loaded_of(name, precision), chat, tmp_path)
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
    machine.reopen()
    reopened = machine.ask(chat, sampling=long)
    assert reopened.stats.restored_from == "disk" and reopened.stats.images_encoded == 0
    assert reopened.reused == last_end(cold.finished.prompt_ids, machine.base.text.end_of_turn_ids)
    same(reopened, cold)
    machine.reopen()
    machine.ask([system("Be brief."), user("Elsewhere.", picture(3, "tall"))])
    same(machine.ask(chat, sampling=long), cold)


@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_X1_every_checkpoint_of_a_path_leads_to_the_same_bits(
    loaded_of: LoadedOf, picture: PictureOf, precision: str
) -> None:
    base = loaded_of("hybrid", precision)
    chat = chat_with_pictures(picture)
    cold = same_from_every_checkpoint(base, chat, SHORT)
    assert len(cold.stats.checkpoints) >= len(cold.fed) > 4


@pytest.mark.parametrize("name", first_quick(BLOCKS))
def test_X1_a_mapped_model_continues_what_a_packed_one_stored(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path, name: str
) -> None:
    """And the other way round."""
    packed, mapped = (loaded_of(name, each) for each in ("published", "mapped"))
    assert mapped.info.load.slowed_by and not packed.info.load.slowed_by
    machine, chat = Machine(packed, tmp_path / "cache"), chat_with_pictures(picture)
    cold = machine.ask(chat, sampling=SHORT)
    for other in (mapped, packed):
        machine.write()
        machine.restart(other)
        again = machine.ask(chat, sampling=SHORT)
        assert again.stats.restored_from == "disk"
        same(again, cold)


@pytest.mark.parametrize(
    "machine",
    ["hybrid", *(pytest.param(each, marks=pytest.mark.slow) for each in PUBLISHED + MAPPED)],
    indirect=True,
    ids=str,
)
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


@pytest.fixture(scope="module")
def turns(loaded_of: LoadedOf, picture: PictureOf) -> list[tuple[list[Message], Answer]]:
    """The requests of a chat in order, and the answers of engines with an empty cache."""
    base, chat = loaded_of("hybrid"), chat_with_pictures(picture)
    reply = Machine(base).ask(chat).reply
    longer = [*chat, reply, user(words(70, "n"))]
    other = [*chat, reply, user("Else.", picture(3))]
    colds = [(asked, Machine(base).ask(asked)) for asked in (chat, longer, other)]
    return [colds[which] for which in (0, 1, 0, 1, 2, 1)]


@pytest.mark.parametrize(
    ("count", "interval"),
    thinned(
        itertools.product([0, 1, 2, 7, 256], [1, 128, 32_768]),
        {(0, 32_768), (1, 1), (2, 128), (7, 1), (256, 32_768)},
    ),
)
def test_X3_settings_never_change_an_output(
    machine: Machine, turns: list[tuple[list[Message], Answer]], count: int, interval: int
) -> None:
    settings = CacheSettings(count=count, interval=interval)
    for asked, cold in turns:
        same(machine.ask(asked, cache=settings), cold)


@pytest.mark.parametrize(
    ("states", "disk"),
    thinned(
        itertools.product([None, 12, 2, 0], [None, 30_000, 0]),
        {(None, None), (12, 30_000), (2, 0), (0, 30_000)},
    ),
)
def test_X3_budgets_and_disk_never_change_an_output(
    kept: Machine, turns: list[tuple[list[Message], Answer]], states: int | None, disk: int | None
) -> None:
    info = kept.base.info
    kv_buffer = info.kv_bytes_per_token * info.context_length
    host = None if states is None else kv_buffer + states * (info.checkpoint_bytes + 128)
    settings = CacheSettings(interval=1, host_bytes=host, disk_bytes=disk)
    for asked, cold in turns:
        same(kept.ask(asked, cache=settings), cold)
        kept.write()
        if disk is not None:
            assert kept.cache.disk.num_bytes <= disk
        kept.restart()
