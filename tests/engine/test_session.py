"""How a request ends: every finish reason, every refusal, and an engine that goes on after each."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core.api.chat import ImagePart, Message
from core.api.commands import DescribeImage
from core.api.errors import (
    ImageAspectError,
    ImageEmptyError,
    ImageUnreadableError,
    InternalError,
    NoVisionError,
    PromptTooLongError,
    WaymarkError,
)
from core.api.params import SamplingParams
from core.engine import images
from core.engine.cancel import CancelFlag
from core.vision.decode import read_picture
from tests.oracle.checkpoints import token_id, tokenizer
from tests.promises.fixtures import FolderOf, LoadedOf, PictureOf
from tests.promises.machine import GREEDY, CountdownFlag, Machine, load, user, words
from tests.promises.pictures import draw, part_of

END = token_id("<|im_end|>")
UNBOUND = SamplingParams(temperature=0)


def ids_of(text: str) -> list[int]:
    return list(tokenizer().encode(text).ids)


@pytest.mark.parametrize("ending", ["<|im_end|>", "<|endoftext|>"])
def test_an_end_token_stops_the_reply(machine: Machine, ending: str) -> None:
    said = [*ids_of("quick fox"), token_id(ending)]
    answer = machine.ask([user("Hi")], sampling=UNBOUND, say=said)
    assert answer.finished.reason == "stop" and answer.reply.text == "quick fox"
    assert list(answer.ids) == said
    assert answer.reply.ids is not None and answer.reply.ids.unpack() == said[:-1]


def test_a_reply_may_be_empty(machine: Machine) -> None:
    answer = machine.ask([user("Hi")], say=[END])
    assert (answer.finished.reason, answer.reply.text, len(answer.ids)) == ("stop", "", 1)
    assert machine.same_as_cold([user("Hi"), answer.reply, user("More")]).reused > 0


@pytest.mark.parametrize("count", [1, 2, 7])
def test_max_tokens_ends_with_length(machine: Machine, count: int) -> None:
    answer = machine.ask([user("Hi")], sampling=SamplingParams(temperature=0, max_tokens=count))
    assert answer.finished.reason == "length" and len(answer.ids) == count


def test_an_end_token_at_max_tokens_is_a_stop(machine: Machine) -> None:
    answer = machine.ask([user("Hi")], say=[65, 66, 67, END])
    assert len(answer.ids) == GREEDY.max_tokens and answer.finished.reason == "stop"


def test_a_stop_string_is_neither_shown_nor_stored(machine: Machine) -> None:
    sampling = SamplingParams(temperature=0, stop=("fox", "never"))
    said = ids_of("the quick fox and a red circle")
    answer = machine.ask([user("Hi")], sampling=sampling, say=said)
    assert answer.finished.reason == "stop" and answer.reply.text == "the quick "
    assert len(answer.ids) < len(said)
    assert answer.reply.ids is not None
    kept = answer.reply.ids.unpack()
    assert "fox" not in tokenizer().decode(kept) and list(answer.ids[: len(kept)]) == kept


@pytest.mark.parametrize("count", [1, 3])
def test_stop_after_tokens_stops_as_a_user_would(machine: Machine, count: int) -> None:
    answer = machine.ask([user("Hi")], stop_after_tokens=count)
    assert answer.finished.reason == "cancelled" and len(answer.ids) == count
    assert answer.stats.ttft_s is not None


def test_a_stop_in_the_middle_of_the_reply_keeps_its_ids(machine: Machine) -> None:
    chat: list[Message] = [user("Hi")]
    whole = machine.ask(chat, sampling=SamplingParams(temperature=0, max_tokens=12))
    stopped = machine.ask(
        chat, sampling=SamplingParams(temperature=0, max_tokens=12), flag=CountdownFlag(30)
    )
    assert stopped.finished.reason == "cancelled" and 0 < len(stopped.ids) < 12
    assert stopped.ids == whole.ids[: len(stopped.ids)]


class TestContext:
    """The end of the context, reached in the reply, by the prompt, and before it."""

    @pytest.fixture
    def narrow(self, folder_of: FolderOf) -> Machine:
        return Machine(load(folder_of("hybrid"), context_length=100))

    def test_a_reply_ends_where_the_context_does(self, narrow: Machine) -> None:
        answer = narrow.ask([user("Z" * 60)], sampling=UNBOUND, say=[65] * 100)
        assert answer.finished.reason == "context" and answer.stats.context_length == 100
        assert answer.stats.prompt_tokens + len(answer.ids) == 100

    def test_a_prompt_that_fills_the_context_leaves_no_room(self, narrow: Machine) -> None:
        beside = narrow.prompt([user("Z")]).num_tokens - 1
        answer = narrow.ask([user("Z" * (100 - beside))], sampling=UNBOUND)
        assert answer.finished.reason == "context" and answer.ids == ()
        assert answer.stats.prompt_tokens == 100

    def test_a_longer_prompt_is_refused_with_its_numbers(self, narrow: Machine) -> None:
        chat: list[Message] = [user("Z" * 60)]
        narrow.ask(chat)
        before = {node.key: node.last_used for node in narrow.cache.tree}
        with pytest.raises(PromptTooLongError, match=r"\b2\d\d tokens.*holds 100\b"):
            narrow.ask([user("Z" * 190)])
        assert {node.key: node.last_used for node in narrow.cache.tree} == before
        assert narrow.same_as_cold(chat).fed == ()


def test_a_text_model_refuses_pictures_by_name(loaded_of: LoadedOf, picture: PictureOf) -> None:
    machine = Machine(loaded_of("text"))
    assert not machine.base.info.vision
    with pytest.raises(NoVisionError, match="reads text only"):
        machine.ask([user(picture(1), "What is it?")])
    machine.same_as_cold([user("What is it?")])


@pytest.mark.parametrize(
    ("content", "error"), [(b"no picture at all", ImageUnreadableError), (b"", ImageEmptyError)]
)
def test_a_broken_picture_is_named_and_the_engine_goes_on(
    machine: Machine, picture: PictureOf, tmp_path: Path, content: bytes, error: type[WaymarkError]
) -> None:
    path = tmp_path / "holiday.jpg"
    path.write_bytes(content)
    with pytest.raises(error, match=r"holiday\.jpg"):
        machine.ask([user(picture(1), part_of(path), "What is it?")])
    loaded = machine.engine.loaded
    assert loaded is not None and not loaded.catalog._fresh, "what nobody took is given back"
    machine.same_as_cold([user(picture(1), "What is it?")])


def test_a_picture_of_extreme_shape_is_named(machine: Machine, tmp_path: Path) -> None:
    thin = draw(tmp_path / "thread.png", 1, (1, 300))
    with pytest.raises(ImageAspectError, match=r"thread\.png.* 1 x 300 "):
        machine.ask([user(thin, "What is it?")])
    with pytest.raises(ImageAspectError, match=r"thread\.png"):
        machine.engine.describe(DescribeImage(request=1, image=thin))
    machine.same_as_cold([user("Hi")])


def test_a_stop_is_seen_between_the_steps_on_a_new_picture(
    machine: Machine, picture: PictureOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding a large photograph takes seconds; a stop must not wait for all of a message's."""
    flag = CancelFlag()
    opened: list[Path] = []

    def read(path: Path, digest: str, name: str) -> bytes:
        opened.append(path)
        flag.set()
        return read_picture(path, digest, name)

    monkeypatch.setattr(images, "read_picture", read)
    chat: list[Message] = [user(picture(1), picture(2), "What is it?")]
    stopped = machine.ask(chat, flag=flag)
    assert stopped.finished.reason == "cancelled" and stopped.stats.prompt_tokens == 0
    assert len(opened) == 1 and machine.model.fed == []
    monkeypatch.undo()
    machine.same_as_cold(chat)


