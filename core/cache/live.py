"""The live path: which runs the slab holds, in order, and how KV moves as the path changes.

Before a request overwrites rows, whatever the tree still needs of them is copied out; before it
goes on from a node, the rows above that node are brought back, from memory or from disk. A restore
that fails drops the node that failed and what can't be restored without it, never anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.cache.ledger import Held, Ledger
from core.cache.node import Node
from core.cache.slab import KVRows, KVSlab
from core.cache.tree import PrefixTree
from core.layers.memory import LayerSpec

# From which tier a run came into the slab.
FROM_SLAB, FROM_MEMORY, FROM_DISK = range(3)


class RestoreFailedError(Exception):
    """A run's KV could not be brought back; the tree has already dropped what depended on it."""


class LivePath:
    """The nodes whose KV is a range of the slab, from the first token on without a gap.

    `make_room(num_bytes, needed)` says whether there is room for a copy outside the slab and drops
    nothing once it is no longer needed; `fetch` brings a run's rows from disk, None where there are
    none.
    """

    def __init__(
        self,
        specs: Sequence[LayerSpec],
        slab: KVSlab,
        tree: PrefixTree,
        ledger: Ledger,
        make_room: Callable[[int, Callable[[], bool]], bool],
        fetch: Callable[[Node], KVRows | None],
    ) -> None:
        self._specs = specs
        self._slab = slab
        self._tree = tree
        self._ledger = ledger
        self._make_room = make_room
        self._fetch = fetch
        self._nodes: list[Node] = []

    @property
    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def leave_for(self, target: Node | None) -> int:
        """Make the slab hold exactly the runs down to `target`; returns the slowest tier used.

        Raises RestoreFailedError; the path then ends at the last run that is whole.
        """
        wanted = target.path() if target is not None else []
        shared = _num_shared(self._nodes, wanted)
        self._copy_out(shared)
        return max((self._copy_in(node) for node in wanted[shared:]), default=FROM_SLAB)

    def append(self, node: Node) -> None:
        """A run was just prefilled behind the path's end: its KV is in the slab."""
        self._nodes.append(node)

    def leave_dropped(self) -> None:
        """End the path where the tree no longer holds it."""
        kept = 0
        while kept < len(self._nodes) and self._nodes[kept] in self._tree:
            kept += 1
        del self._nodes[kept:]

    def _copy_out(self, keep: int) -> None:
        """End the path after `keep` nodes, saving the rows of those that the tree still needs."""
        leaving = self._nodes[keep:]
        del self._nodes[keep:]
        for node in reversed(leaving):
            self._save(node)
            node.in_slab = False
            self._tree.prune(node)

    def _save(self, node: Node) -> None:
        if not self._tree.needs_rows(node):
            return
        assert node.run is not None
        num_bytes = node.num_tokens * self._slab.bytes_per_token

        def needed() -> bool:
            # Making room can drop the very checkpoints that needed this run.
            return self._tree.needs_rows(node)

        if not (self._make_room(num_bytes, needed) and needed()):
            self._lose(node)
            return
        self._ledger.reserve(Held.ROWS, num_bytes)
        try:
            rows = self._slab.copy_out(node.run.start.token.value, node.end.token.value)
        except (RuntimeError, MemoryError):
            self._ledger.release(Held.ROWS, num_bytes)
            self._lose(node)
        else:
            self._tree.hold_rows(node, rows)

    def _lose(self, node: Node) -> None:
        """No room for a run's copy: what hangs below it can't be restored without it."""
        if self._tree.needs_rows(node):
            self._tree.drop_subtree(node)

    def _copy_in(self, node: Node) -> int:
        assert node.run is not None
        tier = FROM_MEMORY if node.rows is not None else FROM_DISK
        try:
            rows = node.rows if node.rows is not None else self._fetch(node)
            if rows is None or not rows.matches(self._specs, node.num_tokens):
                raise ValueError("the run's rows are gone or of another kind")
            # What came from disk is a copy of its own until it lies in the slab.
            passing = rows.num_bytes if node.rows is None else 0
            with self._ledger.passing(Held.IN_FLIGHT, passing):
                self._slab.copy_in(node.run.start.token.value, rows)
        except (ValueError, RuntimeError, MemoryError) as error:
            self._tree.drop_subtree(node)
            raise RestoreFailedError(str(error)) from error
        self._tree.release_rows(node)
        node.in_slab = True
        self._nodes.append(node)
        return tier


def _num_shared(one: Sequence[Node], other: Sequence[Node]) -> int:
    shared = 0
    for left, right in zip(one, other, strict=False):
        if left is not right:
            break
        shared += 1
    return shared
