"""HTTP without cookies, and why it failed."""

from __future__ import annotations

from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

from core.api.errors import WaymarkError

_NO_COOKIES = DefaultCookiePolicy(allowed_domains=[])


def http_client(
    unreachable: type[WaymarkError], *, proxy: str = "", **options: Any
) -> httpx2.AsyncClient:
    """An empty `proxy` is the system's. Raises `unreachable`."""
    try:
        if proxy and not can_be_reached(httpx2.URL(proxy)):
            raise ValueError("no host, or no such port")
        cookies = CookieJar(_NO_COOKIES)
        return httpx2.AsyncClient(proxy=proxy or None, cookies=cookies, **options)
    except (ValueError, httpx2.InvalidURL) as error:
        raise unreachable("The proxy's address is not valid.") from error
    except ImportError as error:
        # The system's may be one, too.
        raise unreachable("Waymark can't use SOCKS proxies, only HTTP ones.") from error
    except OSError as error:
        # Of SSL_CERT_FILE.
        raise unreachable("The system's list of certificates can't be read.") from error


def can_be_reached(url: httpx2.URL) -> bool:
    return bool(url.host) and (url.port or 0) <= 65_535


def why_failed(error: httpx2.RequestError) -> tuple[str, bool]:
    """The reason, and True if it may pass."""
    if isinstance(error, httpx2.ProxyError):
        return "the proxy refuses the connection", False
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        if "CERTIFICATE" in str(error).upper():
            return "the server's certificate can't be verified", False
        return "there is no connection to the server", True
    return "the connection broke off", True
