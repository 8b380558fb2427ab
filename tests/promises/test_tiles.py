"""Pictures that are seen tile by tile: one picture to the cache, whole or not there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from core.api.chat import ImagePart, Message
from core.api.prompt import Image
from tests.oracle import tiny_lfm2_vl, tiny_minicpm_v
from tests.oracle.checkpoints import token_id, tokenizer
from tests.promises.fixtures import LoadedOf
from tests.promises.machine import CountdownFlag, Machine, same, spans, user, words
from tests.promises.pictures import draw

SIZE = (512, 384)
# Two by two tiles of four tokens, and the whole picture behind them.
TILES, OF_A_TILE, OF_THE_WHOLE = 4, 4, 6 * 9
TOKENS = TILES * (1 + OF_A_TILE) + 1 + OF_THE_WHOLE

lfm2_id = partial(token_id, control=tiny_lfm2_vl.CONTROL)
Shown = Callable[[int], ImagePart]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """A large picture by its seed."""
    return lambda seed: draw(tmp_path / f"{seed}.png", seed, SIZE)


@pytest.fixture
def machine(loaded_of: LoadedOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(Machine, "grids_of_a_picture", TILES + 1)
    return Machine(loaded_of("lfm2_vl"), tmp_path / "cache")


@pytest.mark.parametrize("family", ["minicpm_v", "minicpm_v4_7"])
def test_slices_are_one_picture_with_its_number(
    loaded_of: LoadedOf, tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    machine = Machine(loaded_of(family), tmp_path / "cache")
    monkeypatch.setattr(Machine, "grids_of_a_picture", 5)
    chat: list[Message] = [user(shown(1), "one")]
    chat += [machine.same_as_cold(chat).reply, user(shown(2), "two")]
    answer = machine.same_as_cold(chat)
    assert answer.stats.images_encoded == 1
    ids = machine.prompt(chat).ids(-1)
    tokens, mark = (
        tokenizer(*tiny_minicpm_v.CONTROL),
        token_id("<image_id>", tiny_minicpm_v.CONTROL),
    )
    numbers = [tokens.decode([after]) for each, after in pairwise(ids) if each == mark]
    assert numbers == ["0", "1"]


def embedding_of(machine: Machine, image: Image) -> Tensor:
    found = machine.cache.embeddings.get(image.key)
    assert found is not None
    return found


def test_tokens_between_tiles_are_those_of_the_tokenizer(machine: Machine, shown: Shown) -> None:
    chat: list[Message] = [user(shown(1), "What is it?")]
    answer = machine.same_as_cold(chat)
    assert machine.model.images_fed == [TOKENS] and answer.stats.images_encoded == 1
    (image,) = machine.prompt(chat).images
    embedding = embedding_of(machine, image)
    marks = [f"<|img_row_{row}_col_{column}|>" for row in (1, 2) for column in (1, 2)]
    ids = torch.tensor([lfm2_id(each) for each in (*marks, "<|img_thumbnail|>")])
    assert torch.equal(embedding[: TILES * 5 + 1 : 5], machine.base.model.embed(ids))
    # And around the picture, where its template writes one token.
    ids_around = machine.prompt(chat).ids(-1)
    first = ids_around.index(-1)
    assert ids_around[first - 1] == lfm2_id("<|image_start|>")
    assert ids_around[first + TOKENS] == lfm2_id("<|image_end|>")


def test_I1_I3_a_tiled_picture_is_reused_whole_or_not_at_all(
    machine: Machine, shown: Shown
) -> None:
    machine.ask([user(words(30), shown(1), "What is it?")])
    again = machine.same_as_cold([user(words(30), shown(1), "Is it red?")])
    assert again.stats.images_encoded == 0 and again.evaluated < 30
    swapped: list[Message] = [user(words(30), shown(2), "What is it?")]
    other = machine.same_as_cold(swapped)
    ((start, _),) = spans(machine.prompt(swapped))
    assert other.reused == start and other.stats.images_encoded == 1


def test_D1_a_tiled_picture_comes_back_without_the_tower(machine: Machine, shown: Shown) -> None:
    machine.ask([user("What is it?", shown(1))])
    machine.reopen()
    other = machine.same_as_cold([user("Is it red?", shown(1))])
    assert other.stats.images_encoded == 0 and other.reused == 0


def test_I8_a_stop_between_tiles_keeps_none_of_them(
    machine: Machine, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat: list[Message] = [user("Look.", shown(1), "What?")]
    expected, seen = machine.cold(chat), set()
    for looks in range(14):
        stopped = Machine(machine.base)
        stopped.prompt(chat)
        with monkeypatch.context() as patched:
            # A stop leaves the tower amid a picture, which is then counted nowhere.
            patched.setattr(Machine, "_check", lambda *given: None)
            stopped.ask(chat, flag=CountdownFlag(looks))
            seen.add(stopped.model.num_encoded)
            assert not any(held for held in stopped.cache.embeddings.held()) or looks > 5
        same(stopped.ask(chat), expected)
    assert {0, 1, 2, 3, 4, 5} <= seen
