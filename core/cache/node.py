"""One run in the prefix tree, its key, and the memory of dropped runs."""

from __future__ import annotations

import array
import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from core.api.prompt import EDGES, ORIGIN, Cut, CutKind, Run, TextRun
from core.cache.kv_buffer import KVRows
from core.cache.state import Checkpoint

# An "edge" is one of the last grid cuts in a user's message, whose end is edited most.
Role = Literal["system", "user", "reply", "pause", "edge"]
# 65,536 runs of 512 tokens are far more than anyone reads in a sitting; about 10 MB.
REMEMBERED_KEYS = 65_536


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """`rows` is KV outside the buffer, `role` whose message ends with the run, `owners` the chats
    that used it. `tail` has the run's last rows in sliding windows, needed by `tail_uses`
    checkpoints."""

    key: bytes
    parent: Node | None
    run: Run | None
    end: Cut = field(init=False)
    children: dict[bytes, Node] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    num_checkpoints: int = 0  # at this node and below
    rows: KVRows | None = None
    in_kv_buffer: bool = False
    tail: KVRows | None = None
    tail_uses: int = 0
    last_used: int = 0
    role: Role | None = None
    owners: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.end = self.run.end if self.run is not None else ORIGIN

    @property
    def is_stop(self) -> bool:
        """True at a prompt's end that is no cut of its text."""
        return self.run is not None and self.run.is_stop

    @property
    def num_tokens(self) -> int:
        return self.run.num_tokens if self.run is not None else 0

    def ends(self, kind: CutKind) -> bool:
        return self.run is not None and self.run.ends(kind)

    @property
    def ends_message(self) -> bool:
        return self.ends(CutKind.MESSAGE_END)

    def upwards(self) -> Iterator[Node]:
        node: Node | None = self
        while node is not None and node.parent is not None:
            yield node
            node = node.parent

    def path(self) -> list[Node]:
        return list(self.upwards())[::-1]


def last_edge(nodes: Sequence[Node]) -> list[Node]:
    """Of the last two edges in a text the first, which also serves edits before the second."""
    edges = [node for node in nodes if node.role == "edge" or node.ends(EDGES)][-2:]
    both = len(edges) == 2 and edges[1].parent is edges[0]
    if both and all(node.role == "edge" for node in edges):
        return edges[:1]
    return edges[-1:]


def chained_key(parent: bytes, run: Run) -> bytes:
    """256 bits."""
    digest = hashlib.blake2b(parent, digest_size=32)
    content = run.content
    if isinstance(content, TextRun):
        # A prompt's tail that isn't a cut must not be found as the run it may once become.
        digest.update(b"kept" if content.back else b"stop" if run.is_stop else b"text")
        digest.update(array.array("I", content.ids).tobytes())
    else:
        kind = b"line" if content.in_line else b"image"
        digest.update(kind + content.rows.to_bytes(4) + content.columns.to_bytes(4))
        digest.update(content.num_positions.to_bytes(4) + content.key)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Past:
    owners: frozenset[str] = frozenset()
    had_checkpoint: bool = False


class Remembered:
    """The newest keys of prefilled runs, evicted ones too. A key could reveal what was said, so it
    goes with the last chat that read it."""

    def __init__(self) -> None:
        self._runs: OrderedDict[bytes, Past] = OrderedDict()
        # Each past, which a chat's runs have in common, and how many runs have it.
        self._shared: dict[Past, tuple[Past, int]] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._runs

    def past(self, key: bytes) -> Past:
        return self._runs.get(key, Past())

    def knows(self, owner: str) -> bool:
        return any(owner in past.owners for past in self._shared)

    def note(self, key: bytes, owner: str | None = None, had_checkpoint: bool = False) -> None:
        past = self.past(key)
        if owner is not None and owner not in past.owners:
            past = replace(past, owners=past.owners | {owner})
        if had_checkpoint and not past.had_checkpoint:
            past = replace(past, had_checkpoint=True)
        self._put(key, past)
        if len(self._runs) > REMEMBERED_KEYS:
            self._drop(next(iter(self._runs)))

    def forget(self, owner: str) -> None:
        for key, past in list(self._runs.items()):
            left = replace(past, owners=past.owners - {owner})
            if left.owners:
                self._put(key, left)
            else:
                self._drop(key)

    def _put(self, key: bytes, past: Past) -> None:
        past, uses = self._shared.get(past, (past, 0))
        self._shared[past] = past, uses + 1
        self._drop(key)
        self._runs[key] = past

    def _drop(self, key: bytes) -> None:
        if (past := self._runs.pop(key, None)) is not None:
            _, uses = self._shared.pop(past)
            if uses > 1:
                self._shared[past] = past, uses - 1

    def clear(self) -> None:
        self._runs.clear()
        self._shared.clear()
