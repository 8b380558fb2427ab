"""Making room when the count or the bytes are short. Runs in the KV buffer stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from core.api.commands import tenant_of
from core.api.prompt import Image
from core.cache.embeddings import EmbeddingCache
from core.cache.ledger import Held, Ledger
from core.cache.node import Node, last_edge
from core.cache.policy import PRECIOUS, Throughput, Worth, victim
from core.cache.state import Checkpoint
from core.cache.tree import PrefixTree

GONE_AFTER = 100
_MOST_PRESENT = 256
# A node, an embedding by its key, or what is to be let in by its own worth.
Candidate = tuple[Node | bytes | Worth, Worth]


@dataclass(eq=False)
class Evictor:
    """Keeps states within `count` and bytes within the limits. `path`, the active sequence, decides
    what is precious; `stored` says if a checkpoint is on disk."""

    tree: PrefixTree
    embeddings: EmbeddingCache
    ledger: Ledger
    throughput: Throughput
    stored: Callable[[Node], bool]
    # A token's in layers with sliding windows.
    tail_bytes: int = 0
    count: int = 0
    path: list[Node] = field(default_factory=list)
    # Requests of the window's until a program that asks no more counts as gone.
    _present: dict[str, int] = field(default_factory=dict)
    # Where this request last dropped older stops, of all places above too.
    _stops_dropped: bytes = b""

    def begin(self, owner: str) -> None:
        self._stops_dropped = b""
        if tenant := tenant_of(owner):
            self._present.pop(tenant, None)
            self._present[tenant] = GONE_AFTER
            while len(self._present) > _MOST_PRESENT:
                del self._present[next(iter(self._present))]
        elif owner:
            self._present = {each: left - 1 for each, left in self._present.items() if left > 1}

    @property
    def is_off(self) -> bool:
        return self.tree.recurrent and self.tree.in_window is None and self.count == 0

    def admit(self, node: Node, checkpoint: Checkpoint) -> bool:
        """False if everything held is worth more."""
        if self.is_off:
            return False
        while self._too_many(1):
            if not self._evict(by_bytes=False, newcomer=node):
                return False
        while self.ledger.room(Held.STATES) < (num_bytes := self._added(node, checkpoint)):
            if not self._evict(by_bytes=True, newcomer=node, num_bytes=num_bytes):
                return False
        return True

    def admit_picture(self, num_tokens: int, num_bytes: int) -> bool:
        newcomer = Worth(None, self.throughput.read_seconds(0, num_tokens), num_bytes, age=0)
        while self.ledger.room(Held.EMBEDDINGS) < num_bytes:
            if not self._evict(by_bytes=True, newcomer=newcomer):
                return False
        return True

    def make_room(
        self, held: Held, num_bytes: int, needed: Callable[[], bool] = lambda: True
    ) -> bool:
        """Make room at any cost while the bytes are `needed`; False if there is none."""
        if self.ledger.on_device(held):
            # Evictable items are in host memory: dropping them would not help.
            return self.ledger.room(held) >= num_bytes
        if self.ledger.most_room() < num_bytes:
            return False
        while self.ledger.room(held) < num_bytes:
            if not (needed() and self._evict(by_bytes=True)):
                return False
        return True

    def fit(self) -> None:
        while self._too_many(0):
            self._evict(by_bytes=False)
        fits = self.make_room(Held.STATES, 0) and self.make_room(Held.KV_BUFFER, 0)
        assert fits, "a budget holds the whole KV buffer"

    def drop_older_stops(self, node: Node) -> None:
        below, above = node, node.parent
        while above is not None and below.key != self._stops_dropped:
            for child in list(above.children.values()):
                # Below a stop are other replies to the same prompt, which may be continued.
                if child.is_stop and (child is below or not above.is_stop):
                    self._drop_for_owner(child)
            below, above = above, above.parent
        self._stops_dropped = node.key

    def drop_older_pauses(self, node: Node) -> None:
        """A continued reply needs no place where it paused before."""
        path = node.path()
        for above, pause in pairwise(path[:-1]):
            if above.is_stop and pause.is_stop:
                for child in list(pause.children.values()):
                    # The reply's end as later turns would have shown it.
                    if not (child.children or child is node):
                        self._drop_for_owner(child)
                self._drop_for_owner(pause)

    def _drop_for_owner(self, node: Node) -> None:
        """Keeps a node that another chat with the same beginning may need."""
        if node.owners == {self.embeddings.owner}:
            self.tree.drop_checkpoint(node)
        elif not node.children:
            node.owners.discard(self.embeddings.owner)

    def _added(self, node: Node, checkpoint: Checkpoint) -> int:
        rows = sum(count for _, count in self.tree.lacking(node))
        return checkpoint.held_bytes + rows * self.tail_bytes

    def _too_many(self, coming: int) -> bool:
        return self.tree.recurrent and self.tree.num_checkpoints + coming > self.count

    def _evict(
        self, by_bytes: bool, newcomer: Node | Worth | None = None, num_bytes: int = 0
    ) -> bool:
        """False if nothing can go, or nothing is worth less than `newcomer`."""
        node = newcomer if isinstance(newcomer, Node) else None
        ranks = ranked(self.path, self.tree.checkpoints(), node)
        candidates: list[Candidate] = list(self._nodes(ranks))
        if by_bytes:
            candidates += self._pictures()
        if isinstance(newcomer, Worth):
            candidates.append((newcomer, newcomer))
        elif newcomer is not None:
            candidates.append((newcomer, self._worth(newcomer, ranks, num_bytes)))
        chosen = victim(self._fair(candidates, by_bytes, anything=newcomer is None), by_bytes)
        if chosen is None or chosen is newcomer:
            return False
        self._drop(chosen)
        return True

    def _fair(self, candidates: list[Candidate], by_bytes: bool, anything: bool) -> list[Candidate]:
        """Keep what the present tenant may evict: its own, that of programs that are gone, and that
        of tenants above the mean that stay above it. With `anything`, all if nothing is left."""
        sized = [
            (self._tenants(thing), worth.num_bytes if by_bytes else 1)
            for thing, worth in candidates
        ]
        held = Counter[str]()
        for tenants, size in sized:
            held.update(dict.fromkeys(tenants, size))
        if len(held) < 2:
            return candidates
        own, mean = tenant_of(self.embeddings.owner), held.total() / len(held)
        allowed = [
            candidate
            for candidate, (tenants, size) in zip(candidates, sized, strict=True)
            if all(
                each == own
                or (each and each not in self._present)
                or (held[each] > mean and held[each] - size >= held[own])
                for each in tenants
            )
        ]
        return candidates if anything and not allowed else allowed

    def _tenants(self, thing: Node | bytes | Worth) -> set[str]:
        if isinstance(thing, Node):
            owners = thing.owners
        else:
            picture = self.embeddings.peek(thing) if isinstance(thing, bytes) else None
            owners = picture.owners if picture is not None else {self.embeddings.owner}
        return set(map(tenant_of, owners))

    def _drop(self, chosen: Node | bytes | Worth) -> None:
        if isinstance(chosen, bytes):
            self.embeddings.drop(chosen)
        elif isinstance(chosen, Node) and self._is_loose(chosen):
            self.tree.drop_leaf(chosen)
        elif isinstance(chosen, Node):
            self.tree.drop_checkpoint(chosen)

    def _nodes(self, ranks: dict[Node, int]) -> Iterator[Candidate]:
        """Evictable on its own: any checkpoint; without recurrent states, a branch's last run."""
        pin = self.tree.pinned
        pinned = set(pin.upwards()) if pin is not None else set()
        for node in self.tree.checkpoints() if self.tree.recurrent else self.tree:
            alone = node.checkpoint is not None and node is not pin
            if alone or (self._is_loose(node) and node not in pinned):
                yield node, self._worth(node, ranks, self._frees(node))

    def _is_loose(self, node: Node) -> bool:
        return not (self.tree.recurrent or node.children or node.in_kv_buffer)

    def _worth(self, node: Node, ranks: dict[Node, int], num_bytes: int) -> Worth:
        seconds = self.throughput.read_seconds(*_tokens_to_read(node))
        if self.stored(node):
            seconds = min(seconds, self.throughput.fetch_seconds(num_bytes))
        return Worth(ranks.get(node), seconds, num_bytes, self.tree.clock - node.last_used)

    def _frees(self, node: Node) -> int:
        """Bytes of a checkpoint and of runs that only it needs."""
        checkpoint = node.checkpoint.held_bytes if node.checkpoint is not None else 0
        if not self.tree.recurrent:
            return checkpoint + (_row_bytes(node) if self._is_loose(node) else 0)
        needs = int(node.checkpoint is not None)
        freed = takewhile(lambda at: at.num_checkpoints <= needs, node.upwards())
        tails = (at.tail for at, _ in self.tree.window(node) if needs and at.tail_uses == 1)
        windows = sum(tail.num_bytes for tail in tails if tail is not None)
        return checkpoint + windows + sum(map(_row_bytes, freed))

    def _pictures(self) -> Iterator[Candidate]:
        for key, num_bytes, tokens, age in self.embeddings.held():
            seconds = self.throughput.read_seconds(0, tokens)
            yield key, Worth(None, seconds, num_bytes, age)


