"""Vision embeddings by image key, so that a picture is encoded once wherever it stands."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor

from core.cache.state import own


class EmbeddingCache:
    """Least recently used embeddings [tokens, hidden] go first once `max_bytes` is reached."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[bytes, Tensor] = OrderedDict()
        self.num_bytes = 0

    def get(self, key: bytes) -> Tensor | None:
        embedding = self._held.get(key)
        if embedding is not None:
            self._held.move_to_end(key)
        return embedding

    def put(self, key: bytes, embedding: Tensor) -> None:
        """Hold an embedding in a storage of its own; one larger than the cap is not held."""
        if key in self._held or embedding.nbytes > self._max_bytes:
            return
        self._held[key] = own(embedding)
        self.num_bytes += embedding.nbytes
        while self.num_bytes > self._max_bytes:
            _, dropped = self._held.popitem(last=False)
            self.num_bytes -= dropped.nbytes

    def clear(self) -> None:
        self._held.clear()
        self.num_bytes = 0
