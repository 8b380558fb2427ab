"""The prefix tree of reusable runs. Keys are digests chained from the engine's fingerprint, so
equal keys mean equal tokens, images and numerics. A run stays while a checkpoint at or below its
end needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from core.api.prompt import Prompt, Run, TextRun
from core.cache.kv_buffer import KVRows
from core.cache.ledger import Held, Ledger
from core.cache.node import Node, Remembered, chained_key
from core.cache.state import Checkpoint


class PrefixTree:
    """If `recurrent`, resuming from a run needs a checkpoint, unless it is `in_window`: nothing
    that it needs has left the KV buffer. A checkpoint also needs the `tail` of tokens before it in
    sliding windows, whose rows neighbouring ones share."""

    def __init__(
        self,
        fingerprint: bytes,
        recurrent: bool,
        ledger: Ledger,
        tail: int,
        in_window: Callable[[Node], bool] | None,
    ) -> None:
        self.root = Node(fingerprint, None, None)
        self.recurrent, self.in_window = recurrent, in_window
        self._tail = tail
        self._ledger = ledger
        self._nodes: dict[bytes, Node] = {}
        self._checkpoints: dict[Node, None] = {}
        self._remembered = Remembered()
        self.clock = 0
        # Where a request is about to go on from: making room leaves it and all above it whole.
        self.pinned: Node | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: Node) -> bool:
        return self._nodes.get(node.key) is node

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def get(self, key: bytes) -> Node | None:
        return self._nodes.get(key)

    def clear(self) -> None:
        for child in list(self.root.children.values()):
            self.drop_subtree(child)
        self._remembered.clear()

    def keys(self, prompt: Prompt) -> list[bytes]:
        keys = []
        parent = self.root.key
        for run in prompt.runs:
            parent = chained_key(parent, run)
            keys.append(parent)
        return keys

    def match(self, keys: Sequence[bytes]) -> list[Node]:
        nodes: list[Node] = []
        for key in keys:
            node = self._nodes.get(key)
            if node is None:
                break
            nodes.append(node)
        return nodes

    def restorable(self, nodes: Sequence[Node], num_runs: int) -> Node | None:
        """The deepest node from which a prompt of `num_runs` runs can resume; its end needs a
        hidden row."""
        for depth in range(len(nodes), 0, -1):
            node = nodes[depth - 1]
            if node.checkpoint is not None or (depth < num_runs and self._whole(node)):
                return node
        return None

    def _whole(self, node: Node) -> bool:
        return not self.recurrent or (self.in_window is not None and self.in_window(node))

    def knows(self, owner: str) -> bool:
        return self._remembered.knows(owner)

    def was_read(self, key: bytes) -> bool:
        return key in self._remembered

    def had_checkpoint(self, key: bytes) -> bool:
        return self._remembered.past(key).had_checkpoint

    def common_tokens(self, parent: Node, run: Run) -> int:
        if not isinstance(run.content, TextRun):
            return 0
        return max(
            (
                num_common(run.content.ids, child.run.content.ids)
                for child in parent.children.values()
                if child.run is not None and isinstance(child.run.content, TextRun)
            ),
            default=0,
        )

    def add(self, parent: Node, run: Run) -> Node:
        node = self.place(parent, run)
        self.release_rows(node)
        node.in_kv_buffer = True
        self.touch(node)
        return node

    def place(self, parent: Node, run: Run) -> Node:
        key = chained_key(parent.key, run)
        node = self._nodes.get(key)
        if node is None:
            node = Node(key, parent, run)
            parent.children[key] = node
            self._nodes[key] = node
        self._remembered.note(key)
        return node

    def own(self, node: Node, owner: str) -> None:
        node.owners.add(owner)
        self._remembered.note(node.key, owner)

    def needs_rows(self, node: Node) -> bool:
        """True if losing a run's KV would lose a place to resume from."""
        alone = not self.recurrent and (not node.is_stop or bool(node.children))
        return node in self and (alone or node.num_checkpoints > 0)

    def hold_rows(self, node: Node, rows: KVRows) -> None:
        node.rows, node.in_kv_buffer = rows, False

    def release_rows(self, node: Node) -> None:
        if node.rows is not None:
            self._ledger.release(Held.ROWS, node.rows.num_bytes)
            node.rows = None

    def touch(self, node: Node) -> None:
        self.clock += 1
        node.last_used = self.clock

    def checkpoints(self) -> list[Node]:
        return list(self._checkpoints)

    @property
    def num_checkpoints(self) -> int:
        return len(self._checkpoints)

    def window(self, node: Node) -> list[tuple[Node, int]]:
        """The runs whose rows windows read at a node's end, upwards, with numbers of last rows."""
        counts = self.window_rows(at.num_tokens for at in node.upwards())
        return list(zip(node.upwards(), counts, strict=False))

    def window_rows(self, lengths: Iterable[int]) -> list[int]:
        counts, left = [], self._tail
        for length in lengths:
            if left <= 0:
                break
            counts.append(min(left, length))
            left -= length
        return counts

    def lacking(self, node: Node) -> list[tuple[Node, int]]:
        """Parts of `window` of which no other checkpoint holds enough rows."""
        return [
            (at, count)
            for at, count in self.window(node)
            if at.tail is None or at.tail.num_tokens < count
        ]

    def tails(self, node: Node) -> list[KVRows]:
        if node.checkpoint is None:
            return []
        parts = [at.tail.last(count) for at, count in self.window(node) if at.tail is not None]
        assert sum(part.num_tokens for part in parts) == min(self._tail, node.end.token.value)
        return parts

    def hold(self, node: Node, checkpoint: Checkpoint, tails: Sequence[KVRows | None] = ()) -> None:
        """`tails` are parts of the checkpoint's window, with those that are `lacking`."""
        if node.checkpoint is None:
            lacking = {at for at, _ in self.lacking(node)}
            for (at, _), tail in zip(self.window(node), tails, strict=True):
                at.tail_uses += 1
                if at in lacking:
                    assert tail is not None
                    self._release_tail(at)
                    self._ledger.reserve(Held.STATES, tail.num_bytes)
                    at.tail = tail
            self._ledger.reserve(Held.STATES, checkpoint.held_bytes)
            self._count_checkpoints(node, 1)
            node.checkpoint = checkpoint
            self._checkpoints[node] = None
        self._remembered.note(node.key, had_checkpoint=True)
        self.touch(node)

    def drop_checkpoint(self, node: Node) -> None:
        if node.checkpoint is not None:
            self._release_checkpoint(node)
            self.prune(node)

    def drop_leaf(self, node: Node) -> None:
        self._release_checkpoint(node)
        self._remove(node)

    def drop_subtree(self, node: Node) -> None:
        # A list rather than recursion: a long chat is a path of more runs than Python has frames.
        below = [node]
        for found in below:
            below.extend(found.children.values())
        for found in reversed(below):
            self.drop_leaf(found)
        if node.parent is not None:
            self.prune(node.parent)

    def prune(self, node: Node) -> None:
        at: Node | None = node
        while at is not None and at.parent is not None and self._useless(at):
            parent = at.parent
            self._remove(at)
            at = parent

    def forget(self, owner: str) -> None:
        """Drop what only `owner` used, and the record that it was read."""
        for node in self._nodes.values():
            node.owners.discard(owner)
        for node in [node for node in self._nodes.values() if not node.owners]:
            if node in self:
                self.drop_subtree(node)
        self._remembered.forget(owner)

    def check_integrity(self) -> None:
        rows = [node.rows for node in self if node.rows is not None]
        assert self._ledger.used(Held.ROWS) == sum(held.num_bytes for held in rows)
        states = [node.checkpoint for node in self if node.checkpoint is not None]
        assert len(states) == self.num_checkpoints == self.root.num_checkpoints
        tails = [node.tail for node in self if node.tail is not None]
        held_bytes = sum(held.held_bytes for held in states) + sum(rows.num_bytes for rows in tails)
        assert self._ledger.used(Held.STATES) == held_bytes
        uses = Counter(at for node in self.checkpoints() for at, _ in self.window(node))
        for key, node in self._nodes.items():
            assert key == node.key and node.parent is not None and node.run is not None
            assert key == chained_key(node.parent.key, node.run)
            assert node.parent.children[key] is node
            assert node.parent is self.root or self._nodes[node.parent.key] is node.parent
            assert node.run.start == node.parent.end
            assert node.in_kv_buffer != (node.rows is not None), "KV is in exactly one place"
            below = sum(child.num_checkpoints for child in node.children.values())
            assert node.num_checkpoints == below + (node.checkpoint is not None)
            assert node.owners and node.owners <= self._remembered.past(key).owners
            assert node.tail_uses == uses[node] and (node.tail is None) == (node.tail_uses == 0)
        for node in self.checkpoints():
            self.tails(node)

    def _release_checkpoint(self, node: Node) -> None:
        if node.checkpoint is not None:
            self._ledger.release(Held.STATES, node.checkpoint.held_bytes)
            node.checkpoint = None
            del self._checkpoints[node]
            self._count_checkpoints(node, -1)
            for at, _ in self.window(node):
                at.tail_uses -= 1
                if not at.tail_uses:
                    self._release_tail(at)

    def _release_tail(self, node: Node) -> None:
        if node.tail is not None:
            self._ledger.release(Held.STATES, node.tail.num_bytes)
            node.tail = None

    def _useless(self, node: Node) -> bool:
        # A run in the KV buffer without a checkpoint may get one below it in this very prefill;
        # `live` prunes it once the path leaves it.
        if node.children or node.num_checkpoints or node.in_kv_buffer or node is self.pinned:
            return False
        return self.recurrent or node.is_stop

    def _count_checkpoints(self, node: Node, change: int) -> None:
        at: Node | None = node
        while at is not None:
            at.num_checkpoints += change
            at = at.parent

    def _remove(self, node: Node) -> None:
        assert node.parent is not None and not node.children and node.checkpoint is None
        # Removing twice is harmless: a run whose copy failed is dropped before the path leaves it.
        if node in self:
            del node.parent.children[node.key], self._nodes[node.key]
        self.release_rows(node)
        node.in_kv_buffer = False


def num_common(one: Sequence[object], other: Sequence[object]) -> int:
    common = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        common += 1
    return common
