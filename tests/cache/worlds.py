"""A context cache without a model: rows, states and embeddings are functions of their keys, so any
mix-up shows. Checkpoints arrive late, as from a GPU.

A `World` lives on a folder, if it is given one: it can be restarted there at any moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.api.params import CacheSettings
from core.api.positions import TokenIndex
from core.api.prompt import CutKind, Image, Prompt, Run, Segment, TextRun
from core.cache.context import Budgets, ContextCache, Usage
from core.cache.disk.store import SegmentStore
from core.cache.kv_buffer import KVBuffer
from core.cache.ledger import Held
from core.cache.node import Node, Role
from core.cache.restore import Restored
from core.cache.side import Branch, SideBranch
from core.cache.state import RecurrentState, SideStream
from core.layers.memory import FullAttentionSpec, LayerSpec, RecurrentSpec, StateTensor
from core.storage.files import Files
from core.storage.store import DiskStore
from kernels.common.memory import octets
from tests.api.prompts import END
from tests.cache.disk.worlds import check_integrity
from tests.storage.disks import PLENTY, RoomyFiles

CPU = torch.device("cpu")
HYBRID: tuple[LayerSpec, ...] = (
    RecurrentSpec((StateTensor((4,), torch.float32),)),
    FullAttentionSpec(1, 2, torch.float32),
)
PURE: tuple[LayerSpec, ...] = (FullAttentionSpec(1, 2, torch.float32),)
# Where windows slide: a pure transformer, and a hybrid whose every attention has a window.
SLIDING: tuple[LayerSpec, ...] = (*PURE, FullAttentionSpec(1, 2, torch.float32, window=7))
SLIDING_HYBRID: tuple[LayerSpec, ...] = (HYBRID[0], SLIDING[1])
ROOT = b"\1" * 32


def prompt(*parts: Segment) -> Prompt:
    return Prompt(parts, frozenset({END}), 8)


def turn(*ids: int) -> TextRun:
    return TextRun((*ids, END))


def numbers(key: bytes, count: int) -> Tensor:
    """`count` numbers that belong to one key alone."""
    return torch.tensor([float(key[index % len(key)]) + index for index in range(count)])


class Late(SideStream):
    """A stream, and the event of each copy: a copy is empty until somebody waits for it."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Tensor, Tensor]] = []

    def begin(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        arrival = Late()
        copies = [torch.full_like(tensor, float("nan")) for tensor in tensors]
        arrival.pairs = list(zip(copies, tensors, strict=True))
        return copies, arrival

    def query(self) -> bool:
        return not self.pairs

    def synchronize(self) -> None:
        while self.pairs:
            copy, tensor = self.pairs.pop()
            copy.copy_(tensor)


class World:
    """Plays requests on a cache, checking what it restores against what must be there."""

    def __init__(
        self,
        specs: tuple[LayerSpec, ...] = HYBRID,
        context_length: int = 4096,
        folder: Path | None = None,
        files: Files | None = None,
        growth: int | None = None,
    ) -> None:
        self.specs = specs
        self._context_length = context_length
        self._folder = folder
        self._growth = growth
        self.restart(files)

    def restart(self, files: Files | None = None) -> None:
        """A process that knows what is on disk, and nothing else."""
        self.store = None
        if self._folder is not None:
            blobs = DiskStore(self._folder, 0, files or RoomyFiles())
            self.store = SegmentStore(blobs, ROOT, PLENTY)
        self.cache = ContextCache(
            self.specs,
            CPU,
            self._context_length,
            ROOT,
            Budgets(disk=PLENTY),
            self.store,
            copier=Late(),
        )
        if self._growth is not None:
            self.cache.kv_buffer._step = self._growth

    def request(
        self,
        prompt: Prompt,
        settings: CacheSettings,
        stop_after: int = 10**9,
        usage: Usage | None = None,
    ) -> Restored:
        """Restore, check, then 'prefill' up to `stop_after` runs; the last state is kept on a
        stop."""
        cache = self.cache
        cache.apply(settings)
        cache.ledger.peak_host = 0
        restored = cache.restore(prompt, usage)
        self.check(prompt, restored, cache.kv_buffer)
        planned = cache.planned(prompt, settings)
        cache.kv_buffer.reserve(prompt.num_tokens)
        node = restored.node
        for index in range(restored.num_runs, len(prompt.runs)):
            if index - restored.num_runs == stop_after:
                if node.parent is not None:
                    cache.keep(node, self.state(node.key), numbers(node.key, 3))
                break
            node = self.prefill(node, prompt.runs[index], prompt.runs[index] in planned)
        self.scribble(node.end.token.value)
        cache.end_use()
        self.check_whole()
        return restored

    def check_whole(self) -> None:
        """Tree, store and ledger agree, and nothing was above the limits in force."""
        self.cache.check_integrity()
        assert self.cache.ledger.peak_host <= self.cache.ledger.limits.host
        if self.store is not None:
            check_integrity(self.store)

    def prefill(self, parent: Node, run: Run, planned: bool) -> Node:
        if isinstance(run.content, Image):
            self.picture(run.content)
        node = self.cache.add(parent, run)
        self.write(self.cache.kv_buffer, run.start.token.value, node)
        if planned:
            self.cache.keep(node, self.state(node.key), numbers(node.key, 3))
        return node

    def write(self, kv_buffer: KVBuffer, start: int, node: Node) -> None:
        """A run's rows, into each layer, which gives all that it has then."""
        rows = self.rows(node.key, node.num_tokens)
        for layer in (*kv_buffer.specs, *kv_buffer.windowed):
            given = kv_buffer.write(layer, start, rows, -rows)
            assert torch.equal(given[0][-node.num_tokens :], rows)

    def picture(self, image: Image) -> None:
        """Look an embedding up, or leave it."""
        expected = numbers(image.key, 3 * image.num_tokens).reshape(-1, 3)
        held = self.cache.embeddings.get(image.key)
        if held is None:
            self.cache.embeddings.put(image.key, expected)
        else:
            assert torch.equal(held, expected)

    def beside(self, prompt: Prompt) -> Restored:
        """A side request: restored like any other, in a KV buffer of its own."""
        branch = SideBranch(self.cache)
        try:
            restored = branch.restore(prompt)
            self.check(prompt, restored, branch.kv_buffer)
            self._read_beside(branch, prompt, restored)
        finally:
            branch.end_use()
        self.check_whole()
        return restored

    def _read_beside(self, branch: Branch, prompt: Prompt, restored: Restored) -> None:
        node = restored.node
        for run in prompt.runs[restored.num_runs :]:
            node = branch.add(node, run)
            assert not branch.keep(node, self.state(node.key), numbers(node.key, 3))
            self.write(branch.kv_buffer, run.start.token.value, node)

    def check(self, prompt: Prompt, restored: Restored, kv_buffer: KVBuffer) -> None:
        """KV buffer, state and hidden row are exactly those of the runs said to be restored."""
        if restored.num_runs == 0:
            assert all(not tensor.any() for (tensor,) in restored.state.layers.values())
            return
        assert restored.cut == prompt.runs[restored.num_runs - 1].end
        key = restored.keys[restored.num_runs - 1]
        for (tensor,) in restored.state.layers.values():
            assert torch.equal(tensor, numbers(key, 4))
        if restored.num_runs == len(prompt.runs):
            assert restored.last_hidden is not None
            assert torch.equal(restored.last_hidden, numbers(key, 3))
        end = restored.cut.token.value
        expected = torch.cat(
            [
                self.rows(restored.keys[index], prompt.runs[index].num_tokens)
                for index in range(restored.num_runs)
            ]
        )
        whole, first = kv_buffer.copy_out(0, end), max(0, end - kv_buffer.tail)
        windows = kv_buffer.copy_out(first, end, window=True)
        for rows, start in ((whole, 0), (windows, first)):
            for keys, values in rows.layers.values():
                assert torch.equal(keys, expected[start:]) and torch.equal(
                    values, -expected[start:]
                )
        assert kv_buffer.holds_window(end)

    def scribble(self, start: int) -> None:
        """Write NaN behind the prompt, as decode does; it must never be found again."""
        kv_buffer, end = self.cache.kv_buffer, min(start + 15, self._context_length)
        for token in range(start, end, 3):
            count = min(3, end - token)
            junk = torch.full((count, 1, 2), float("nan"))
            kv_buffer.advance(token, token + count)
            for layer in (*kv_buffer.specs, *kv_buffer.windowed):
                kv_buffer.write(layer, token, junk, junk)

    def rows(self, key: bytes, count: int) -> Tensor:
        return numbers(key, 2 * count).reshape(count, 1, 2)

    def state(self, key: bytes) -> RecurrentState:
        if not self.cache.recurrent:
            return RecurrentState({})
        layers = [n for n, spec in enumerate(self.specs) if isinstance(spec, RecurrentSpec)]
        return RecurrentState({layer: (numbers(key, 4),) for layer in layers})


def traces(cache: ContextCache) -> object:
    """All that a side request must leave as it was."""
    nodes = {
        node.key: (
            node.last_used,
            node.in_kv_buffer,
            id(node.rows),
            id(node.checkpoint),
            id(node.tail),
            node.tail_uses,
            node.role,
            frozenset(node.owners),
        )
        for node in cache.tree
    }
    live = [node.key for node in cache._live.nodes]
    end = cache._live.nodes[-1].end.token.value if live else 0
    whole = cache.kv_buffer.holds_window(end)
    windows = cache.kv_buffer.window(end - cache.kv_buffer.tail if whole else end, end)
    layers = {**cache.kv_buffer.view(0, end).layers, **windows.layers}
    kv_buffer = [bytes(octets(part)) for pair in layers.values() for part in pair]
    used = {held: cache.ledger.used(held) for held in Held}
    pictures = list(cache.embeddings.held())
    wanted = list(cache.disk._wanted)
    path = [node.key for node in cache._evictor.path]
    settings = cache.count, cache.ledger.limits, cache.disk.cap, cache.disk.num_bytes
    return nodes, live, kv_buffer, used, pictures, wanted, path, settings, cache.tree.clock


def roles(prompt: Prompt) -> dict[TokenIndex, Role]:
    """System first, then user and reply in turn."""
    ends = [run.end.token for run in prompt.runs if run.ends(CutKind.MESSAGE_END)]
    said: tuple[Role, ...] = ("user", "reply")
    return {end: said[(index - 1) % 2] if index else "system" for index, end in enumerate(ends)}
