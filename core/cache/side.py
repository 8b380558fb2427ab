"""A side request (a title, a summary): has its own KV buffer, evicts nothing, keeps nothing."""

from __future__ import annotations

from torch import Tensor

from core.api.errors import NoRoomBesideError
from core.api.params import CacheSettings
from core.api.prompt import Prompt, Run
from core.api.stats import Tier
from core.cache.context import ContextCache, Usage
from core.cache.embeddings import SideEmbeddings
from core.cache.kv_buffer import KVBuffer
from core.cache.ledger import Held
from core.cache.node import Node, chained_key
from core.cache.restore import Restored
from core.cache.state import RecurrentState

# The share of the budget that a side request may take of what is free.
QUOTA = 0.25


class Branch:
    """Runs outside the tree, with a KV buffer of their own."""

    def __init__(self, kv_buffer: KVBuffer) -> None:
        self.kv_buffer = kv_buffer

    def planned(self, prompt: Prompt, settings: CacheSettings) -> frozenset[Run]:
        return frozenset()

    def add(self, parent: Node, run: Run) -> Node:
        return Node(chained_key(parent.key, run), parent, run)

    def keep(self, node: Node, state: RecurrentState, last_hidden: Tensor) -> bool:
        return False


class SideBranch(Branch):
    def __init__(self, cache: ContextCache) -> None:
        self._cache = cache
        limits, ledger = cache.ledger.limits, cache.ledger
        budget = limits.device if ledger.on_device(Held.SIDE) else limits.host
        quota = max(0, min(int(budget * QUOTA), ledger.room(Held.SIDE)))
        self.context_length = min(cache.context_length, cache.kv_buffer.tokens_within(quota))
        self._num_bytes = cache.kv_buffer.bytes_of(self.context_length)
        self.embeddings = SideEmbeddings(cache.embeddings)
        super().__init__(cache.kv_buffer.beside(self.context_length))
        ledger.reserve(Held.SIDE, self._num_bytes)

    def restore(self, prompt: Prompt, usage: Usage | None = None) -> Restored:
        """Raises NoRoomBesideError past the quota."""
        if prompt.num_tokens >= self.context_length:
            raise NoRoomBesideError(
                f"It takes {prompt.num_tokens:,} tokens beside the chat, and the memory budget has "
                f"room for {self.context_length:,}. Allow more memory, or ask about less."
            )
        tree, kv_buffer = self._cache.tree, self._cache.kv_buffer
        keys = tree.keys(prompt)
        node = tree.restorable(tree.match(keys), len(keys))
        if node is None:
            return self._cache.restorer.start(keys)
        path = node.path()
        for at in path:
            assert at.run is not None
            start, end = at.run.start.token.value, at.end.token.value
            self.kv_buffer.copy_in(
                start, at.rows if at.rows is not None else kv_buffer.view(start, end)
            )
        end = node.end.token.value
        live = kv_buffer.window(max(0, end - kv_buffer.tail), end)
        self.kv_buffer.put_window(end, tree.tails(node) or [live])
        tier: Tier = "memory" if any(at.rows is not None for at in path) else "slab"
        return self._cache.restorer.at(node, node.checkpoint, tier, keys)

    def end_use(self) -> None:
        self._cache.ledger.release(Held.SIDE, self._num_bytes)
