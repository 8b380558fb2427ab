"""The queue in front of the engine: one request at a time, clients in turn, so nobody waits for all
requests of another one."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.server.requests.refusals import Refusal

MOST_WAITING = 64
MOST_OF_ONE = 32
_LONGEST_RETRY_S = 60


class Turns:
    def __init__(self, most: int = MOST_WAITING, most_of_one: int = MOST_OF_ONE) -> None:
        self._most, self._most_of_one = most, most_of_one
        # Waiting requests by client; the client whose turn is next comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.is_busy = False
        self._mean_s = 1.0

    @property
    def num_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for `client`'s turn and hold it. Raises Refusal (429) if too many wait."""
        await self._wait(client)
        began = time.monotonic()
        try:
            yield
        finally:
            self._mean_s += (time.monotonic() - began - self._mean_s) / 4
            self._next()

    async def _wait(self, client: str) -> None:
        if not self.is_busy:
            self.is_busy = True
            return
        mine = self._waiting.get(client, ())
        if self.num_waiting >= self._most or len(mine) >= self._most_of_one:
            seconds = math.ceil(self._mean_s * (self.num_waiting + 1))
            raise Refusal(
                f"{self.num_waiting} requests wait already. Try again later.",
                status=429,
                code="queue_full",
                retry_s=min(seconds, _LONGEST_RETRY_S),
            )
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._leave(client, waiter)
            else:  # its turn came in the same moment
                self._next()
            raise

    def _leave(self, client: str, waiter: asyncio.Future[None]) -> None:
        queue = self._waiting.get(client)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._waiting[client]

    def _next(self) -> None:
        while self._waiting:
            client, queue = self._waiting.popitem(last=False)
            waiter = queue.popleft()
            if queue:
                self._waiting[client] = queue
            if not waiter.done():
                waiter.set_result(None)
                return
        self.is_busy = False
