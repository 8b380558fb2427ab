"""Checks a request's Host, Origin and key before its body is read.

A web page in the user's browser can send requests here, without the key and with an Origin. If its
name was pointed at this machine (DNS rebinding), the Host header has that name.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from core.api.errors import InvalidRequestError
from core.server.requests.refusals import Refusal

_LOCAL = "localhost"
# Apps that are web pages inside have schemes of their own.
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)(://[^/\s?#@\\]+)(?:[/?#]\S*)?", re.IGNORECASE)
_PORTS = {"http": ":80", "https": ":443"}


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def origin_of(address: str) -> str:
    """A web page's origin as browsers send it. Raises InvalidRequestError."""
    found = _ORIGIN.fullmatch(address)
    if found is None:
        raise InvalidRequestError(f"{address} is not the address of a web page.")
    scheme, rest = found[1].lower(), found[2].lower()
    return scheme + rest.removesuffix(_PORTS.get(scheme, ""))


@dataclass(frozen=True, slots=True)
class Access:
    """`key` is a digest; pages of `origins`, and with `lan` other machines, may use the server."""

    key: str
    origins: tuple[str, ...] = ()
    lan: bool = False

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises Refusal (401, 403)."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise Refusal("The Host header doesn't name this machine.", "Host", 403)
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            raise Refusal(
                "Web pages may not use this server unless their origin was allowed.", "Origin", 403
            )
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if not hmac.compare_digest(digest_of(given), self.key):
            raise Refusal(
                "The key is missing or wrong. Send it as `Authorization: Bearer KEY`.",
                "Authorization",
                401,
                "invalid_api_key",
            )

    def _is_ours(self, host: str) -> bool:
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name.lower() == _LOCAL:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # Only a name can be pointed at another machine.
        return self.lan or address.is_loopback
