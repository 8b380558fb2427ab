"""The cache as a whole, without a model: whatever is restored is exactly what was put there."""

from __future__ import annotations

import gc
import sqlite3
from pathlib import Path

import pytest
import torch

from core.api.params import CacheSettings
from core.api.prompt import Segment, TextRun
from core.cache.context import Usage
from core.cache.node import Node, Remembered
from core.cache.state import Checkpoint, RecurrentState
from core.layers.memory import FullAttentionSpec, LayerSpec
from tests.api.prompts import END
from tests.cache.worlds import HYBRID, PURE, World, prompt, turn
from tests.storage.disks import RoomyFiles

DEFAULT = CacheSettings(count=32, interval=1)


HEADER = TextRun((1, 2))


@pytest.mark.parametrize("specs", [HYBRID, PURE], ids=["hybrid", "pure"])
@pytest.mark.parametrize("stem", [(), (turn(3),)], ids=["under the root", "under a message"])
def test_S10_a_chats_older_stops_go_when_its_next_turn_keeps_a_cut(
    specs: tuple[LayerSpec, ...], stem: tuple[Segment, ...]
) -> None:
    world = World(specs)
    short, longer = prompt(*stem, HEADER), prompt(*stem, TextRun((1, 2, 4, END)), HEADER)
    (key,) = world.cache.tree.keys(short)[-1:]
    for owner in ("one", "two"):
        world.request(short, DEFAULT, usage=Usage(owner))
    # What is read while idle is no turn, and one chat's turn leaves the other's stop.
    world.request(longer, DEFAULT, usage=Usage("one", turn=False))
    world.request(prompt(*stem, turn(9)), DEFAULT, usage=Usage("one"))
    assert world.cache.tree.get(key) is not None
    world.request(prompt(*stem, turn(8)), DEFAULT, usage=Usage("two"))
    assert world.cache.tree.get(key) is None
    world.request(prompt(turn(77)), DEFAULT)
    assert all(node.checkpoint or not node.is_stop for node in world.cache.tree)


def test_M2_a_forgotten_chat_was_never_read_even_where_it_had_to_make_room(world: World) -> None:
    stem, one = turn(3), prompt(turn(3), turn(4), turn(5), HEADER)
    world.request(one, DEFAULT, usage=Usage("one"))
    world.request(prompt(stem, turn(6)), DEFAULT, usage=Usage("two"))
    tree = world.cache.tree
    world.cache.apply(CacheSettings(count=1, interval=1))
    keys = tree.keys(one)
    assert all(map(tree.was_read, keys)) and tree.had_checkpoint(keys[1])
    assert tree.get(keys[1]) is None
    world.cache.forget("one")
    world.check_whole()
    # The beginning is the other chat's too.
    assert list(map(tree.was_read, keys)) == [True, False, False, False]
    assert not any(map(tree.had_checkpoint, keys[1:]))
    world.cache.forget("two")
    assert not any(map(tree.was_read, keys))


def test_M2_no_run_of_a_forgotten_chat_stays_in_memory(world: World) -> None:
    secret = turn(4711)
    world.request(prompt(turn(3), secret, HEADER), DEFAULT, usage=Usage("one"))
    world.request(prompt(turn(3), secret, turn(5)), DEFAULT, usage=Usage("one"))
    world.cache.forget("one")
    gc.collect()
    runs = [each.run for each in gc.get_objects() if isinstance(each, Node)]
    assert not [run for run in runs if run is not None and 4711 in getattr(run.content, "ids", ())]


def test_what_is_remembered_grows_with_the_chats_that_share_a_beginning() -> None:
    remembered = Remembered()
    for chat in map(str, range(200)):
        for key in (b"system", b"tools", chat.encode()):
            remembered.note(key, chat)
    assert sum(len(past.owners) for past in remembered._shared) == 2 * 200
    remembered.forget("7")
    assert not remembered.knows("7") and remembered.knows("8") and b"system" in remembered
    remembered.clear()
    assert not remembered.knows("8") and b"system" not in remembered


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_S12_the_count_is_never_exceeded_and_the_newest_message_end_stays(
    world: World, count: int
) -> None:
    small = CacheSettings(count=count, interval=1)
    parts: list[Segment] = []
    for index in range(6):
        parts += [turn(10 + index), turn(20 + index)]
        made = prompt(*parts[:-1], HEADER)
        world.request(made, small)
        assert world.cache.num_states() <= count
        held = {
            cut.token.value for cut, _ in world.cache.checkpoints_on(world.cache.tree.keys(made))
        }
        assert (made.cuts[-1].token.value in held) == (count > 0)


def test_M4_using_a_prefix_refreshes_only_the_node_used(world: World) -> None:
    made = prompt(turn(3), turn(4), HEADER)
    world.request(made, DEFAULT)
    before = {node.key: node.last_used for node in world.cache.tree}
    restored = world.request(made, DEFAULT)
    after = {node.key: node.last_used for node in world.cache.tree}
    assert {key for key in after if after[key] != before[key]} == {restored.node.key}


def test_S3_a_state_of_the_wrong_kind_is_dropped_and_the_next_best_taken(world: World) -> None:
    made = prompt(turn(3), turn(4), HEADER)
    world.request(made, DEFAULT)
    node = world.cache.tree.match(world.cache.tree.keys(made))[1]
    wrong = RecurrentState({0: (torch.zeros(2, dtype=torch.float64),)})
    node.checkpoint = Checkpoint(wrong, torch.zeros(3))
    restored = world.request(prompt(turn(3), turn(4), turn(5)), DEFAULT)
    assert restored.failed and restored.cut.token.value == 2


def test_D1_a_window_of_one_token_is_restored_from_disk(tmp_path: Path) -> None:
    specs = (*PURE, FullAttentionSpec(1, 2, torch.float32, window=1))
    world = World(specs, 8_192, tmp_path)
    assert world.cache.kv_buffer.windowed
    made = prompt(turn(3), turn(4), HEADER)
    world.request(made, DEFAULT)
    while world.cache.write_some():
        pass
    world.restart()
    restored = world.request(made, DEFAULT)
    assert restored.tier == "disk" and not restored.failed


class CountingFiles(RoomyFiles):
    """Counts what is waited for."""

    num_folders = num_transactions = 0

    def sync_folder(self, folder: Path) -> None:
        self.num_folders += 1

    def commit(self, connection: sqlite3.Connection) -> None:
        self.num_transactions += 1
        super().commit(connection)


def test_D2_messages_of_a_chat_that_have_512_tokens_together_are_written_at_once(
    tmp_path: Path,
) -> None:
    files = CountingFiles()
    world = World(HYBRID, folder=tmp_path, files=files)
    # 8 tokens and less each, and the cuts of a grid of 8: 130 runs.
    made = prompt(*(turn(*range(number % 7)) for number in range(130)))
    world.request(made, DEFAULT, usage=Usage("chat"))
    files.num_folders = files.num_transactions = 0
    while world.cache.write_some():
        pass
    assert len(list(tmp_path.rglob("kv-*"))) == 130
    tokens = made.num_tokens
    assert files.num_folders == files.num_transactions == -(-tokens // 512) + 1
    world.restart()
    assert world.request(made, DEFAULT).tier == "disk"
