"""Budgets that hold little: what making room must never touch, and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.api.errors import BudgetTooSmallError
from core.api.params import CacheSettings
from core.api.prompt import Image, Prompt, TextRun
from core.cache.context import Usage
from core.cache.eviction import GONE_AFTER
from core.cache.ledger import Held
from core.cache.node import Node
from core.cache.policy import PRECIOUS
from core.layers.memory import LayerSpec
from tests.cache.worlds import HYBRID, PURE, World, prompt, roles, traces, turn

CONTEXT = 64
ROW = 16  # bytes of keys and values a token
STATE = 28  # bytes of a hybrid's checkpoint
MANY = CacheSettings(count=32, interval=1)


def room_for(num_bytes: int, count: int = 32) -> CacheSettings:
    """A budget of the KV buffer and so many bytes beside it."""
    return CacheSettings(count=count, interval=1, host_bytes=CONTEXT * ROW + num_bytes)


def ask(world: World, made: Prompt, settings: CacheSettings) -> int:
    """Tokens reused."""
    return world.request(made, settings, usage=Usage("", roles(made))).cut.token.value


def test_S3_a_place_about_to_be_gone_on_from_outlives_what_hangs_below_it(tmp_path: Path) -> None:
    world = World(folder=tmp_path / "cache")
    world.request(prompt(turn(3), turn(4)), MANY)
    while world.cache.write_some():
        pass
    longer = prompt(turn(3), turn(4), turn(5))
    world.request(longer, MANY)
    tree = world.cache.tree
    for node in tree.match(tree.keys(longer))[:2]:
        tree.drop_checkpoint(node)
    world.request(prompt(turn(7)), MANY)
    # Its state comes from disk and takes the place of the only one below it.
    two = CacheSettings(count=2, interval=1)
    restored = world.request(prompt(turn(3), turn(4), turn(6)), two)
    assert restored.tier == "disk" and restored.num_runs == 2


@pytest.mark.parametrize("specs", [HYBRID, PURE], ids=["hybrid", "pure"])
@pytest.mark.parametrize("beside", [0, 10, STATE, 100])
def test_M1_the_smallest_budget_still_holds_a_whole_context(
    specs: tuple[LayerSpec, ...], beside: int
) -> None:
    world = World(specs, CONTEXT, growth=16)
    whole = prompt(turn(3), turn(4), turn(*range(10, 60)))
    world.request(prompt(turn(3), turn(4)), room_for(beside))
    world.request(whole, room_for(beside))
    assert world.cache.kv_buffer.capacity == CONTEXT
    # A budget lowered to it under a full KV buffer.
    world = World(specs, CONTEXT, growth=16)
    world.request(whole, MANY)
    world.request(prompt(turn(3), turn(4), turn(5)), room_for(beside))
    assert world.cache.ledger.room(Held.KV_BUFFER) >= 0


@pytest.mark.parametrize("specs", [HYBRID, PURE], ids=["hybrid", "pure"])
def test_M1_less_than_the_smallest_is_refused_and_changes_nothing(
    specs: tuple[LayerSpec, ...],
) -> None:
    world = World(specs, CONTEXT)
    world.request(prompt(turn(3), turn(4)), room_for(500))
    before, count = traces(world.cache), world.cache.count
    with pytest.raises(BudgetTooSmallError, match=r"1,023 bytes.*64 tokens.*1,024 bytes"):
        world.cache.apply(room_for(-1, count=1))
    assert traces(world.cache) == before and world.cache.count == count


@pytest.mark.parametrize(
    ("beside", "kept"),
    [(400, {0, 1, 2, 3, 4}), (660, {0, 1, 3, 4})],
    ids=["never room", "room for a while"],
)
def test_S10_rows_that_find_no_room_take_nothing_precious_with_them(
    beside: int, kept: set[int]
) -> None:
    world = World(HYBRID, CONTEXT)
    chat = [turn(index) for index in range(1, 6)]
    ask(world, prompt(*chat), MANY)
    # 640 bytes of rows, which nothing but the state behind them needs.
    ask(world, prompt(turn(8), Image(b"p" * 32, 5, 8, 8)), MANY)
    assert ask(world, prompt(*chat, turn(9)), room_for(beside)) == 10
    tree = world.cache.tree
    nodes = tree.match(tree.keys(prompt(*chat)))
    assert {index for index, node in enumerate(nodes) if node.checkpoint is not None} == kept


def test_S10_the_most_precious_stay_longest() -> None:
    picture = Image(b"p" * 32, 1, 2, 2)
    chat = prompt(
        turn(1),  # system
        turn(2),
        turn(3),
        turn(4),  # the user-message end before
        turn(5),
        TextRun((6,)),
        picture,  # the last image edge
        turn(7),  # the last user-message end
        turn(8),  # the newest message end
        TextRun((9,)),  # the newest stop
    )
    ends = {
        "the live path's newest message end": 8,
        "its last user-message end": 7,
        "the system prompt's end": 0,
        "the newest stop": 9,
        "the last edge of a picture, a document or a long text": 6,
        "the user-message end before": 3,
    }
    assert tuple(ends) == PRECIOUS
    for count in range(1, len(PRECIOUS) + 1):
        for by_bytes in (False, True):
            world = World(HYBRID, CONTEXT)
            ask(world, chat, MANY)
            few = room_for(count * STATE) if by_bytes else room_for(1_000, count)
            world.cache.apply(few)
            tree = world.cache.tree
            nodes = tree.match(tree.keys(chat))
            held = {index for index, node in enumerate(nodes) if node.checkpoint is not None}
            assert held == {ends[name] for name in PRECIOUS[:count]}


def test_M1_what_passes_from_disk_is_counted_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(HYBRID, CONTEXT, tmp_path / "cache")
    shown = prompt(turn(1), Image(b"p" * 32, 4, 4, 4), turn(*range(2, 9)))
    world.request(shown, MANY)
    while world.cache.write_some():
        pass
    world.restart()
    passing: list[int] = []
    reserve = world.cache.ledger.reserve

    def noted(held: Held, num_bytes: int) -> None:
        if held is Held.IN_FLIGHT:
            passing.append(num_bytes)
        reserve(held, num_bytes)

    monkeypatch.setattr(world.cache.ledger, "reserve", noted)
    assert world.request(shown, MANY).tier == "disk"
    world.picture(shown.images[0])
    # Twice each file while it is read: three runs, a state (of two alike), the picture.
    files = [path.stat().st_size for path in (tmp_path / "cache").rglob("*.safetensors")]
    assert all(2 * size in passing for size in files) and len(files) == 6


def test_M1_writing_to_disk_makes_nothing_go(tmp_path: Path) -> None:
    world = World(HYBRID, CONTEXT, tmp_path / "cache")
    # As much as it takes to hold both, and not a byte more.
    one, other = prompt(turn(*range(1, 9)), turn(9)), prompt(turn(*range(20, 28)), turn(28))
    ask(world, one, MANY)
    ask(world, other, MANY)
    ledger = world.cache.ledger
    world.cache.apply(room_for(sum(map(ledger.used, Held)) - ledger.used(Held.KV_BUFFER)))
    grown = CONTEXT * ROW - ledger.used(Held.KV_BUFFER)
    ledger.reserve(Held.SIDE, grown)
    assert ledger.room(Held.IN_FLIGHT) == 0
    before = {node.key for node in world.cache.tree.checkpoints()}
    assert len(before) > 4
    written = 0
    while world.cache.write_some():
        written += 1
    ledger.release(Held.SIDE, grown)
    world.check_whole()
    assert written == 8 and len(list((tmp_path / "cache").rglob("*.safetensors"))) == 10
    assert {node.key for node in world.cache.tree.checkpoints()} == before


def test_M1_what_has_no_room_to_be_copied_for_the_disk_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(HYBRID, CONTEXT, tmp_path / "cache")
    made = prompt(turn(1), turn(2))
    ask(world, made, room_for(200))
    with monkeypatch.context() as patched:
        # As from a device of its own, where every tensor is copied.
        patched.setattr("core.cache.tier.largest_copy", lambda tensors: 10_000)
        assert not world.cache.write_some() and not list(tmp_path.rglob("*.safetensors"))
    assert world.cache.write_some()
    while world.cache.write_some():
        pass
    world.restart()
    assert world.request(made, MANY).tier == "disk"


# A model without states keeps runs next to the live path, as many as the host budget holds.
LONG = 4096
FOUR_BESIDE = CacheSettings(host_bytes=5 * LONG * ROW)


def long_chat(salt: int, count: int) -> Prompt:
    return Prompt((TextRun((salt, *range(count - 1))),), frozenset(), 8)


def test_M7_a_checkpoint_costs_no_more_in_a_long_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at all places above each took half of the cache's time in one of 2,000 messages."""
    looks = 0
    is_stop = Node.is_stop.fget  # type: ignore[attr-defined]

    def counted(node: Node) -> bool:
        nonlocal looks
        looks += 1
        return bool(is_stop(node))

    monkeypatch.setattr(Node, "is_stop", property(counted))
    found = []
    for length in (100, 200):
        looks, world = 0, World()
        ask(world, prompt(*(turn(1 + place % 7) for place in range(length))), MANY)
        found.append(looks)
    assert found[1] < 3 * found[0]


