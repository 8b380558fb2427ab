"""The hub's files, and its metadata, of which only what is needed and valid is kept.

The token goes to the hub's own host only. A redirect never leaves HTTPS.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
from pydantic import ValidationError

from core.api.errors import (
    HubAnswerError,
    HubUnreachableError,
    NoAccessError,
    NoSuchModelError,
    WaymarkError,
)
from core.api.json_text import parse_json
from core.client.http import can_be_reached, http_client, why_failed
from core.downloads.choices import runs
from core.downloads.messages import Connection, RemoteFile, Repository
from core.downloads.names import checked_repository, is_repository

STALL_S = 30.0
CONNECT_S = 15.0
MOST_REDIRECTS = 8
# The file list of the largest repositories has a few hundred KB.
MOST_JSON_BYTES = 32 * 2**20
LONGEST_WAIT_S = 120.0
_REDIRECTS = (301, 302, 303, 307, 308)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
FOUND_AT_ONCE = 100
MOST_FILES = 20_000
LONGEST_SEARCH = 200

# Formats of other programs, as repositories are tagged.
_OTHERS = frozenset({"mlx", "bitsandbytes", "openvino", "onnx", "peft", "exl2", "exl3"})
_EXPANDED = ["config", "downloads", "gated", "gguf", "safetensors", "tags"]
_LICENCE = re.compile(r"[A-Za-z0-9.+_ -]{1,80}")
_SHA256, _SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")


class TryAgainError(Exception):
    """A failure that may pass; `wait_s` is what the server asks for."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.wait_s = reason, wait_s


