"""Random requests, budgets, chats, stops, side branches, damage, deaths and restarts, without a
model: whatever is restored is exactly what was put there, and nothing is ever above a limit."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from core.api import model_info
from core.api.errors import NoRoomBesideError
from core.api.params import CacheSettings
from core.api.prompt import Image, Prompt, Segment, TextRun
from core.cache import kv_buffer
from core.cache.context import Usage
from core.cache.disk.segment import SegmentKind
from core.layers.memory import LayerSpec
from tests.api.prompts import END
from tests.cache.worlds import HYBRID, PURE, SLIDING, SLIDING_HYBRID, World, roles, traces
from tests.storage.disks import PLENTY, DiedError, FailingFiles

CONTEXT = 56
# What fits beside the KV buffer: nothing, one state, a few, a few with rows, almost all, all.
BESIDE = (PLENTY, 1_500, 400, 100, 30, 0)
texts = st.lists(st.sampled_from([1, 2, END]), min_size=1, max_size=10)
# The last is longer than a window's buffer has room for.
pictures = st.sampled_from(
    [Image(b"a" * 32, 2, 2, 2), Image(b"b" * 32, 1, 3, 3), Image(b"c" * 32, 4, 4, 4)]
)
segments = st.one_of(texts.map(lambda found: TextRun(tuple(found))), pictures)
owners = st.sampled_from(["", "one", "two"])


class Worlds(RuleBasedStateMachine):
    """Three owners on one cache and one folder."""

    specs: tuple[LayerSpec, ...]

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.files = FailingFiles()
        folder = Path(self.home.name) / "cache"
        self.world = World(self.specs, CONTEXT, folder, self.files, growth=16)
        self.settings = CacheSettings(count=5, interval=1)
        self.asked: list[tuple[Segment, ...]] = [(TextRun((1,)),)]
        self.users: dict[bytes, set[str]] = {}

    def teardown(self) -> None:
        self.home.cleanup()

    @rule(
        said=st.lists(segments, min_size=1, max_size=4),
        back=st.integers(0, 3),
        keep=st.sampled_from([9, 3, 2, 1, 0]),
        stop_after=st.one_of(st.just(10**9), st.integers(0, 3)),
        owner=owners,
        turn=st.booleans(),
    )
    def ask(
        self, said: list[Segment], back: int, keep: int, stop_after: int, owner: str, turn: bool
    ) -> None:
        """Go on from the first parts of something asked before."""
        parts = (*self.asked[-1 - back % len(self.asked)][:keep], *said)
        if sum(part.num_tokens for part in parts) < CONTEXT:
            self.asked.append(parts)
            self._request(parts, stop_after, owner, turn)

    @rule(back=st.integers(0, 5), owner=owners)
    def ask_again(self, back: int, owner: str) -> None:
        self._request(self.asked[-1 - back % len(self.asked)], 10**9, owner, True)

    @rule(said=st.lists(segments, min_size=1, max_size=2), owner=owners)
    def go_on(self, said: list[Segment], owner: str) -> None:
        self.ask(said, 0, 9, 10**9, owner, True)

    @rule(back=st.integers(0, 3), owner=owners)
    def reopen(self, back: int, owner: str) -> None:
        """Quit cleanly, and go on with something known."""
        self.restart(100)
        self._request(self.asked[-1 - back % len(self.asked)], 10**9, owner, True)

    @rule(
        count=st.sampled_from([32, 5, 3, 2, 1, 0]),
        interval=st.sampled_from([1, 16]),
        beside=st.sampled_from(BESIDE),
        disk=st.sampled_from([PLENTY, 6_000, 2_000, 0]),
        restore=st.sampled_from(["always", "when_faster"]),
    )
    def change_settings(
        self,
        count: int,
        interval: int,
        beside: int,
        disk: int,
        restore: Literal["always", "when_faster"],
    ) -> None:
        self.settings = CacheSettings(
            count=count,
            interval=interval,
            host_bytes=self.world.cache.smallest.host + beside,
            disk_bytes=disk,
            restore=restore,
        )

    @rule(back=st.integers(0, 5), said=st.lists(segments, max_size=2))
    def ask_beside(self, back: int, said: list[Segment]) -> None:
        parts = (*self.asked[-1 - back % len(self.asked)], *said)
        before = traces(self.world.cache)
        with contextlib.suppress(NoRoomBesideError):
            self.world.beside(Prompt(parts, frozenset({END}), 8))
        assert traces(self.world.cache) == before

    @rule(owner=st.sampled_from(["one", "two"]))
    def forget(self, owner: str) -> None:
        tree, store = self.world.cache.tree, self.world.store
        assert store is not None
        others = {node.key for node in tree if node.checkpoint and node.owners - {owner}}
        self.world.cache.forget(owner)
        self.world.check_whole()
        assert others <= {node.key for node in tree if node.checkpoint}
        for key, users in list(self.users.items()):
            users.discard(owner)
            if not users:
                del self.users[key]
                assert tree.get(key) is None
                assert not any(store.has(kind, key) for kind in SegmentKind)
                assert not store.enough_rows(key, 1)

    @rule()
    def forget_all(self) -> None:
        self.world.cache.clear()
        self.world.check_whole()
        self.users.clear()
        assert not list(self.world.cache.tree) and self.world.cache.disk.num_bytes == 0
        assert self.world.cache.kv_bytes() == self.world.cache.kv_buffer.num_bytes
        assert self.world.cache.embeddings.num_bytes == 0

    @rule(segments=st.integers(0, 6))
    def write(self, segments: int) -> None:
        for _ in range(segments):
            if not self.world.cache.write_some():
                break
        self.world.check_whole()

    @rule(segments=st.integers(0, 12))
    def restart(self, segments: int) -> None:
        self.write(segments)
        self._restart()

    @rule(steps=st.integers(1, 25))
    def die_writing(self, steps: int) -> None:
        """The process is killed some steps into its writing."""
        self.files.die_at = self.files.num_steps + steps
        try:
            while self.world.cache.write_some():
                pass
        except DiedError:
            self._restart()
        self.files.die_at = None

    @rule(data=st.data())
    def flip(self, data: st.DataObject) -> None:
        """One bit of one file, as a failing disk would."""
        files = sorted(path for path in (Path(self.home.name) / "cache").rglob("*.safetensors"))
        if not files:
            return
        path = data.draw(st.sampled_from(files))
        raw = bytearray(path.read_bytes())
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(raw)

    @rule(prefill=st.sampled_from([1e-6, 1e-3, 1.0]), disk=st.sampled_from([None, 1e-9, 1e-3]))
    def measure(self, prefill: float, disk: float | None) -> None:
        """Speeds change what goes first and what is fetched, and nothing else."""
        pace = self.world.cache.throughput
        pace.prefill, pace.encode, pace.disk = prefill, prefill, disk

    def _restart(self) -> None:
        self.files = FailingFiles()
        self.world.restart(self.files)
        self.world.check_whole()

    def _request(self, parts: tuple[Segment, ...], stop_after: int, owner: str, turn: bool) -> None:
        prompt = Prompt(parts, frozenset({END}), 8)
        usage = Usage(owner, roles(prompt), turn)
        restored = self.world.request(prompt, self.settings, stop_after, usage)
        for key in restored.keys:
            self.users.setdefault(key, set()).add(owner)
        if self.world.cache.recurrent:
            assert self.world.cache.num_states() <= self.settings.count


EACH = {"hybrid": HYBRID, "pure": PURE, "sliding": SLIDING, "sliding_hybrid": SLIDING_HYBRID}


@pytest.mark.parametrize("specs", EACH.values(), ids=EACH)
def test_M1_S3_S4_S11_S12_M2_M5_D2_D3_random_worlds_keep_every_promise(
    specs: tuple[LayerSpec, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Windows slide in a context of tens of tokens: their buffer has 20 rows.
    for module in (model_info, kv_buffer):
        monkeypatch.setattr(module, "WINDOW_CHUNK", 4)
    monkeypatch.setattr(model_info, "WINDOW_SEGMENT", 8)
    monkeypatch.setattr(model_info, "WINDOW_SAVING", 2)

    class These(Worlds):
        pass

    These.specs = specs
    many = hypothesis_settings(
        max_examples=hypothesis_settings().max_examples // 2, stateful_step_count=30
    )
    run_state_machine_as_test(These, settings=many)