def test_M1_long_chats_beside_the_live_path_stay_within_the_budget() -> None:
    world = World(PURE)
    for salt in range(12):
        world.request(long_chat(1_000 + salt, LONG // 2), FOUR_BESIDE)
        assert world.cache.ledger.peak_host <= 5 * LONG * ROW
    assert world.cache.ledger.used(Held.ROWS) > 3 * LONG * ROW


def test_S10_the_chat_not_used_for_longest_goes_from_its_end() -> None:
    world = World(PURE)
    for salt in range(10):
        world.request(long_chat(1_000 + salt, LONG // 2), FOUR_BESIDE)
    world.request(long_chat(5_000, 8), FOUR_BESIDE)
    tree = world.cache.tree
    reused = [
        sum(node.num_tokens for node in tree.match(tree.keys(long_chat(1_000 + salt, LONG // 2))))
        for salt in range(10)
    ]
    assert reused == sorted(reused) and reused[0] == 0 and reused[-1] == LONG // 2


@pytest.mark.parametrize("specs", [HYBRID, PURE], ids=["hybrid", "pure"])
@pytest.mark.parametrize("by", ["count", "bytes"])
def test_A2_clients_and_the_window_share_and_none_evicts_what_others_hold(
    specs: tuple[LayerSpec, ...], by: str
) -> None:
    world = World(specs, CONTEXT)
    settings = room_for(3_000, count=256) if by == "bytes" else room_for(100_000, count=12)
    settings = settings.model_copy(update={"interval": 64})
    ids = iter(range(100, 10_000))

    def chats(owner: str, number: int) -> list[Prompt]:
        made = [prompt(turn(*(next(ids) for _ in range(12)))) for _ in range(number)]
        for each in made:
            world.request(each, settings, usage=Usage(owner, roles(each)))
        return made

    def resumable(made: list[Prompt]) -> int:
        tree = world.cache.tree
        found = (tree.match(tree.keys(each)) for each in made)
        return sum(1 for nodes in found if nodes and nodes[-1].checkpoint is not None)

    # What fits is left alone, however much a client asks for.
    windows = chats("window", 2)
    chats("a_1", 40)
    assert resumable(windows) == 2
    # A newcomer gets its share of what others hold beyond theirs.
    mine = chats("b_1", 2)
    chats("a_1", 40)
    assert resumable(mine) == resumable(windows) == 2
    # Others' chats don't keep the window from its share.
    own = chats("window", 4 if by == "count" else 10)
    assert resumable(windows + own) >= 3 and resumable(mine) == 2
    world.cache.check_integrity()


@pytest.mark.parametrize("specs", [HYBRID, PURE], ids=["hybrid", "pure"])
@pytest.mark.parametrize("by", ["count", "bytes"])
def test_a_program_that_is_gone_leaves_its_share_to_the_window(
    specs: tuple[LayerSpec, ...], by: str
) -> None:
    settings = room_for(3_000, count=256) if by == "bytes" else room_for(100_000, count=12)
    settings = settings.model_copy(update={"interval": 64})

    def resumable(programs: int) -> int:
        """Of the window's latest chats, after so many programs have asked."""
        world, ids = World(specs, CONTEXT), iter(range(100, 10_000))
        made = list[Prompt]()
        owners = [f"{each}_1" for each in range(programs) for _ in range(20)]
        for owner in (*owners, *["window"] * (GONE_AFTER + 20)):
            made.append(prompt(turn(*(next(ids) for _ in range(12)))))
            world.request(made[-1], settings, usage=Usage(owner, roles(made[-1])))
        world.cache.check_integrity()
        nodes = (world.cache.tree.match(world.cache.tree.keys(each)) for each in made[-20:])
        return sum(1 for each in nodes if each and each[-1].checkpoint is not None)

    assert resumable(programs=5) == resumable(programs=0) > 1
