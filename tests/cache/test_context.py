"""The cache as a whole, without a model: whatever is restored is exactly what was put there."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.api.params import CacheSettings
from core.api.prompt import Image, Segment, TextRun
from core.cache.context import Usage
from core.cache.kv_buffer import KVRows
from core.cache.state import Checkpoint, RecurrentState
from core.layers.memory import LayerSpec
from tests.api.prompts import END
from tests.cache.worlds import HYBRID, PURE, World, prompt, turn

DEFAULT = CacheSettings(count=32, interval=1)


HEADER = TextRun((1, 2))


def test_S2_a_short_first_turn_is_resumable(world: World) -> None:
    world.request(prompt(turn(3), HEADER), DEFAULT)
    restored = world.request(prompt(turn(3), HEADER, turn(4), turn(5), HEADER), DEFAULT)
    assert restored.cut.token.value == 2 and restored.tier == "slab"


def test_S5_an_identical_resend_needs_no_forward(world: World) -> None:
    world.request(prompt(turn(3), HEADER), DEFAULT)
    restored = world.request(prompt(turn(3), HEADER), DEFAULT)
    assert restored.num_runs == 2 and restored.last_hidden is not None


def test_S4_a_checkpoint_past_the_match_is_never_used(world: World) -> None:
    world.request(prompt(turn(*range(20))), DEFAULT)
    restored = world.request(prompt(TextRun(tuple(range(16)))), DEFAULT)
    assert restored.cut.token.value == 16
    other = world.request(prompt(TextRun((*range(15), 77, 78))), DEFAULT)
    assert other.cut.token.value == 8


@pytest.mark.parametrize("length", [7, 8, 9, 15, 16, 17])
def test_S14_prompts_around_a_checkpoint(world: World, length: int) -> None:
    world.request(prompt(TextRun(tuple(range(16)))), DEFAULT)
    restored = world.request(prompt(TextRun(tuple(range(length)))), DEFAULT)
    assert restored.cut.token.value == (length // 8) * 8


def test_S14_an_image_as_the_last_thing_is_restored(world: World) -> None:
    picture = Image(b"p" * 16, 2, 3, 3)
    world.request(prompt(HEADER, picture), DEFAULT)
    restored = world.request(prompt(HEADER, picture), DEFAULT)
    assert restored.cut.token.value == 8 and restored.last_hidden is not None
    after = world.request(prompt(HEADER, picture, turn(4)), DEFAULT)
    assert after.cut.token.value == 8 and after.cut.position.value == 5


def test_S9_branches_live_side_by_side(world: World) -> None:
    stem = turn(3)
    branches = [prompt(stem, turn(10 + index), HEADER) for index in range(3)]
    for branch in branches:
        world.request(branch, DEFAULT)
    back = world.request(branches[0], DEFAULT)
    assert back.num_runs == len(branches[0].runs) and back.tier == "memory"
    assert world.request(branches[2], DEFAULT).num_runs == len(branches[2].runs)


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


def test_S11_evicting_one_branch_leaves_the_other_whole(world: World) -> None:
    one, other = prompt(turn(3), turn(4), HEADER), prompt(turn(3), turn(5), HEADER)
    world.request(one, DEFAULT)
    world.request(other, DEFAULT)
    tree = world.cache.tree
    tree.drop_checkpoint(tree.match(tree.keys(one))[-1])
    world.cache.check_integrity()
    assert world.request(other, DEFAULT).num_runs == 3
    assert world.request(one, DEFAULT).num_runs == 2


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


def test_S12_a_lower_count_acts_on_the_next_request(world: World) -> None:
    made = prompt(*(turn(index) for index in range(8)), HEADER)
    world.request(made, DEFAULT)
    assert world.cache.num_states() == 9
    world.request(made, CacheSettings(count=2, interval=1))
    assert world.cache.num_states() == 2
    world.request(made, CacheSettings(count=0, interval=1))
    assert world.cache.num_states() == 0 and world.cache.state_bytes() == 0


def test_S12_a_pure_transformer_reuses_without_checkpoints() -> None:
    world = World(PURE)
    off = CacheSettings(count=0, interval=1)
    world.request(prompt(TextRun(tuple(range(20)))), off)
    restored = world.request(prompt(TextRun((*range(16), 50, 51))), off)
    assert restored.cut.token.value == 16
    assert world.cache.num_states() == 0 and world.cache.state_bytes() == 0


def test_M4_using_a_prefix_refreshes_only_the_node_used(world: World) -> None:
    made = prompt(turn(3), turn(4), HEADER)
    world.request(made, DEFAULT)
    before = {node.key: node.last_used for node in world.cache.tree}
    restored = world.request(made, DEFAULT)
    after = {node.key: node.last_used for node in world.cache.tree}
    assert {key for key in after if after[key] != before[key]} == {restored.node.key}


def test_S3_a_failed_restore_drops_only_what_hangs_below_it(world: World) -> None:
    one, other = prompt(turn(3), turn(4), HEADER), prompt(turn(3), turn(5), HEADER)
    world.request(one, DEFAULT)
    world.request(other, DEFAULT)
    # `one` has left the KV buffer; its second run comes back in a shape that no KV buffer holds.
    node = world.cache.tree.match(world.cache.tree.keys(one))[1]
    assert node.rows is not None
    node.rows = KVRows({7: node.rows.layers[1]})
    restored = world.request(one, DEFAULT)
    assert restored.failed and restored.cut.token.value == 2
    assert world.request(other, DEFAULT).num_runs == 3
    assert world.request(one, DEFAULT).num_runs == 3


def test_S3_a_state_of_the_wrong_kind_is_dropped_and_the_next_best_taken(world: World) -> None:
    made = prompt(turn(3), turn(4), HEADER)
    world.request(made, DEFAULT)
    node = world.cache.tree.match(world.cache.tree.keys(made))[1]
    wrong = RecurrentState({0: (torch.zeros(2, dtype=torch.float64),)})
    node.checkpoint = Checkpoint(wrong, torch.zeros(3))
    restored = world.request(prompt(turn(3), turn(4), turn(5)), DEFAULT)
    assert restored.failed and restored.cut.token.value == 2


def test_S3_no_memory_for_a_copy_costs_only_what_needed_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = prompt(turn(3), turn(4), HEADER), prompt(turn(3), turn(5), HEADER)
    world.request(one, DEFAULT)

    def full(*_: int) -> KVRows:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(world.cache.kv_buffer, "copy_out", full)
        world.cache.restore(other)
    world.cache.check_integrity()
    assert world.request(other, DEFAULT).cut.token.value == 2
    assert world.request(one, DEFAULT).cut.token.value == 2


def ids() -> st.SearchStrategy[Segment]:
    texts = st.lists(st.sampled_from([1, 2, END]), min_size=1, max_size=12)
    image = st.sampled_from([Image(b"a" * 16, 2, 2, 2), Image(b"b" * 16, 1, 3, 3)])
    return st.one_of(texts.map(lambda found: TextRun(tuple(found))), image)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    requests=st.lists(
        st.tuples(
            st.lists(ids(), min_size=1, max_size=5),
            st.sampled_from([0, 1, 2, 3, 5, 32]),
            st.sampled_from([1, 16, 64]),
            st.one_of(st.just(10**9), st.integers(0, 4)),
        ),
        min_size=1,
        max_size=12,
    ),
    pure=st.booleans(),
)
def test_S4_whatever_is_restored_is_what_was_put_there(
    requests: list[tuple[list[Segment], int, int, int]], pure: bool
) -> None:
    world = World(PURE if pure else HYBRID)
    for parts, count, interval, stop_after in requests:
        world.request(prompt(*parts), CacheSettings(count=count, interval=interval), stop_after)
        assert world.cache.num_states() <= count
