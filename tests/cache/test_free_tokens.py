"""A model without states keeps runs beside the live path, as many as the host budget holds."""

from __future__ import annotations

from core.api.params import CacheSettings
from core.api.prompt import Prompt, TextRun
from core.cache.ledger import Held
from tests.cache.worlds import PURE, World

CONTEXT = 4096
ROW_BYTES = 16
# The KV buffer, and four contexts beside it.
SETTINGS = CacheSettings(host_bytes=5 * CONTEXT * ROW_BYTES)


def chat(salt: int, count: int) -> Prompt:
    return Prompt((TextRun((salt, *range(count - 1))),), frozenset(), 8)


def test_M1_long_chats_beside_the_live_path_stay_within_the_budget() -> None:
    world = World(PURE)
    for salt in range(12):
        world.request(chat(1_000 + salt, CONTEXT // 2), SETTINGS)
        assert world.cache.ledger.peak_host <= 5 * CONTEXT * ROW_BYTES
    assert world.cache.ledger.used(Held.ROWS) > 3 * CONTEXT * ROW_BYTES


def test_S10_the_chat_not_used_for_longest_goes_from_its_end() -> None:
    world = World(PURE)
    for salt in range(10):
        world.request(chat(1_000 + salt, CONTEXT // 2), SETTINGS)
    world.request(chat(5_000, 8), SETTINGS)
    tree = world.cache.tree
    reused = [
        sum(node.num_tokens for node in tree.match(tree.keys(chat(1_000 + salt, CONTEXT // 2))))
        for salt in range(10)
    ]
    assert reused == sorted(reused) and reused[0] == 0 and reused[-1] == CONTEXT // 2
