"""One file over HTTP: ranges, retries, and a second look at bytes with the wrong digest."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

import httpx2

from core.api.errors import DownloadDamagedError, HubAnswerError
from core.downloads.hub import STALL_S, Hub, TryAgainError, unreachable
from core.downloads.messages import Plan, RemoteFile
from core.downloads.parts import PartFile

# A kill loses so many bytes of a file at most, or what arrived in so many seconds.
PIECE_BYTES = 8 * 2**20
PIECE_S = 5.0
SPEED_OVER_S = 8.0
# A disk that damages what is written is not asked for ever.
MOST_CHECKS = 4
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")

Sink = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """Attempts in a row without anything new; their pauses double."""

    attempts: int = 8
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    stall_s: float = STALL_S

    def pause_s(self, failures: int) -> float:
        longest = min(self.longest_pause_s, self.first_pause_s * 2.0 ** (failures - 1))
        return longest * random.uniform(0.75, 1.0)


PATIENT = Patience()


class Meter:
    def __init__(self) -> None:
        self._recent: deque[tuple[float, int]] = deque()
        self._began = time.monotonic()

    def count(self, num_bytes: int) -> None:
        self._recent.append((time.monotonic(), num_bytes))

    def speed(self) -> float:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - SPEED_OVER_S:
            self._recent.popleft()
        span = min(SPEED_OVER_S, max(0.5, now - self._began))
        return sum(num_bytes for _, num_bytes in self._recent) / span


class StartOverError(Exception):
    """The server has another version, or knows no ranges."""


class Transfer:
    """`waiting` is why it pauses, '' while it doesn't."""

    def __init__(
        self, hub: Callable[[], Hub], plan: Plan, part: PartFile, meter: Meter, patience: Patience
    ) -> None:
        self._hub, self._part, self._meter, self._patience = hub, part, meter, patience
        self._file: RemoteFile = part.file
        name = "/".join(quote(each, safe="") for each in self._file.path.split("/"))
        self._address = f"/{plan.repository}/resolve/{plan.commit}/{name}"
        self._failures, self._best = 0, -1
        self.waiting, self.checking = "", False

    async def run(self) -> None:
        """Return when the part has the published digest. Raises WaymarkError."""
        read_again = False
        for _ in range(MOST_CHECKS):
            await self._fill()
            if await self._check():
                return
            if self._part.gap() is None:
                # Every byte is as it arrived, so some arrived wrong.
                if read_again:
                    break
                read_again = True
                if await self._read_again():
                    return
        raise DownloadDamagedError(
            f"{self._file.path} doesn't have the digest that the model server publishes, even "
            "after a second attempt. Nothing of it is used."
        )

    async def _fill(self) -> None:
        while (gap := self._part.gap()) is not None:
            try:
                await self._receive(*gap, self._part.keep)
            except TryAgainError as failure:
                await self._pause(failure, self._part.received)
            except StartOverError:
                before = self._part.received
                self._part.start_over()
                await self._pause(TryAgainError("the server began the file again"), before)

    async def _read_again(self) -> bool:
        """Receive all pieces again; True if the whole is right then."""
        changed, again, self._best = False, 0, -1

        def compare(start: int, data: bytes) -> None:
            nonlocal changed
            if not self._part.holds(start, data):
                self._part.keep(start, data)
                changed = True

        for piece in self._part.pieces:
            start = piece.start
            while start < piece.end:
                try:
                    await self._receive(start, piece.end, compare)
                    start = piece.end
                except TryAgainError as failure:
                    await self._pause(failure, again)
                except StartOverError:
                    self._part.start_over()
                    return False
            again = piece.end
            if changed and await self._check():
                return True
            changed = False
        return False

    async def _check(self) -> bool:
        self.checking = True
        try:
            return await asyncio.to_thread(self._part.check)
        finally:
            self.checking = False

    async def _pause(self, failure: TryAgainError, progress: int) -> None:
        """Raises HubUnreachableError after the last attempt."""
        if progress > self._best:
            self._best, self._failures = progress, 0
        self._failures += 1
        if self._failures > self._patience.attempts:
            raise unreachable(failure)
        self.waiting = failure.reason
        await asyncio.sleep(max(failure.wait_s, self._patience.pause_s(self._failures)))
        self.waiting = ""

    async def _receive(self, start: int, end: int, sink: Sink) -> None:
        """Pass on all bytes that arrive, also before an error or a cancellation."""
        hub, part = self._hub(), self._part
        async with hub.stream(self._address, headers=self._headers(start, end)) as response:
            self._accept(hub, response, start)
            part.note_etag(response.headers.get("ETag", ""))
            at, buffer, since = start, bytearray(), time.monotonic()
            try:
                async for chunk in response.aiter_raw():
                    buffer += chunk[: end - at - len(buffer)]
                    part.pending = len(buffer)
                    late = time.monotonic() - since >= PIECE_S
                    whole = at + len(buffer) == end
                    if late or whole or len(buffer) >= PIECE_BYTES:
                        sink(at, bytes(buffer))
                        at, since = at + len(buffer), time.monotonic()
                        buffer.clear()
                        part.pending = 0
                    if whole:
                        return
                    self._meter.count(len(chunk))
                    await hub.keep_pace(len(chunk))
            finally:
                part.pending = 0
                if buffer:
                    sink(at, bytes(buffer))
        raise TryAgainError("the connection broke off")

    def _headers(self, start: int, end: int) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity"}
        if (start, end) != (0, self._file.size):
            headers["Range"] = f"bytes={start}-{end - 1}"
            if self._part.etag:
                headers["If-Range"] = self._part.etag
        return headers

    def _accept(self, hub: Hub, response: httpx2.Response, start: int) -> None:
        status, size = response.status_code, self._file.size
        if status == 416 and start:
            raise StartOverError
        hub.raise_for(response)
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if status == 206 and found is None:
            raise HubAnswerError("The server doesn't say which part of the file it sends.")
        if status == 206 and found is not None:
            if int(found[1]) != start:
                raise HubAnswerError(
                    "The server sends another part of the file than was asked for."
                )
            offered = size if found[3] == "*" else int(found[3])
        elif status == 200:
            if start:
                raise StartOverError
            length = response.headers.get("Content-Length", "")
            offered = int(length) if length.isdigit() else size
        else:
            raise HubAnswerError(f"The server answers {status}.")
        if offered != size:
            raise HubAnswerError(
                f"{self._file.path} has {offered:,} bytes on the server, but {size:,} in its list."
            )
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise HubAnswerError(
                "The server sends the file in another encoding than was asked for."
            )
