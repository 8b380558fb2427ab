"""I1 to I12: pictures in a chat, with the real tower, by counters and by logits."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from PIL import Image as Pillow

from core.api.chat import AssistantMessage, Message, ReplyIds
from core.api.errors import ImageUnreadableError
from tests.promises.fixtures import SEEING, LoadedOf, PictureOf
from tests.promises.machine import (
    Answer,
    CountdownFlag,
    Machine,
    last_end,
    num_common,
    same,
    spans,
    user,
    words,
)
from tests.promises.pictures import draw, part_of
from tests.sweeps import thinned


@pytest.fixture(params=SEEING)
def machine(request: pytest.FixtureRequest, loaded_of: LoadedOf) -> Machine:
    """An engine that has read nothing, with a model that sees."""
    return Machine(loaded_of(request.param))


ON_A_GRID = pytest.mark.parametrize("machine", ["hybrid", "qwen3_vl"], indirect=True)


def test_I1_a_new_question_after_a_picture_reads_only_itself(
    machine: Machine, picture: PictureOf
) -> None:
    first = machine.same_as_cold([user(picture(1, "large"), "What is it?")])
    assert first.stats.images_encoded == 1
    second = machine.same_as_cold([user(picture(1, "large"), "Is it red?")])
    ((_, end),) = spans(machine.prompt([user(picture(1, "large"), "x")]))
    assert second.stats.images_encoded == 0
    assert second.reused == end and second.evaluated < 30


def test_I1_a_question_before_the_picture_encodes_nothing(
    machine: Machine, picture: PictureOf
) -> None:
    machine.ask([user("What is it?", picture(1, "large"))])
    second = machine.same_as_cold([user("Is it red?", picture(1, "large"))])
    assert second.stats.images_encoded == 0 and second.stats.images_in_prompt == 1
    assert second.evaluated > 64


def test_I2_a_second_picture_reuses_everything_before_it(
    machine: Machine, picture: PictureOf
) -> None:
    chat: list[Message] = [user(picture(1), "What is it?")]
    first = machine.ask(chat)
    chat += [first.reply, user(picture(2, "wide"), "And this?")]
    second = machine.same_as_cold(chat)
    assert second.reused == last_end(first.finished.prompt_ids, machine.base.text.end_of_turn_ids)
    assert second.stats.images_encoded == 1 and second.stats.images_in_prompt == 2
    draft = machine.same_as_cold([user(picture(1), picture(2, "wide"), "Compare.")])
    ((_, end), _) = spans(machine.prompt([user(picture(1), picture(2, "wide"), "x")]))
    assert end <= draft.reused and draft.stats.images_encoded == 0


def test_I3_a_swapped_picture_is_what_the_answer_is_about(
    machine: Machine, picture: PictureOf
) -> None:
    first = machine.same_as_cold([user(words(30), picture(1, "wide"), "What is it?")])
    other = [user(words(30), picture(2, "wide"), "What is it?")]
    second = machine.same_as_cold(other)
    ((start, _),) = spans(machine.prompt(other))
    assert second.reused == start and second.stats.images_encoded == 1
    assert not torch.equal(first.rows[0], second.rows[0])


@pytest.mark.parametrize("before", [True, False])
def test_I4_a_picture_added_to_the_same_text_is_seen(
    machine: Machine, picture: PictureOf, before: bool
) -> None:
    said, shown = words(40), picture(3)
    plain = machine.same_as_cold([user(said)])
    with_picture = machine.same_as_cold([user(shown, said) if before else user(said, shown)])
    assert with_picture.stats.images_encoded == 1
    assert not torch.equal(plain.rows[0], with_picture.rows[0])
    # And without it again.
    same(machine.ask([user(said)]), plain)


def test_I5_a_typed_token_stays_text(machine: Machine, picture: PictureOf) -> None:
    added = machine.base.text._kit.added
    # An empty line is a token that text consists of, too.
    spellings = [each for each in added.by_spelling if not each.isspace()]
    assert len(spellings) >= 9
    plain, typed = ([user(f"a {said} b", picture(1))] for said in ("x", " ".join(spellings * 2)))
    # Without the picture's own placeholders, which `ids` shows as -1 here.
    expected, found = (machine.prompt(chat).ids(-1) for chat in (plain, typed))
    for token in map(added.id_of, spellings):
        assert token is not None and found.count(token) == expected.count(token)
    assert machine.same_as_cold(typed).stats.images_in_prompt == 1


def test_I5_a_sampled_placeholder_is_no_picture(machine: Machine) -> None:
    assert machine.engine.loaded is not None
    fingerprint = machine.engine.loaded.text.tokenizer_fingerprint
    placeholder = machine.engine.loaded.text.image_token_id
    assert placeholder is not None
    sampled = ReplyIds.pack([placeholder] * 5 + [65], fingerprint, False)
    chat: list[Message] = [user("Hi"), AssistantMessage(text="a", ids=sampled), user("More")]
    answer = machine.same_as_cold(chat)
    assert answer.finished.prompt_ids.count(placeholder) == 5
    assert answer.stats.images_in_prompt == 0
    assert answer.stats.prompt_positions == answer.stats.prompt_tokens


def test_I6_a_file_overwritten_under_its_path_is_a_new_picture(
    machine: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "photo.png"
    old = draw(path, 1, (64, 64))
    first = machine.ask([user(old, "What is it?")])
    new = draw(path, 2, (64, 64))
    assert new.path == old.path and new.digest != old.digest
    second = machine.same_as_cold([user(new, "What is it?")])
    assert second.stats.images_encoded == 1 and second.reused < first.reused + first.evaluated
    assert not torch.equal(first.rows[0], second.rows[0])
    # The old one is still known by what it was; unread, it can't be had from this path any more.
    same(machine.ask([user(old, "What is it?")]), first)
    with pytest.raises(ImageUnreadableError, match=r"photo\.png has changed"):
        Machine(machine.base).ask([user(old, "What is it?")])


def test_I6_one_picture_under_two_names_is_one_picture(
    machine: Machine, picture: PictureOf, tmp_path: Path
) -> None:
    original = picture(4)
    data = Path(original.path).read_bytes()
    (tmp_path / "copy.png").write_bytes(data)
    # Other bytes, the same pixels.
    Pillow.open(io.BytesIO(data)).save(tmp_path / "other.bmp")
    machine.ask([user(original, "What is it?")])
    for name in ("copy.png", "other.bmp"):
        answer = machine.same_as_cold([user(part_of(tmp_path / name), "What is it?")])
        assert answer.fed == () and answer.stats.images_encoded == 0


@ON_A_GRID
@pytest.mark.parametrize(("size", "tokens", "positions"), [("wide", 8, 4), ("tall", 10, 5)])
def test_I7_positions_after_a_picture_go_on_from_its_longest_side(
    machine: Machine, picture: PictureOf, size: str, tokens: int, positions: int
) -> None:
    one = machine.same_as_cold([user(picture(1, size), "What?")])
    assert one.stats.prompt_tokens - one.stats.prompt_positions == tokens - positions
    more = machine.same_as_cold([user(picture(1, size), "Why?")])
    place = more.stats.restored_at
    assert place.token - place.position == tokens - positions


@pytest.mark.parametrize("machine", ["lfm2_vl", "lfm3_vl"], indirect=True)
def test_I7_positions_in_a_line_go_on_by_a_token(machine: Machine, picture: PictureOf) -> None:
    one = machine.same_as_cold([user(picture(1, "tall"), "What?")])
    assert one.stats.prompt_tokens == one.stats.prompt_positions > 10


def pictures_and_text(picture: PictureOf) -> list[Message]:
    return [user(words(30), picture(1, "wide"), words(25), picture(2, "tall"), "Compare.")]


@pytest.mark.parametrize(
    ("machine", "block"),
    thinned(
        [("qwen3_vl", 2), ("lfm2_vl", 3), ("lfm3_vl", 1), *(("hybrid", at) for at in range(8))],
        {("lfm2_vl", 3), ("hybrid", 1), ("hybrid", 4), ("hybrid", 6)},
    ),
    indirect=["machine"],
)
def test_I8_a_stop_never_leaves_a_cut_inside_a_picture(
    machine: Machine, picture: PictureOf, block: int
) -> None:
    chat = pictures_and_text(picture)
    prompt, expected = machine.prompt(chat), machine.cold(chat)
    cuts = {0, *(run.end.token.value for run in prompt.runs)}
    for looks in range(8 * block, 8 * block + 8):
        stopped = Machine(machine.base)
        stopped.prompt(chat)  # its pictures are known: a stop while they are decoded has no cuts
        first = stopped.ask(chat, flag=CountdownFlag(looks))
        held = {node.end.token.value for node in stopped.cache.tree}
        assert held <= cuts
        then = stopped.ask(chat)
        # Exactly what was finished is not read again, planned or not.
        assert then.reused == sum(first.fed)
        same(then, expected)


def test_I8_stopping_inside_a_picture_resumes_at_the_cut_before_it(
    machine: Machine, picture: PictureOf
) -> None:
    chat = pictures_and_text(picture)
    (first, _), (second, _) = spans(machine.prompt(chat))
    seen = set()
    looks = sum_fed = 0
    while sum_fed <= second:
        stopped = Machine(machine.base)
        stopped.prompt(chat)  # its pictures are known: a stop while they are decoded has no cuts
        sum_fed = sum(stopped.ask(chat, flag=CountdownFlag(looks)).fed)
        if sum_fed in (first, second):
            seen.add((sum_fed, stopped.model.num_encoded))
        looks += 1
    # Between the tower's blocks, and between the layers after it.
    assert seen == {(first, 0), (first, 1), (second, 1), (second, 2)}


def test_I10_earlier_pictures_keep_their_own_numbers(machine: Machine, picture: PictureOf) -> None:
    shown = [picture(1, "wide"), picture(2, "wide"), picture(3, "wide")]
    chat: list[Message] = [user(shown[0], "First.")]
    kept: list[torch.Tensor] = []
    for later in (*shown[1:], None):
        answer = machine.same_as_cold(chat)
        kept += [row.clone() for row in machine.model.embeddings]
        chat.append(answer.reply)
        chat.append(user("What was the first one?") if later is None else user(later, "Next."))
    machine.same_as_cold(chat)
    keys = [image.key for image in machine.prompt(chat).images]
    held = [machine.cache.embeddings.get(key) for key in keys]
    assert len(kept) == 3
    for row, embedding in zip(kept, held, strict=True):
        assert embedding is not None
        # One family has an id before and after.
        around = (len(embedding) - len(row)) // 2
        assert torch.equal(row, embedding[around : len(embedding) - around])
    storages = {row.untyped_storage().data_ptr() for row in held if row is not None}
    assert len(storages) == 3


def test_I12_regenerate_with_pictures_equals_the_first_answer(
    machine: Machine, picture: PictureOf
) -> None:
    chat: list[Message] = [user(picture(1, "wide"), picture(2, "tall"), "Compare them.")]
    answers: list[Answer] = [machine.same_as_cold(chat)]
    chat += [answers[0].reply, user("And now?", picture(3))]
    for _ in range(3):
        answers.append(machine.ask(chat))
    same(answers[1], answers[2])
    same(answers[1], answers[3])
    assert answers[2].fed == answers[3].fed == ()
    same(machine.ask(chat[:1]), answers[0])
    assert num_common(answers[0].finished.prompt_ids, answers[1].finished.prompt_ids) > 20
