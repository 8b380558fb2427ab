"""The prediction of what a request reads is exact and changes nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from core.api.params import CacheSettings
from core.api.prompt import Image, Prompt, Segment, TextRun
from core.cache.context import Usage
from core.cache.policy import Throughput
from core.layers.memory import LayerSpec
from tests.api.prompts import END
from tests.cache.worlds import HYBRID, PURE, World, roles, traces

CASES = 200
PICTURES = (Image(b"a" * 32, 2, 2, 2), Image(b"b" * 32, 1, 3, 3))
# Two, so that requests often share a beginning.
SYSTEMS = (TextRun((7, END)), TextRun((7, 8, 9, END)))


def some_parts(chance: random.Random, before: list[tuple[Segment, ...]]) -> tuple[Segment, ...]:
    """A new chat, or another end of an earlier one."""
    parts: list[Segment] = [chance.choice(SYSTEMS)]
    if before and chance.random() < 0.8:
        earlier = chance.choice(before)
        parts = list(earlier[: chance.randint(1, len(earlier))])
    for _ in range(chance.randint(0, 3)):
        ids = tuple(chance.choices((1, 2, 3), k=chance.randint(1, 30)))
        parts += [chance.choice(PICTURES)] if chance.random() < 0.2 else [TextRun((*ids, END))]
    return tuple(parts)


@pytest.mark.parametrize("specs", [HYBRID, PURE], ids=["hybrid", "pure"])
def test_W2_predicted_tokens_are_those_that_the_request_reads(
    specs: tuple[LayerSpec, ...], tmp_path: Path
) -> None:
    chance = random.Random(37)
    world = World(specs, 1024, tmp_path / "cache")
    before: list[tuple[Segment, ...]] = []
    seen = {"nothing": 0, "some": 0, "all": 0, "pictures": 0, "disk": 0}
    for _case in range(CASES):
        parts = some_parts(chance, before)
        before = [*before[-5:], parts]
        prompt = Prompt(parts, frozenset({END}), 8)
        settings = CacheSettings(
            count=chance.choice((0, 6, 6, 6, 32)),
            interval=chance.choice((1, 16)),
            restore=chance.choice(("always", "when_faster")),
        )
        world.cache.apply(settings)
        trail = traces(world.cache)
        foreseen = world.cache.foresee(prompt, settings)
        assert traces(world.cache) == trail
        restored = world.request(prompt, settings, usage=Usage("one", roles(prompt)))
        read = prompt.num_tokens - restored.cut.token.value
        assert foreseen.tokens == read
        world.cache.throughput.note_prefill(read, read * 1e-6)
        seen["nothing" if not read else "all" if read == prompt.num_tokens else "some"] += 1
        seen["disk"] += restored.tier == "disk"
        seen["pictures"] += foreseen.encoded > 0
        if chance.random() < 0.15:
            for _ in range(chance.randint(0, 40)):
                world.cache.write_some()
            world.restart()
    assert min(seen.values()) > 1, seen


def test_without_a_measurement_no_seconds_are_said() -> None:
    world = World()
    prompt = Prompt((TextRun((1, 2, END)),), frozenset({END}), 8)
    assert world.cache.foresee(prompt, CacheSettings()).seconds is None
    world.request(prompt, CacheSettings())
    # Nothing is read, which takes no time on any machine.
    assert world.cache.foresee(prompt, CacheSettings()) == (0, 0, 0.0)


def test_seconds_follow_from_tokens_and_measured_speeds() -> None:
    speeds = Throughput()
    speeds.note_prefill(100, 0.5)
    assert speeds.request_seconds(200, 0, 0) == pytest.approx(1.0)
    # A fixed part, and one that grows with the tokens.
    speeds = Throughput(encode=0.01, disk=1e-6)
    for tokens in (50, 400, 20, 1_000, 50):
        speeds.note_prefill(tokens, 0.2 + 0.001 * tokens)
    assert speeds.request_seconds(300, 0, 0) == pytest.approx(0.5)
    assert speeds.request_seconds(300, 64, 500_000) == pytest.approx(0.5 + 0.64 + 0.5)
    assert speeds.request_seconds(0, 0, 500_000) == pytest.approx(0.5)


def test_a_machine_that_became_slower_is_followed_within_a_few_requests() -> None:
    speeds = Throughput()
    for seconds in [0.001] * 20 + [0.01] * 20:
        speeds.note_prefill(100, 100 * seconds)
    predicted = speeds.request_seconds(100, 0, 0)
    assert predicted is not None and 0.8 < predicted < 1.01


def test_measurements_in_disorder_never_give_a_negative_time() -> None:
    chance = random.Random(1)
    speeds = Throughput()
    for _ in range(500):
        speeds.note_prefill(chance.randint(1, 4_000), chance.random() * 3)
        for tokens in (1, 30, 100_000):
            seconds = speeds.request_seconds(tokens, 0, 0)
            assert seconds is not None and seconds >= 0
