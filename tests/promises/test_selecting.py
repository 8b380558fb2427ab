"""S1 to S14: what is reused after each move in a chat, by the counters of a real engine."""

from __future__ import annotations

import itertools
from typing import NoReturn

import pytest
import torch

from core.api.chat import Message
from core.api.params import CacheSettings, SamplingParams
from core.api.prompt import Image
from core.cache.kv_buffer import KVBuffer, KVRows
from tests.promises.fixtures import PictureOf
from tests.promises.machine import Answer, Machine, last_end, num_common, system, user, words
from tests.promises.reading import GRID, prompt, read, read_like_cold, text

OFF = CacheSettings(count=0, interval=1)
ONE = CacheSettings(count=1, interval=1)
Branches = tuple[list[Message], list[Message]]


def talk(machine: Machine, *texts: str) -> tuple[list[Message], list[Answer]]:
    """A chat of several turns: its messages with the last reply left out, and the answers."""
    chat: list[Message] = []
    answers: list[Answer] = []
    for said in texts:
        if answers:
            chat.append(answers[-1].reply)
        chat.append(user(said))
        answers.append(machine.same_as_cold(chat))
    return chat, answers


def test_S1_the_next_turn_evaluates_only_what_follows_the_last_message(machine: Machine) -> None:
    _, answers = talk(machine, "Who are you?", words(40), "And then?", "Fine.", words(100))
    for before, after in itertools.pairwise(answers):
        assert after.reused == last_end(before.finished.prompt_ids)
        assert after.stats.miss.reason == "unsettled"
        assert after.stats.miss.token == after.reused


def test_S1_after_settling_the_next_turn_evaluates_only_the_new_message(machine: Machine) -> None:
    chat: list[Message] = [user(words(40))]
    for said in ("And then?", words(50), "Why?"):
        before = machine.ask(chat)
        chat.append(before.reply)
        reread = len(before.ids)
        assert 0 < machine.settle(chat).tokens <= reread + 15
        chat.append(user(said))
        after = machine.same_as_cold(chat)
        ids = after.finished.prompt_ids
        # What stands before the new message is its predecessor's end of turn.
        assert after.reused == last_end(ids[: last_end(ids) - 1]) and after.stats.miss is None
        assert machine.settle([*chat[:-1]]).tokens == 0


def test_S2_a_short_first_turn_is_resumable(machine: Machine) -> None:
    _, (first, second) = talk(machine, "Hi", "More")
    assert first.stats.prompt_tokens < 20
    assert second.reused == last_end(first.finished.prompt_ids) > 0


