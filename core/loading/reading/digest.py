"""SHA-256 in a thread of its own: digesting a file takes longer than reading it."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundDigest:
    """The SHA-256 of all that it is given, worked out while the caller goes on.

    What was given must not change before `behind` more pieces were given.
    """

    def __init__(self, behind: int) -> None:
        self._behind = behind
        self._hash = hashlib.sha256()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="digest")
        self._waiting: deque[Future[None]] = deque()

    def update(self, octets: bytes | memoryview) -> None:
        """The next piece."""
        self._waiting.append(self._thread.submit(self._hash.update, octets))
        self.wait(self._behind)

    def wait(self, left: int = 0) -> None:
        """Until all pieces but `left` are digested, and may change."""
        while len(self._waiting) > left:
            self._waiting.popleft().result()

    def digest(self) -> bytes:
        """Of all pieces so far."""
        self.wait()
        return self._hash.digest()

    def close(self) -> None:
        """End the thread. What was digested can still be asked for."""
        self._thread.shutdown()
