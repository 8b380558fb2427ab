"""A picture is decoded once on its way from a draft to the tower, and little is held meanwhile."""

from __future__ import annotations

import pytest

from core.api.chat import ImagePart, Message
from core.api.commands import DescribeImage
from core.api.errors import RequestCancelled
from core.engine import images
from core.engine.images import ImageCatalog
from core.vision.decode import DecodedPicture
from tests.promises.fixtures import LoadedOf, PictureOf
from tests.promises.machine import CountdownFlag, Machine, same, user


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The files that were decoded."""
    files: list[bytes] = []
    real = DecodedPicture.open

    def open_counted(self: DecodedPicture, data: bytes) -> None:
        files.append(data)
        real(self, data)

    monkeypatch.setattr(DecodedPicture, "open", open_counted)
    return files


def describe(machine: Machine, shown: ImagePart) -> None:
    machine.engine.describe(DescribeImage(image=shown))


def catalog_of(machine: Machine) -> ImageCatalog:
    assert machine.engine.loaded is not None
    return machine.engine.loaded.catalog


def test_a_picture_s_turn_decodes_it_once(
    machine: Machine, picture: PictureOf, opened: list[bytes]
) -> None:
    shown = picture(1, "wide")
    chat: list[Message] = [user(shown, "What is it?")]
    describe(machine, shown)
    assert machine.read_ahead([user(shown)]).encoded == 1
    answer = machine.ask(chat)
    machine.settle([*chat, answer.reply])
    machine.ask([*chat, answer.reply, user("And else?")])
    assert len(opened) == 1 and not catalog_of(machine)._described
    same(answer, machine.cold(chat))


def test_a_tower_that_was_interrupted_finds_the_picture_again(
    machine: Machine, picture: PictureOf, opened: list[bytes]
) -> None:
    shown = picture(2, "wide")
    describe(machine, shown)
    with pytest.raises(RequestCancelled):
        machine.read_ahead([user(shown)], flag=CountdownFlag(1))
    assert machine.ask([user(shown, "What is it?")]).stats.images_encoded == 1
    assert len(opened) == 1


def test_of_described_pictures_only_the_last_are_held(
    machine: Machine, picture: PictureOf, opened: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [picture(seed, "small") for seed in (1, 2, 3)]
    monkeypatch.setattr(images, "DESCRIBED_BYTES", 2 * 64 * 64 * 3)
    for each in shown:
        describe(machine, each)
    assert list(catalog_of(machine)._described) == [each.digest for each in shown[1:]]
    machine.same_as_cold([user(*shown, "What are they?")])


def test_a_model_without_vision_describes_and_holds_nothing(
    loaded_of: LoadedOf, picture: PictureOf
) -> None:
    machine = Machine(loaded_of("text"))
    described = machine.engine.describe(DescribeImage(image=picture(1)))
    assert described.tokens is None and not catalog_of(machine)._described


def test_the_pictures_that_are_known_are_bounded(
    machine: Machine, picture: PictureOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MOST_KNOWN", 2)
    shown = [picture(number, "wide") for number in range(4)]
    for each in shown:
        describe(machine, each)
    assert list(catalog_of(machine)._known) == [each.digest for each in shown[2:]]
    machine.ask([user(shown[0], "What is it?")])
    assert list(catalog_of(machine)._known) == [shown[3].digest, shown[0].digest]
    chat: list[Message] = [user(shown[1], "What is it?")]
    same(machine.ask(chat), machine.cold(chat))
