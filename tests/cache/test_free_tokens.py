"""A model without states keeps runs beside the live path, and no more of them than it may."""

from __future__ import annotations

from core.api.params import CacheSettings
from core.api.prompt import Prompt, TextRun
from core.cache.context import FREE_CONTEXTS
from tests.cache.worlds import PURE, World

SETTINGS = CacheSettings()
CONTEXT = 4096


def chat(salt: int, count: int) -> Prompt:
    return Prompt((TextRun((salt, *range(count - 1))),), frozenset(), 8)


def free_tokens(world: World) -> int:
    outside = (node.run for node in world.cache.tree if not node.in_slab)
    return sum(run.num_tokens for run in outside if run is not None)


def test_long_chats_beside_the_live_path_stay_within_the_limit() -> None:
    world = World.new(PURE)
    for salt in range(12):
        world.request(chat(1_000 + salt, CONTEXT // 2), SETTINGS)
        assert free_tokens(world) <= FREE_CONTEXTS * CONTEXT
    assert free_tokens(world) > (FREE_CONTEXTS - 1) * CONTEXT


def test_the_chat_not_used_for_longest_goes_from_its_end() -> None:
    world = World.new(PURE)
    for salt in range(10):
        world.request(chat(1_000 + salt, CONTEXT // 2), SETTINGS)
    world.request(chat(5_000, 8), SETTINGS)
    reused = [
        sum(node.run.num_tokens for node in tree.match(tree.keys(asked)) if node.run is not None)
        for tree in [world.cache.tree]
        for asked in (chat(1_000 + salt, CONTEXT // 2) for salt in range(10))
    ]
    assert reused == sorted(reused) and reused[0] == 0 and reused[-1] == CONTEXT // 2
