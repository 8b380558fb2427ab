"""A server on a loopback port that answers as it is told, well or badly.

It writes HTTP by hand: a server library would not let it lie or break off anywhere.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
EVENTS = "text/event-stream"
Write = Callable[[bytes], Awaitable[None]]


@dataclass
class Answer:
    """`body` is sent in its parts, then `end` happens: "close", "hang" or "endless"."""

    body: list[bytes] = field(default_factory=list)
    status: int = 200
    kind: str = JSON
    end: str = "close"
    headers: dict[str, str] = field(default_factory=dict)
    # Announces more bytes than come.
    short: bool = False


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


def as_json(value: object, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer([json.dumps(value).encode()], status, headers=named)


def event(chunk: object) -> bytes:
    return b"data: " + (chunk if isinstance(chunk, str) else json.dumps(chunk)).encode() + b"\n\n"


def streamed(*chunks: object, done: bool = True, end: str = "close") -> Answer:
    parts = [event(chunk) for chunk in chunks] + ([b"data: [DONE]\n\n"] if done else [])
    return Answer(parts, kind=EVENTS, end=end)


def delta(text: str = "", model: str = "m", reason: str | None = None, **more: object) -> Any:
    said = {"content": text, **more}
    return {"model": model, "choices": [{"index": 0, "delta": said, "finish_reason": reason}]}


class FakeServer:
    """Answers a path with the next of its answers; the last one stays."""

    def __init__(self, certificate: ssl.SSLContext | None = None) -> None:
        self._certificate = certificate
        self.answers: dict[str, deque[Answer]] = {}
        # Answers that depend on the request.
        self.tells: dict[str, Callable[[Asked], Answer]] = {}
        self.asked: list[Asked] = []
        self.gone = 0
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FakeServer:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._on_connection, "127.0.0.1", 0, ssl=self._certificate),
            self._loop,
        ).result()
        self.port = self._server.sockets[0].getsockname()[1]
        scheme = "http" if self._certificate is None else "https"
        self.address = f"{scheme}://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def on(self, path: str, *answers: Answer) -> None:
        self.answers[path] = deque(answers)

    def chat(self, *answers: Answer) -> None:
        self.on("/v1/chat/completions", *answers)

    async def _end(self) -> None:
        self._over.set()
        self._server.close()
        talks = asyncio.all_tasks() - {asyncio.current_task()}
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            asked = await _request(reader)
            self.asked.append(asked)
            waiting = self.answers.get(asked.path)
            if (tell := self.tells.get(asked.path)) is not None:
                answer = tell(asked)
            elif waiting is None:
                answer = as_json({"error": {"message": "not found"}}, 404)
            else:
                answer = waiting.popleft() if len(waiting) > 1 else waiting[0]
            await self._send(answer, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone += 1
        finally:
            writer.close()

    async def _send(self, answer: Answer, writer: asyncio.StreamWriter) -> None:
        headers = {"Content-Type": answer.kind, "Connection": "close", **answer.headers}
        if answer.short:
            headers["Content-Length"] = "1000000"
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} Said\r\n{head}\r\n".encode())
        for part in answer.body:
            writer.write(part)
            await writer.drain()
        while answer.end == "endless":
            writer.write(answer.body[-1])
            await writer.drain()
            await asyncio.sleep(0)
        if answer.end == "hang":
            await self._over.wait()


async def _request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    length = int(headers.get("content-length", 0))
    body = await reader.readexactly(length)
    return Asked(method, path, headers, json.loads(body) if body else None)
