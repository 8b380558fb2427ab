"""The live path: which runs the slab holds, in order, and how KV moves as the path changes.

Before a request overwrites rows, whatever the tree still needs of them is copied out; before it
goes on from a node, the rows above that node are brought back. A restore that fails drops the node
that failed and what can't be restored without it, never anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.cache.node import Node
from core.cache.slab import KVSlab
from core.cache.tree import PrefixTree


class RestoreFailedError(Exception):
    """A run's KV could not be brought back; the tree has already dropped what depended on it."""


class LivePath:
    """The nodes whose KV is a range of the slab, from the first token on without a gap."""

    def __init__(self, slab: KVSlab, tree: PrefixTree) -> None:
        self._slab = slab
        self._tree = tree
        self._nodes: list[Node] = []

    @property
    def nodes(self) -> Sequence[Node]:
        return self._nodes

    @property
    def newest_message_end(self) -> Node | None:
        """The deepest node on the path that ends a message and holds a checkpoint."""
        for node in reversed(self._nodes):
            if node.ends_message and node.checkpoint is not None:
                return node
        return None

    def leave_for(self, target: Node | None) -> int:
        """Make the slab hold exactly the runs down to `target`; returns the tokens copied in.

        Raises RestoreFailedError; the path then ends at the last run that is whole.
        """
        wanted = target.path() if target is not None else []
        shared = _num_shared(self._nodes, wanted)
        self._copy_out(shared)
        return sum(self._copy_in(node) for node in wanted[shared:])

    def append(self, node: Node) -> None:
        """A run was just prefilled behind the path's end: its KV is in the slab."""
        self._nodes.append(node)

    def _copy_out(self, keep: int) -> None:
        """End the path after `keep` nodes, saving the rows of those that the tree still needs."""
        leaving = self._nodes[keep:]
        del self._nodes[keep:]
        for node in reversed(leaving):
            self._save(node)
            node.in_slab = False
            self._tree.prune(node)
        if leaving and not self._tree.recurrent:
            self._tree.prune_free()

    def _save(self, node: Node) -> None:
        if self._tree.recurrent and not node.num_checkpoints:
            return
        assert node.run is not None
        try:
            node.rows = self._slab.copy_out(node.run.start.token.value, node.end.token.value)
        except (RuntimeError, MemoryError):
            # No room for the copy: what hangs below this run can't be restored without it.
            self._tree.drop_subtree(node)

    def _copy_in(self, node: Node) -> int:
        assert node.run is not None
        start = node.run.start.token.value
        try:
            if node.rows is None:
                raise ValueError("the run's rows are gone")
            self._slab.copy_in(start, node.rows)
        except (ValueError, RuntimeError, MemoryError) as error:
            self._tree.drop_subtree(node)
            raise RestoreFailedError(str(error)) from error
        node.rows, node.in_slab = None, True
        self._nodes.append(node)
        return node.run.num_tokens


def _num_shared(one: Sequence[Node], other: Sequence[Node]) -> int:
    shared = 0
    for left, right in zip(one, other, strict=False):
        if left is not right:
            break
        shared += 1
    return shared
