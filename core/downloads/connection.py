"""Requests to the hub: limits, redirects and what a refusal means.

The token goes to the hub's own host only. A redirect never leaves HTTPS.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

from core.api.errors import (
    HubAnswerError,
    HubUnreachableError,
    NoAccessError,
    NoSuchModelError,
    WaymarkError,
)
from core.api.json_text import parse_json
from core.downloads.messages import Connection

STALL_S = 30.0
CONNECT_S = 15.0
MOST_REDIRECTS = 8
# The file list of the largest repositories has a few hundred KB.
MOST_JSON_BYTES = 32 * 2**20
LONGEST_WAIT_S = 120.0
_REDIRECTS = (301, 302, 303, 307, 308)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class TryAgainError(Exception):
    """A request failed in a way that may pass; `wait_s` is what the server asks for, or 0."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.wait_s = reason, wait_s


class Hub:
    """An HTTP client for one `Connection`. Raises HubUnreachableError for a bad address."""

    def __init__(self, connection: Connection, stall_s: float = STALL_S) -> None:
        self._address = connection.hub.rstrip("/")
        self._origin = _origin(self._address)
        self._token = connection.token
        self.bytes_per_second = connection.bytes_per_second
        timeout = httpx2.Timeout(stall_s, connect=min(CONNECT_S, stall_s))
        try:
            self._client = httpx2.AsyncClient(timeout=timeout, proxy=connection.proxy or None)
        except (ValueError, httpx2.InvalidURL) as error:
            raise HubUnreachableError("The proxy's address is not valid.") from error

    async def close(self) -> None:
        await self._client.aclose()

    async def json(self, path: str, query: Mapping[str, str | list[str]]) -> object:
        """A small JSON answer. Raises TryAgainError, WaymarkError."""
        body = bytearray()
        async with self.stream(path, query=query) as response:
            self.raise_for(response)
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MOST_JSON_BYTES:
                    raise HubAnswerError("The answer is longer than any list of files.")
        try:
            return parse_json(bytes(body))
        except (ValueError, json.JSONDecodeError) as error:
            raise HubAnswerError("The answer is not valid JSON.") from error

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str | list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Yield the response after redirects. Raises TryAgainError, WaymarkError."""
        url = (
            httpx2.URL(self._address + path, params=query)
            if query
            else httpx2.URL(self._address + path)
        )
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
            raise TryAgainError(_reason(error)) from error
        raise HubAnswerError("The server redirects without end.")

    def raise_for(self, response: httpx2.Response) -> None:
        """Raise the error that a status stands for, if any."""
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
        return target


def unreachable(error: TryAgainError) -> WaymarkError:
    return HubUnreachableError(f"After several attempts: {error.reason}.")


def _origin(address: str) -> tuple[str, str, int | None]:
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL as error:
        raise HubUnreachableError("The model server's address is not valid.") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise HubUnreachableError("The model server's address has to begin with https://.")
    return url.scheme, url.host, url.port


def _reason(error: httpx2.RequestError) -> str:
    if isinstance(error, httpx2.ProxyError):
        return "the proxy refuses the connection"
    if isinstance(error, httpx2.ConnectError):
        if "CERTIFICATE" in str(error).upper():
            return "the server's certificate can't be verified"
        return "there is no connection to the server"
    return "the connection broke off"


def _retry_after(response: httpx2.Response) -> float:
    value = response.headers.get("Retry-After", "")
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        if value.isdigit():
            return min(LONGEST_WAIT_S, float(value))
        wait = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        return max(0.0, min(LONGEST_WAIT_S, wait))
    return 0.0