class Hub:
    """Raises WaymarkError."""

    def __init__(self, connection: Connection, stall_s: float = STALL_S) -> None:
        self._address = connection.hub.rstrip("/")
        self._origin = _origin(self._address)
        self._token = connection.token
        if not self._token.isascii() or not self._token.isprintable():
            raise NoAccessError("The access token has characters that no token has.")
        self._bytes_per_second = connection.bytes_per_second
        # When all bytes that arrived would have, at the limit.
        self._due = 0.0
        timeout = httpx2.Timeout(stall_s, connect=min(CONNECT_S, stall_s))
        self._client = http_client(HubUnreachableError, proxy=connection.proxy, timeout=timeout)

    async def close(self) -> None:
        await self._client.aclose()

    async def keep_pace(self, num_bytes: int) -> None:
        """Wait if these bytes came faster than the limit of all downloads."""
        if self._bytes_per_second:
            now = time.monotonic()
            self._due = max(now, self._due) + num_bytes / self._bytes_per_second
            await asyncio.sleep(self._due - now)

    async def json(self, path: str, query: Mapping[str, str | list[str]]) -> object:
        """Raises TryAgainError, WaymarkError."""
        body = bytearray()
        async with self.stream(path, query=query) as response:
            self.raise_for(response)
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MOST_JSON_BYTES:
                    raise HubAnswerError("The answer is longer than any list of files.")
        try:
            return parse_json(bytes(body))
        except ValueError as error:
            raise HubAnswerError("The answer is not valid JSON.") from error

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str | list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Follows redirects. Raises TryAgainError, WaymarkError."""
        url = httpx2.URL(self._address + path, params=query)
        try:
            for _ in range(MOST_REDIRECTS):
                sent = {**(headers or {}), **self._authorization(url)}
                async with self._client.stream("GET", url, headers=sent) as response:
                    if response.status_code not in _REDIRECTS:
                        yield response
                        return
                    url = self._redirected(url, response)
        except httpx2.TimeoutException as error:
            raise TryAgainError("the server has sent nothing for a while") from error
        except httpx2.InvalidURL as error:
            raise HubAnswerError("A redirect leads to an address that is not valid.") from error
        except httpx2.RequestError as error:
            raise TryAgainError(why_failed(error)[0]) from error
        except RuntimeError as error:
            if not self._client.is_closed:
                raise
            raise TryAgainError("the connection's settings have changed") from error
        raise HubAnswerError("The server redirects without end.")

    def raise_for(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status < 300:
            return
        # Another host's refusal concerns a link that has expired, not the model.
        elsewhere = _origin(str(response.url)) != self._origin
        if status in (408, 425, 429) or status >= 500 or elsewhere:
            raise TryAgainError(f"the server answers {status}", _retry_after(response))
        if status == 401 and not self._token:
            raise NoAccessError(
                "The model is private, gated or doesn't exist. Accept its licence on its page in a "
                "browser if there is one, and enter an access token."
            )
        if status in (401, 403):
            raise NoAccessError(
                "The access token may not read this model. Accept its licence on its page in a "
                "browser, or enter another token."
            )
        if status in (404, 410):
            raise NoSuchModelError("The model server doesn't have it, or has it no longer.")
        raise HubAnswerError(f"The server answers {status}.")

    def _authorization(self, url: httpx2.URL) -> dict[str, str]:
        private = url.scheme == "https" or url.host in _LOOPBACK
        if self._token and private and _origin(str(url)) == self._origin:
            return {"Authorization": f"Bearer {self._token}"}
        return {}

    def _redirected(self, url: httpx2.URL, response: httpx2.Response) -> httpx2.URL:
        target = url.join(response.headers.get("Location", ""))
        if target.scheme not in ("http", "https") or (
            url.scheme == "https" and target.scheme != "https"
        ):
            raise HubAnswerError("The server redirects to an address that is not encrypted.")
        if not can_be_reached(target):
            raise HubAnswerError("A redirect leads to an address that is not valid.")
        return target


def unreachable(error: TryAgainError) -> WaymarkError:
    return HubUnreachableError(f"After several attempts: {error.reason}.")


def _origin(address: str) -> tuple[str, str, int | None]:
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL as error:
        raise HubUnreachableError("The model server's address is not valid.") from error
    if url.scheme not in ("http", "https") or not can_be_reached(url):
        raise HubUnreachableError("The model server's address has to be like https://host.")
    return url.scheme, url.host, url.port


def _retry_after(response: httpx2.Response) -> float:
    value = response.headers.get("Retry-After", "")
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        if value.isdigit():
            return min(LONGEST_WAIT_S, float(value))
        wait = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        return max(0.0, min(LONGEST_WAIT_S, wait))
    return 0.0


async def search(hub: Hub, text: str) -> tuple[Repository, ...]:
    """The most downloaded first. Raises as `Hub.json`."""
    query: dict[str, str | list[str]] = {
        "search": text.strip()[:LONGEST_SEARCH],
        "sort": "downloads",
        "direction": "-1",
        "limit": str(FOUND_AT_ONCE),
        "expand[]": _EXPANDED,
    }
    answer = await hub.json("/api/models", query)
    if not isinstance(answer, list):
        raise HubAnswerError("The answer should be a list of models.")
    readable = (each for each in answer[:FOUND_AT_ONCE] if not _is_for_others(each))
    found = (_repository(each) for each in readable)
    return tuple(each for each in found if each is not None and runs(each.family))


async def look(hub: Hub, name: str) -> Repository:
    """Raises as `Hub.json`."""
    address = f"/api/models/{checked_repository(name)}/revision/main"
    answer = await hub.json(address, {"blobs": "true"})
    fields = _object(answer)
    found, commit = _repository({**fields, "id": name}), fields.get("sha")
    if found is None or not isinstance(commit, str) or not _SHA1.fullmatch(commit):
        raise HubAnswerError("The answer doesn't describe a model.")
    files = fields.get("siblings")
    entries = map(_object, files[:MOST_FILES]) if isinstance(files, list) else ()
    listed = tuple(each for each in map(_file, entries) if each is not None)
    return found.model_copy(update={"commit": commit, "files": listed})


def _is_for_others(answer: object) -> bool:
    tags = answer.get("tags") if isinstance(answer, dict) else None
    return isinstance(tags, list) and any(tag in _OTHERS for tag in tags if isinstance(tag, str))


def _repository(answer: object) -> Repository | None:
    if not isinstance(answer, dict):
        return None
    name = answer.get("id")
    if not isinstance(name, str) or not is_repository(name):
        return None
    config, gguf = _object(answer.get("config")), _object(answer.get("gguf"))
    parameters = gguf.get("total") or _object(answer.get("safetensors")).get("total")
    try:
        return Repository(
            name=name,
            family=_text(gguf.get("architecture")) or _text(config.get("model_type")),
            parameters=_count(parameters),
            downloads=_count(answer.get("downloads")),
            gated=bool(answer.get("gated")),
            licence=_licence(answer),
        )
    except ValidationError:
        return None


def _file(entry: Mapping[str, Any]) -> RemoteFile | None:
    path, lfs = entry.get("rfilename"), _object(entry.get("lfs"))
    size = lfs.get("size", entry.get("size"))
    sha256, blob = _text(lfs.get("sha256")), _text(entry.get("blobId"))
    if not isinstance(path, str) or not isinstance(size, int) or not 0 <= size < 2**63:
        return None
    if _SHA256.fullmatch(sha256):
        return RemoteFile(path=path, size=size, sha256=sha256)
    # The blob of a large file is its pointer.
    if _SHA1.fullmatch(blob) and not lfs:
        return RemoteFile(path=path, size=size, git_blob=blob)
    return None


def _licence(answer: Mapping[str, Any]) -> str:
    tags = answer.get("tags")
    named = (tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    found = (tag.removeprefix("license:") for tag in named if tag.startswith("license:"))
    licence = next(found, "") or _text(_object(answer.get("cardData")).get("license"))
    return licence if _LICENCE.fullmatch(licence) else ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**63 else 0