def ranked(path: Sequence[Node], held: Sequence[Node], newcomer: Node | None) -> dict[Node, int]:
    """The places in PRECIOUS of checkpoints, `newcomer` included."""
    on_path = [node for node in path if node.checkpoint is not None or node is newcomer]
    users = [node for node in on_path if node.role == "user"]
    stops = [node for node in (*held, *([newcomer] if newcomer else [])) if node.is_stop]
    named = (
        [node for node in on_path if node.ends_message][-1:],
        users[-1:],
        [node for node in on_path if node.role == "system"][-1:],
        sorted(stops, key=lambda node: node.last_used)[-1:],
        last_edge(on_path),
        users[-2:-1],
    )
    assert len(named) == len(PRECIOUS)
    ranks: dict[Node, int] = {}
    for rank, nodes in enumerate(named):
        for node in nodes:
            ranks.setdefault(node, rank)
    return ranks


def _row_bytes(node: Node) -> int:
    return node.rows.num_bytes if node.rows is not None else 0


def _tokens_to_read(node: Node) -> tuple[int, int]:
    text = pictures = 0
    for at in node.upwards():
        # An edge in a long text is spare: the message's end keeps its worth.
        if at is not node and at.checkpoint is not None and at.role != "edge":
            break
        if at.run is not None and isinstance(at.run.content, Image):
            pictures += at.num_tokens
        else:
            text += at.num_tokens
    return text, pictures