class TestS3:
    """A failure costs what it hit, and never an answer."""

    @pytest.fixture
    def branches(self, machine: Machine) -> Branches:
        """Two chats with a common beginning; the second has taken the KV buffer over."""
        stem: list[Message] = [system("Be brief. " + words(60))]
        one, other = [*stem, user(words(60, "a"))], [*stem, user(words(60, "b"))]
        machine.ask(one)
        machine.ask(other)
        return one, other

    def test_S3_a_failed_restore_takes_the_next_best(
        self, machine: Machine, branches: Branches
    ) -> None:
        one, other = branches
        held = [node for node in machine.cache.tree if node.rows is not None]
        middle = max(held, key=lambda node: node.end).parent
        assert middle is not None
        assert middle.rows is not None
        middle.rows = KVRows({-1 - layer: pair for layer, pair in middle.rows.layers.items()})
        answer = machine.same_as_cold(one)
        assert answer.stats.miss.reason == "restore_failed"
        assert middle.run is not None and answer.reused == middle.run.start.token.value > 0
        assert machine.same_as_cold(other).evaluated == 0

    def test_S3_no_room_for_a_copy_leaves_the_rest(
        self, machine: Machine, branches: Branches, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = branches
        with monkeypatch.context() as patched:
            patched.setattr(KVBuffer, "copy_out", fail)
            machine.same_as_cold(one)
        assert machine.same_as_cold(other).reused > 0
        assert machine.same_as_cold(one).evaluated == 0

    @pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a kernel fault")])
    def test_S3_an_error_in_a_forward_leaves_what_was_read(
        self, machine: Machine, branches: Branches, error: Exception
    ) -> None:
        one, other = branches

        def fail_later(number: int) -> None:
            if number == 2:
                raise error

        more = [*one[:1], user(words(120, "c"))]
        with pytest.raises(type(error)):
            machine.ask(more, before_forward=fail_later)
        machine.cache.check_integrity()
        assert machine.same_as_cold(other).evaluated == 0
        assert machine.same_as_cold(one).evaluated == 0
        assert machine.same_as_cold(more).reused > 0

    def test_S3_a_kv_buffer_that_cannot_grow_leaves_what_was_read(
        self, machine: Machine, branches: Branches, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, other = branches
        long = [user(words(600))]
        with monkeypatch.context() as patched:
            patched.setattr(machine.cache.kv_buffer, "_make_room", fail)
            with pytest.raises(MemoryError):
                machine.ask(long)
        machine.cache.check_integrity()
        assert machine.same_as_cold(other).evaluated == 0
        machine.same_as_cold(long)


def fail(*_: object) -> NoReturn:
    raise MemoryError


def test_S4_a_restore_needs_the_whole_prefix(machine: Machine) -> None:
    given = text(4 * GRID)
    read(machine, prompt(given))
    for parting in (3 * GRID - 1, 3 * GRID, 3 * GRID + 1):
        ids = list(given.ids)
        ids[parting] = 255
        reading = read_like_cold(machine, prompt(type(given)(tuple(ids))))
        assert reading.restored.cut.token.value == parting // GRID * GRID


def test_S4_state_rows_and_positions_stand_at_one_cut(machine: Machine) -> None:
    picture = Image(b"p" * 16, 4, 6, 6)
    read(machine, prompt(text(30), picture, text(100)))
    reading = read_like_cold(machine, prompt(text(30), picture, text(100, salt=3)))
    cut = reading.restored.cut
    assert (cut.token.value, cut.position.value) == (54, 36)


def test_S5_regenerate_and_resend_evaluate_nothing(machine: Machine) -> None:
    chat, answers = talk(machine, "Hello", words(60))
    again = machine.same_as_cold(chat)
    assert again.fed == () and again.evaluated == 0 and again.stats.miss is None
    assert again.ids == answers[-1].ids
    for seed in range(3):
        hot = SamplingParams(temperature=1, max_tokens=4, seed=seed)
        assert machine.same_as_cold(chat, sampling=hot).fed == ()


def test_S5_without_its_stop_only_the_tail_is_read(machine: Machine) -> None:
    chat = [user(words(60))]
    machine.ask(chat, cache=ONE)
    again = machine.same_as_cold(chat, cache=ONE)
    assert again.reused == last_end(again.finished.prompt_ids)
    assert len(again.fed) == 1 and 0 not in again.fed


def test_S6_a_shared_system_prompt_is_reused(machine: Machine) -> None:
    rules = system("You are brief. " + words(30))
    first = machine.ask([rules, user("One")])
    second = machine.same_as_cold([rules, user("Two")])
    ids = second.finished.prompt_ids
    assert second.reused == ids.index(ids[last_end(ids) - 1]) + 1
    assert second.stats.miss is None
    other = machine.same_as_cold([system("Another voice."), user("Three")])
    assert other.reused == 0 and first.evaluated > 0


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_S7_editing_message_k_reads_from_its_start(machine: Machine, turn: int) -> None:
    chat, answers = talk(machine, *(words(30, salt) for salt in "abcd"))
    edited = [*chat[: 2 * turn], user(words(30, "z"))]
    answer = machine.same_as_cold(edited)
    # The reply before the edited message was read in the turn after it, and ends in a cut.
    ids = answers[turn].finished.prompt_ids
    assert answer.reused == (last_end(ids[: last_end(ids) - 1]) if turn else 0)


def test_S7_deleting_two_turns_leaves_nothing_of_them(machine: Machine) -> None:
    chat, answers = talk(machine, *(words(30, salt) for salt in "abcd"))
    back = machine.same_as_cold(chat[:3])
    # The chat has gone on since, so the stop is gone: what stands behind the message is read.
    assert back.reused == last_end(back.finished.prompt_ids) and back.ids == answers[1].ids
    on = machine.same_as_cold([*chat[:3], back.reply, user("Elsewhere")])
    assert on.evaluated < 40


@pytest.mark.parametrize("interval", [1, 128, 256])
def test_S8_divergence_in_a_long_text_resumes_before_it(machine: Machine, interval: int) -> None:
    settings = CacheSettings(count=32, interval=interval)
    document = words(400)
    first = machine.ask([user(document)], cache=settings)
    changed = document.replace("287 288", "287 and 288")
    second = machine.same_as_cold([user(changed)], cache=settings)
    parting = num_common(first.finished.prompt_ids, second.finished.prompt_ids)
    assert first.stats.prompt_tokens > 900 and parting > 500
    assert 0 <= parting - second.reused < max(interval, GRID) + GRID
    if second.stats.miss is not None:
        assert second.stats.miss.reason == "diverged"
        assert second.stats.miss.token == parting and second.stats.miss.message == 0


def test_S9_branches_live_side_by_side(machine: Machine) -> None:
    question = user(words(60))
    replies = [
        machine.ask(
            [question], sampling=SamplingParams(temperature=2, seed=seed, max_tokens=20)
        ).reply
        for seed in range(3)
    ]
    assert len({reply.ids for reply in replies}) == 3
    branches: list[list[Message]] = [[question, reply, user("Go on.")] for reply in replies]
    answers = [machine.same_as_cold(branch) for branch in branches]
    assert all(answer.stats.miss.reason == "unsettled" for answer in answers)
    back = machine.same_as_cold(branches[0])
    assert back.evaluated == 0 and back.stats.restored_from == "memory"
    on = machine.same_as_cold([*branches[0], back.reply, user("And on.")])
    assert on.reused == last_end(back.finished.prompt_ids)


def test_S11_evicting_one_reply_leaves_the_other_whole(machine: Machine) -> None:
    question = user(words(60))
    branches: list[list[Message]] = []
    for seed in range(2):
        hot = SamplingParams(temperature=2, seed=seed, max_tokens=20)
        reply = machine.ask([question], sampling=hot).reply
        branches.append([question, reply, user("Go on.")])
        machine.ask(branches[-1])
    stem = last_end(machine.prompt([question]).ids(0))
    for node in machine.held(branches[0]):
        if node.end.token.value > stem:
            machine.cache.tree.drop_checkpoint(node)
    machine.cache.check_integrity()
    assert machine.same_as_cold(branches[1]).evaluated == 0
    lost = machine.same_as_cold(branches[0])
    assert lost.reused == stem and lost.stats.miss.reason == "evicted"


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_S12_the_count_is_never_exceeded_by_all_chats_together(
    machine: Machine, count: int
) -> None:
    settings = CacheSettings(count=count, interval=1)
    chats: list[list[Message]] = [[user(words(40, salt))] for salt in "abc"]
    for _ in range(2):
        for chat in chats:
            answer = machine.same_as_cold(chat, cache=settings)
            assert answer.stats.checkpoints_held <= count
            chat += [answer.reply, user("More.")]


def test_S12_count_0_turns_checkpoints_off_and_says_so(machine: Machine) -> None:
    chat = [user(words(60))]
    first = machine.same_as_cold(chat, cache=OFF)
    again = machine.same_as_cold(chat, cache=OFF)
    assert first.stats.miss is None
    assert again.reused == 0 and again.stats.miss.reason == "off"
    assert again.stats.miss.token == 0 and again.stats.miss.message == 0
    assert again.stats.bytes.checkpoints == 0


def test_S12_both_settings_act_on_the_next_request(machine: Machine) -> None:
    chat = [user(words(200))]
    wide = CacheSettings(count=32, interval=256)
    tokens = [
        [held.token for held in machine.same_as_cold(chat, cache=settings).stats.checkpoints]
        for settings in (wide, OFF, CacheSettings(count=32, interval=64), ONE)
    ]
    gaps = {after - before for before, after in itertools.pairwise(tokens[2])}
    assert tokens[0][:2] == [256, 512] and tokens[1] == []
    assert max(gaps) == GRID and len(tokens[2]) > 8
    assert len(tokens[3]) == 1


def test_S13_a_checkpoint_stands_where_its_tokens_end(
    machine: Machine, picture: PictureOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYMARK_DEBUG", "integrity")
    chat: list[Message] = [
        system("Short."),
        user(words(50), picture(1, "wide"), words(50), picture(2, "tall")),
    ]
    answer = machine.same_as_cold(chat)
    fed = torch.tensor((0, *answer.fed)).cumsum(0).tolist()
    given = machine.prompt(chat)
    assert [held.token for held in answer.stats.checkpoints] == fed[1:]
    offset = 0
    for run, held in zip(given.runs, answer.stats.checkpoints, strict=True):
        if isinstance(run.content, Image):
            offset += run.num_tokens - max(run.content.rows, run.content.columns)
        assert held.position == held.token - offset
    assert offset > 0


def test_S4_a_stop_is_found_only_by_exactly_its_tokens(machine: Machine) -> None:
    picture = Image(b"r" * 16, 2, 2, 2)
    read(machine, prompt(text(70)))
    for longer in (
        prompt(text(71)),
        prompt(text(70), picture),
        prompt(text(128)),
        prompt(text(69)),
    ):
        assert read_like_cold(machine, longer).restored.cut.token.value == 64
    assert read_like_cold(machine, prompt(text(70))).restored.num_runs == 2


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 66, 127, 128, 129, 191, 192, 193])
def test_S14_prompts_around_the_grid(machine: Machine, length: int) -> None:
    read(machine, prompt(text(192)))
    reading = read_like_cold(machine, prompt(text(length)))
    assert reading.restored.cut.token.value == min(length, 192) // GRID * GRID
    assert read_like_cold(machine, prompt(text(length))).restored.last_hidden is not None


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("suffix", [1, 63, 64, 65])
def test_S14_small_counts_and_suffixes(machine: Machine, count: int, suffix: int) -> None:
    settings = CacheSettings(count=count, interval=1)
    for length in (128, 128 + suffix, 128, 127, 129):
        read_like_cold(machine, prompt(text(length)), settings)
        assert machine.cache.num_states() <= count


def test_S14_a_picture_as_the_last_thing(machine: Machine) -> None:
    picture = Image(b"q" * 16, 2, 3, 3)
    read(machine, prompt(text(10), picture))
    again = read_like_cold(machine, prompt(text(10), picture))
    assert again.restored.num_runs == 2 and again.restored.last_hidden is not None
    after = read_like_cold(machine, prompt(text(10), picture, text(1)))
    assert after.restored.cut.token.value == 16 and after.restored.cut.position.value == 13


def test_S14_chats_of_every_length_around_the_grid(machine: Machine) -> None:
    for length in range(GRID - 24, GRID + 4):
        machine.same_as_cold([user("Z" * length)])
        assert machine.same_as_cold([user("Z" * length)]).fed == ()
