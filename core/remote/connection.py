"""HTTP to a server: one address, no redirects, bounded answers, named errors."""

from __future__ import annotations

import contextlib
import ipaddress
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx2

from core.api.errors import (
    RemoteAnswerError,
    RemoteKeyError,
    RemoteRefusedError,
    RemoteUnreachableError,
    WaymarkError,
)
from core.api.json_text import parse_json
from core.client.http import can_be_reached, http_client, why_failed

CONNECT_S = 10.0
# A body of pictures may take a minute on a slow network.
WRITE_S = 120.0
MOST_JSON_BYTES = 16 * 2**20
# The ids of a prompt of a million tokens fit into it.
MOST_EVENT_BYTES = 16 * 2**20
MOST_ERROR_BYTES = 64 * 2**10
LONGEST_SAID = 300
LONGEST_WAIT_S = 30.0
# Overloaded, restarting or loading its model.
_PASSING = (408, 425, 429, 502, 503, 504)


class TryAgainError(Exception):
    """A failure that may pass, with the error to report if it doesn't."""

    def __init__(self, error: WaymarkError, wait_s: float = 0.0) -> None:
        super().__init__(error.message)
        self.error, self.wait_s = error, wait_s


def normalised(address: str) -> str:
    """Names without a scheme get HTTPS, unless they are local. Raises RemoteUnreachableError."""
    typed = address.strip().rstrip("/").removesuffix("/chat/completions").removesuffix("/models")
    try:
        url = httpx2.URL(typed if "://" in typed else f"http://{typed}")
        if "://" not in typed and not _is_local(url.host):
            url = url.copy_with(scheme="https")
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not can_be_reached(url):
        raise RemoteUnreachableError("The address has to be like https://host or host:8000.")
    if url.userinfo or url.query or url.fragment:
        raise RemoteUnreachableError(
            "The address may not have a password or a query; a key has its own field."
        )
    return str(url).rstrip("/")


def host_of(address: str) -> str:
    return address.partition("://")[2].partition("/")[0]


def is_loopback(address: str) -> bool:
    host = httpx2.URL(address).host
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def is_readable(address: str) -> bool:
    """True if others on the network can read what is sent."""
    return not address.startswith("https:") and not is_loopback(address)


def _is_local(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_private
    return "." not in host or host.endswith((".local", ".lan", ".internal"))


class Connections:
    """Clients for one proxy setting. Raises RemoteUnreachableError."""

    def __init__(self, proxy: str = "") -> None:
        # How long an answer may take is the caller's to say.
        timeout = httpx2.Timeout(None, connect=CONNECT_S, write=WRITE_S)
        client = partial(http_client, RemoteUnreachableError, timeout=timeout)
        self._outside = client(proxy=proxy)
        self._here = client(trust_env=False)

    async def close(self) -> None:
        await self._outside.aclose()
        await self._here.aclose()

    async def json(self, url: str, key: str, body: object = None) -> Any:
        """The answer to a GET, or to a POST of `body`. Raises TryAgainError, WaymarkError."""
        method, sent = ("GET", None) if body is None else ("POST", encoded(body))
        async with self.stream(method, url, key, sent) as response:
            return await read_json(response)

    @contextlib.asynccontextmanager
    async def stream(
        self, method: str, url: str, key: str, body: bytes | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """A response with status 200. Raises TryAgainError, WaymarkError."""
        headers = {"Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {_checked(key)}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        client = self._here if is_loopback(url) else self._outside
        try:
            async with client.stream(method, url, headers=headers, content=body) as response:
                await _raise_for(response, key)
                yield response
        except httpx2.RequestError as error:
            raise _named(error) from error


def encoded(body: object) -> bytes:
    # Half a surrogate pair, from a paste, becomes a question mark.
    return json.dumps(body, ensure_ascii=False).encode(errors="replace")


async def read_json(response: httpx2.Response) -> Any:
    """Raises RemoteAnswerError."""
    try:
        return parse_json(await _read(response, MOST_JSON_BYTES))
    except ValueError as error:
        raise RemoteAnswerError("The answer is not valid JSON.") from error


async def _read(response: httpx2.Response, most: int) -> bytes:
    body = bytearray()
    # Not decoded: a few compressed bytes may stand for gigabytes.
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most:
            raise RemoteAnswerError(f"The answer is longer than {most >> 10:,} KiB.")
    return bytes(body)


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[str]]:
    """The data of server-sent events, a list for each chunk that completes some. Raises
    RemoteAnswerError for an endless event."""
    pending, data, size = bytearray(), list[bytes](), 0
    async for chunk in chunks:
        pending += chunk
        found, lines = list[str](), list[bytes]()
        # A long line isn't split again for each of its chunks.
        if b"\n" in chunk:
            *lines, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest)
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
                size += len(line)
            elif not line and data:
                found.append(b"\n".join(data).decode(errors="replace"))
                data, size = [], 0
        if len(pending) + size > MOST_EVENT_BYTES:
            raise RemoteAnswerError("One event of the answer has no end.")
        if found:
            yield found
    if data:
        yield [b"\n".join(data).decode(errors="replace")]


async def _raise_for(response: httpx2.Response, key: str) -> None:
    status = response.status_code
    if 300 <= status < 400:
        raise RemoteAnswerError(
            "The server redirects to another address. Nothing was sent there; enter that address "
            "if it is the right one."
        )
    if status == 200:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise RemoteAnswerError("The answer is compressed, which was not asked for.")
        return
    said = f"{status}{await _said(response, key)}"
    if status in (401, 403):
        advice = "Enter another key." if key else "It needs a key."
        raise RemoteKeyError(f"The server answers {said}. {advice}")
    if status in _PASSING:
        wait = response.headers.get("Retry-After", "")
        # Longer than anything here waits, if it has more digits.
        wait_s = float(wait) if wait.isdecimal() and len(wait) < 6 else 0.0
        error = RemoteUnreachableError(f"The server answers {said}.")
        raise TryAgainError(error, min(wait_s, LONGEST_WAIT_S))
    raise RemoteRefusedError(f"The server answers {said}.")


async def _said(response: httpx2.Response, key: str) -> str:
    with contextlib.suppress(ValueError, RemoteAnswerError):
        body = parse_json(await _read(response, MOST_ERROR_BYTES))
        return said_by(body, key)
    return ""


def said_by(body: object, key: str) -> str:
    """An error object's message, shortened: ": reason" or ""."""
    found = body.get("error", body) if isinstance(body, dict) else ""
    if isinstance(found, dict):
        found = found.get("message") or found.get("detail") or ""
    words = quoted(found if isinstance(found, str) else json.dumps(found), key).rstrip(".")
    return f": {words}" if words and words != '""' else ""


def quoted(text: str, key: str) -> str:
    """Shorten to one line, without the key and control characters."""
    words = " ".join(text.split())
    if key:
        words = words.replace(key, "[key]")
    return "".join(each for each in words[:LONGEST_SAID] if each.isprintable())


def _checked(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise RemoteKeyError("The key has characters that no key has.")
    return key


def _named(failure: httpx2.RequestError) -> Exception:
    reason, passes = why_failed(failure)
    error = RemoteUnreachableError(f"The request failed: {reason}.")
    return TryAgainError(error) if passes else error
