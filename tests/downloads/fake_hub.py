"""A hub on a loopback port that does to a download whatever networks and servers do.

It writes HTTP by hand: a server library would not let it lie about lengths or break off anywhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c0ffee" * 6 + "c0de"
LFS_FROM = 1_000


@dataclass(frozen=True)
class Fault:
    """`kind` happens to the next request for a file, at byte `at` of its body."""

    kind: str
    at: int = 0


@dataclass
class FakeRepository:
    files: dict[str, bytes]
    config: dict[str, Any] = field(default_factory=lambda: {"model_type": "llama"})
    more: dict[str, Any] = field(default_factory=dict)
    # Changes what is listed of a file.
    listed: Callable[[dict[str, Any]], dict[str, Any]] = lambda entry: entry


@dataclass
class Asked:
    path: str
    headers: dict[str, str]


class FakeHub:
    """Files are redirected to `cdn`, as large ones are; `faults` happen there, in order."""

    def __init__(self, repositories: dict[str, FakeRepository]) -> None:
        self.repositories = repositories
        self.faults: deque[Fault] = deque()
        # Statuses of the next answers of the hub itself, with further headers.
        self.refusals: deque[tuple[int, str]] = deque()
        self.answer: bytes | None = None
        self.asked: list[Asked] = []
        self.bytes_sent = 0
        self.pace_s = 0.0
        self._over = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FakeHub:
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._serve(self._on_hub)}"
        self.cdn = f"http://127.0.0.1:{self._serve(self._on_cdn)}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._over.set()
        for server in self._servers:
            server.close()
        talks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*talks, return_exceptions=True)
        await asyncio.sleep(0)

    def _serve(self, answer: Callable[[Asked, asyncio.StreamWriter], Any]) -> int:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, *rest = head.strip().split("\r\n")
                headers = {
                    key.lower(): value for key, _, value in (h.partition(": ") for h in rest)
                }
                asked = Asked(line.split()[1], headers)
                self.asked.append(asked)
                await answer(asked, writer)
                await writer.drain()
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        started = asyncio.start_server(talk, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(started, self._loop).result()
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _on_hub(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        url = urlsplit(asked.path)
        if self.refusals:
            status, more = self.refusals.popleft()
            return reply(writer, status, b"{}", more)
        if self.answer is not None:
            return reply(writer, 200, self.answer)
        if url.path == "/api/models":
            wanted = parse_qs(url.query)["search"][0].lower()
            found = [self._facts(name) for name in self.repositories if wanted in name.lower()]
            return reply(writer, 200, json.dumps(found).encode())
        if match := re.fullmatch(r"/api/models/(.+)/revision/main", url.path):
            if match[1] in self.repositories:
                return reply(writer, 200, json.dumps(self._listing(match[1])).encode())
        elif match := re.fullmatch(rf"/([^/]+/[^/]+)/resolve/{COMMIT}/(.+)", unquote(url.path)):
            place = f"Location: {self.cdn}{asked.path}\r\nX-Repo-Commit: {COMMIT}\r\n"
            return reply(writer, 302, b"", place)
        return reply(writer, 404, b"{}")

    async def _on_cdn(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        match = re.fullmatch(rf"/([^/]+/[^/]+)/resolve/{COMMIT}/(.+)", unquote(asked.path))
        assert match is not None
        data = self.repositories[match[1]].files[match[2]]
        fault = self.faults.popleft() if self.faults else Fault("none")
        if fault.kind.isdigit():
            return reply(writer, int(fault.kind), b"no", "Retry-After: 0\r\n")
        if fault.kind == "garbage":
            writer.write(b"\0\xffnothing like HTTP\r\n\r\n")
            return None
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        head, body = ranged(data, asked.headers, etag, fault)
        writer.write(head)
        await self._send(writer, body, fault)

    async def _send(self, writer: asyncio.StreamWriter, body: bytes, fault: Fault) -> None:
        ends = fault.at % (len(body) + 1)
        if fault.kind == "wrong" and body:
            body = flipped(body, fault.at % len(body))
        if fault.kind in ("break", "stall"):
            body = body[:ends]
        if fault.kind == "endless":
            body += bytes(2_000_000)
        for start in range(0, len(body), 16_384):
            chunk = body[start : start + 16_384]
            writer.write(chunk)
            self.bytes_sent += len(chunk)
            await writer.drain()
            if self.pace_s:
                await asyncio.sleep(self.pace_s)
        if fault.kind == "stall":
            await self._over.wait()

    def _facts(self, name: str) -> dict[str, Any]:
        repository = self.repositories[name]
        return {"id": name, "downloads": 7, "config": repository.config, "gated": False,
                "tags": ["license:apache-2.0"], **repository.more}  # fmt: skip

    def _listing(self, name: str) -> dict[str, Any]:
        repository = self.repositories[name]
        entries = [repository.listed(entry(path, data)) for path, data in repository.files.items()]
        return {**self._facts(name), "sha": COMMIT, "siblings": entries}


def entry(path: str, data: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
    found: dict[str, Any] = {"rfilename": path, "size": len(data), "blobId": blob}
    if len(data) >= LFS_FROM:
        sha256 = hashlib.sha256(data).hexdigest()
        found["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 134}
    return found


def ranged(data: bytes, headers: dict[str, str], etag: str, fault: Fault) -> tuple[bytes, bytes]:
    """The head and the body of an answer, as far as the fault lets it be right."""
    wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
    same = headers.get("if-range", etag) == etag
    if fault.kind == "changed":
        etag, same = '"another version"', "if-range" not in headers
    total = len(data) + (fault.kind == "size")
    if wanted is None or fault.kind == "whole" or not same:
        body, status, more = data, "200 OK", f"Content-Length: {total}\r\n"
    else:
        start, end = int(wanted[1]), int(wanted[2]) + 1
        body, status = data[start:end], "206 Partial Content"
        start += fault.kind == "range"
        more = f"Content-Range: bytes {start}-{end - 1}/{total}\r\nContent-Length: {len(body)}\r\n"
    if fault.kind == "endless":
        more = "Content-Length: 999999999999\r\n" if status[:3] == "206" else ""
        more += f"Content-Range: bytes {wanted[1]}-{wanted[2]}/{total}\r\n" if wanted else ""
    if fault.kind == "encoding":
        more += "Content-Encoding: gzip\r\n"
    return f"HTTP/1.1 {status}\r\nETag: {etag}\r\n{more}Connection: close\r\n\r\n".encode(), body


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def reply(writer: asyncio.StreamWriter, status: int, body: bytes, more: str = "") -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n"
    writer.write(head.encode() + body)