def test_a_picture_that_is_gone_is_named(
    machine: Machine, picture: PictureOf, tmp_path: Path
) -> None:
    gone = ImagePart(digest="0" * 64, path=str(tmp_path / "gone.png"))
    for broken in (gone, gone.model_copy(update={"path": str(tmp_path)})):
        with pytest.raises(ImageUnreadableError):
            machine.ask([user(broken, "What is it?")])
    # In a store a file is named by its digest, which says nothing to anybody.
    named = gone.model_copy(update={"name": "star.png"})
    with pytest.raises(ImageUnreadableError, match=r"^star\.png doesn't exist"):
        machine.ask([user(named, "What is it?")])
    machine.same_as_cold([user(picture(1), "What is it?")])


def test_a_picture_that_vanishes_before_the_tower_keeps_what_was_read(
    machine: Machine, tmp_path: Path, picture: PictureOf
) -> None:
    path = tmp_path / "short-lived.png"
    data = Path(picture(5).path).read_bytes()
    path.write_bytes(data)
    shown = part_of(path)
    chat: list[Message] = [user(words(60), shown, "What is it?")]
    machine.ask(chat)
    machine.cache.clear()
    path.unlink()
    with pytest.raises(ImageUnreadableError, match="short-lived"):
        machine.ask(chat)
    path.write_bytes(data)
    assert machine.same_as_cold(chat).reused > 60


def test_logits_that_are_no_numbers_are_an_error_and_not_a_reply(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat: list[Message] = [user("Hi")]
    weights = machine.base.model

    class Broken:
        def __getattr__(self, name: str) -> object:
            return getattr(weights, name)

        def logits(self, hidden: torch.Tensor) -> torch.Tensor:
            return weights.logits(hidden) * float("nan")

    monkeypatch.setattr(machine.model, "_model", Broken())
    with pytest.raises(InternalError, match="not a number"):
        machine.ask(chat)
    monkeypatch.setattr(machine.model, "_model", weights)
    machine.same_as_cold(chat)


def test_a_fresh_seed_is_drawn_and_told(machine: Machine) -> None:
    hot = SamplingParams(temperature=2, max_tokens=8)
    answers = [machine.ask([user("Hi")], sampling=hot) for _ in range(2)]
    assert answers[0].stats.seed != answers[1].stats.seed
    told = hot.model_copy(update={"seed": answers[0].stats.seed})
    assert machine.ask([user("Hi")], sampling=told).ids == answers[0].ids
