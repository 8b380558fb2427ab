"""The prefix tree: every run that can still be reused, keyed by everything that came before it.

A node stands for one run and everything above it: its key is a digest chained from the engine's
fingerprint over run after run, so equal keys mean equal tokens, images and numerics from the start.
Runs are reused whole or not at all and are never split. A checkpoint can be dropped alone; a run
stays exactly while a checkpoint at or below its end needs it. Keys of dropped runs are remembered,
so that "read again" can be told from "read". Where a run's KV lies is kept here and changed by
`core.cache.live`; which checkpoint goes first is decided in `core.cache.policy`.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from core.api.prompt import Prompt, Run, TextRun
from core.cache.node import Node, chained_key
from core.cache.policy import victim
from core.cache.state import Checkpoint

# 65,536 runs of 512 tokens are far more conversation than anyone reads in a sitting; about 10 MB.
REMEMBERED_KEYS = 65_536


class PrefixTree:
    """All held runs of one loaded model. `recurrent` says that going on from a run needs a state.

    Without recurrent state every held run can be gone on from and `count` bounds nothing;
    `max_free_tokens` then bounds the tokens kept outside the live path.
    """

    def __init__(self, fingerprint: bytes, recurrent: bool, max_free_tokens: int) -> None:
        self.root = Node(fingerprint, None, None)
        self.recurrent = recurrent
        self.count = 0
        self._max_free_tokens = max_free_tokens
        self._nodes: dict[bytes, Node] = {}
        self._remembered: OrderedDict[bytes, bool] = OrderedDict()  # key -> had a checkpoint
        self._clock = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def keys(self, prompt: Prompt) -> list[bytes]:
        """The chained key after each run of `prompt`."""
        keys = []
        parent = self.root.key
        for run in prompt.runs:
            parent = chained_key(parent, run)
            keys.append(parent)
        return keys

    def match(self, keys: Sequence[bytes]) -> list[Node]:
        """The held nodes along a prompt, from its first run on, as far as they go."""
        nodes: list[Node] = []
        for key in keys:
            node = self._nodes.get(key)
            if node is None:
                break
            nodes.append(node)
        return nodes

    def restorable(self, nodes: Sequence[Node], num_runs: int) -> Node | None:
        """The deepest of the matched nodes from which a prompt of `num_runs` runs can go on.

        At the prompt's very end that takes the last hidden row, which comes with a checkpoint.
        """
        for depth in range(len(nodes), 0, -1):
            node = nodes[depth - 1]
            if node.checkpoint is not None or (not self.recurrent and depth < num_runs):
                return node
        return None

    def was_read(self, key: bytes) -> bool:
        """Whether a run with this key was ever prefilled here, held or not."""
        return key in self._remembered

    def had_checkpoint(self, key: bytes) -> bool:
        return self._remembered.get(key, False)

    def common_tokens(self, parent: Node, run: Run) -> int:
        """How many leading tokens of `run` some held run below `parent` shares: where they part."""
        if not isinstance(run.content, TextRun):
            return 0
        return max(
            (
                _num_common(run.content.ids, child.run.content.ids)
                for child in parent.children.values()
                if child.run is not None and isinstance(child.run.content, TextRun)
            ),
            default=0,
        )

    def add(self, parent: Node, run: Run) -> Node:
        """The node for `run` below `parent`, new or already held, its KV lying in the slab."""
        assert not parent.is_stop, "a stop has no children"
        key = chained_key(parent.key, run)
        node = self._nodes.get(key)
        if node is None:
            node = Node(key, parent, run)
            parent.children[key] = node
            self._nodes[key] = node
        node.rows, node.in_slab = None, True
        self._remember(key, self.had_checkpoint(key))
        self.touch(node)
        return node

    def touch(self, node: Node) -> None:
        """Mark one node as used now; its ancestors stay as they were."""
        self._clock += 1
        node.last_used = self._clock

    def checkpoints(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.checkpoint is not None]

    def keep(self, node: Node, checkpoint: Checkpoint, newest_end: Node | None) -> bool:
        """Hold a checkpoint at `node`, making room by the count; False when there is none to make.

        `newest_end` is the live path's newest message end, the last to go.
        """
        if node.checkpoint is None:
            if not self._make_room(node, newest_end):
                return False
            self._count_checkpoints(node, 1)
        node.checkpoint = checkpoint
        self._remember(node.key, True)
        self.touch(node)
        return True

    def set_count(self, count: int, newest_end: Node | None) -> None:
        """Bound the states held from now on, dropping at once what is too many."""
        self.count = count
        while self.recurrent and self._num_held() > count:
            self._evict(newest_end)

    def drop_checkpoint(self, node: Node) -> None:
        """Drop one state, and the runs that nothing needs any more."""
        if node.checkpoint is None:
            return
        node.checkpoint = None
        self._count_checkpoints(node, -1)
        self.prune(node)

    def drop_subtree(self, node: Node) -> None:
        """Drop a run and everything that can't be restored without it."""
        for child in list(node.children.values()):
            self.drop_subtree(child)
        if node.checkpoint is not None:
            node.checkpoint = None
            self._count_checkpoints(node, -1)
        parent = node.parent
        self._remove(node)
        if parent is not None:
            self.prune(parent)

    def prune(self, node: Node) -> None:
        """Remove `node` and its ancestors as far as no checkpoint at or below needs them."""
        at: Node | None = node
        while at is not None and at.parent is not None and self._useless(at):
            parent = at.parent
            self._remove(at)
            at = parent

    def prune_free(self) -> None:
        """For a model without states: drop the least recently used runs past the free limit."""
        outside = [node for node in self._nodes.values() if not node.in_slab]
        free = sum(node.num_tokens for node in outside)
        leaves = [(node.last_used, node.key, node) for node in outside if not node.children]
        heapq.heapify(leaves)
        while free > self._max_free_tokens:
            *_, leaf = heapq.heappop(leaves)
            parent = leaf.parent
            free -= leaf.num_tokens
            self.drop_checkpoint(leaf)
            self._remove(leaf)
            # A run is a leaf once nothing is left below it.
            if parent is not None and not (parent.children or parent.in_slab or parent.run is None):
                heapq.heappush(leaves, (parent.last_used, parent.key, parent))

    def check_integrity(self) -> None:
        """Assert every invariant of the tree; for tests."""
        assert not self.recurrent or self._num_held() <= self.count
        for key, node in self._nodes.items():
            assert key == node.key and node.parent is not None and node.run is not None
            assert key == chained_key(node.parent.key, node.run)
            assert node.parent.children[key] is node
            assert node.parent is self.root or self._nodes[node.parent.key] is node.parent
            assert node.run.start == node.parent.end
            assert node.in_slab != (node.rows is not None), "KV is in exactly one place"
            below = sum(child.num_checkpoints for child in node.children.values())
            assert node.num_checkpoints == below + (node.checkpoint is not None)
            assert not (node.is_stop and node.children)
            assert key in self._remembered

    def _num_held(self) -> int:
        return self.root.num_checkpoints

    def _make_room(self, node: Node, newest_end: Node | None) -> bool:
        if not self.recurrent:
            return True
        if self.count == 0:
            return False
        while self._num_held() >= self.count:
            spared = newest_end is not None and newest_end.checkpoint is not None
            if self._num_held() == 1 and spared and not node.ends_message:
                return False
            self._evict(newest_end)
        return True

    def _evict(self, newest_end: Node | None) -> None:
        node = victim(self.checkpoints(), newest_end)
        assert node is not None
        self.drop_checkpoint(node)

    def _useless(self, node: Node) -> bool:
        # A run in the slab without a checkpoint may still get one below it in this very prefill;
        # `live` prunes it once the path leaves it.
        if node.children or node.num_checkpoints or node.in_slab:
            return False
        return self.recurrent

    def _count_checkpoints(self, node: Node, change: int) -> None:
        at: Node | None = node
        while at is not None:
            at.num_checkpoints += change
            at = at.parent

    def _remember(self, key: bytes, had_checkpoint: bool) -> None:
        self._remembered[key] = had_checkpoint
        self._remembered.move_to_end(key)
        if len(self._remembered) > REMEMBERED_KEYS:
            self._remembered.popitem(last=False)

    def _remove(self, node: Node) -> None:
        assert node.parent is not None and not node.children and node.checkpoint is None
        # Removing twice is harmless: a run whose copy failed is dropped before the path leaves it.
        node.parent.children.pop(node.key, None)
        self._nodes.pop(node.key, None)
        node.rows, node.in_slab = None, False


def _num_common(one: Sequence[int], other: Sequence[int]) -> int:
    common = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        common += 1
    return common
