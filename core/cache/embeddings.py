"""Vision embeddings by image key, so that each picture is encoded once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from core.cache.ledger import Held, Ledger
from core.cache.state import own

Fetch = Callable[[bytes], Tensor | None]
Admit = Callable[[int, int], bool]


@dataclass
class Picture:
    embedding: Tensor
    owners: set[str] = field(default_factory=set)
    last_used: int = 0


class EmbeddingCache:
    """The least recently used go once `max_bytes` is reached. `fetch` reads what is `stored` on
    disk; `admit` makes room."""

    def __init__(self, max_bytes: int, ledger: Ledger) -> None:
        self.max_bytes = max_bytes
        self._ledger = ledger
        self.fetch: Fetch = lambda key: None
        self.stored: Callable[[bytes], bool] = lambda key: False
        self.admit: Admit = lambda num_tokens, num_bytes: True
        self._held: OrderedDict[bytes, Picture] = OrderedDict()
        self._clock = 0
        self.owner = ""

    @property
    def num_bytes(self) -> int:
        return self._ledger.used(Held.EMBEDDINGS)

    def get(self, key: bytes) -> Tensor | None:
        picture = self._held.get(key)
        if picture is None:
            embedding = self.fetch(key)
            if embedding is not None:
                self.put(key, embedding)
            return embedding
        self._use(key, picture)
        return picture.embedding

    def put(self, key: bytes, embedding: Tensor) -> None:
        if key in self._held or embedding.nbytes > self.max_bytes:
            return
        while self.num_bytes + embedding.nbytes > self.max_bytes:
            self.drop(next(iter(self._held)))
        if not self.admit(embedding.shape[0], embedding.nbytes):
            return
        self._ledger.reserve(Held.EMBEDDINGS, embedding.nbytes)
        self._held[key] = picture = Picture(own(embedding))
        self._use(key, picture)

    def limit(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        while self.num_bytes > max_bytes:
            self.drop(next(iter(self._held)))

    def held(self) -> Iterator[tuple[bytes, int, int, int]]:
        """Key, bytes, tokens and age in uses of each embedding."""
        for key, picture in self._held.items():
            rows = picture.embedding
            yield key, rows.nbytes, rows.shape[0], self._clock - picture.last_used

    def has(self, key: bytes) -> bool:
        return key in self._held or self.stored(key)

    def peek(self, key: bytes) -> Picture | None:
        return self._held.get(key)

    def drop(self, key: bytes) -> None:
        self._ledger.release(Held.EMBEDDINGS, self._held.pop(key).embedding.nbytes)

    def forget(self, owner: str) -> None:
        for key, picture in list(self._held.items()):
            picture.owners.discard(owner)
            if not picture.owners:
                self.drop(key)

    def clear(self) -> None:
        for key in list(self._held):
            self.drop(key)

    def check_integrity(self) -> None:
        held = sum(picture.embedding.nbytes for picture in self._held.values())
        assert held == self.num_bytes <= self.max_bytes

    def _use(self, key: bytes, picture: Picture) -> None:
        self._clock += 1
        picture.last_used = self._clock
        picture.owners.add(self.owner)
        self._held.move_to_end(key)


class SideEmbeddings:
    """Reads what `cache` holds in memory, and adds nothing."""

    def __init__(self, cache: EmbeddingCache | None) -> None:
        self._cache = cache

    def get(self, key: bytes) -> Tensor | None:
        picture = self._cache.peek(key) if self._cache is not None else None
        return picture.embedding if picture is not None else None

    def put(self, key: bytes, embedding: Tensor) -> None:
        pass
