"""Check a web address that a stranger wrote.

Parsers differ in what they tolerate, so it is parsed strictly, and only what is written out again
is shown and opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from PySide6.QtCore import QUrl

from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.plain_text import is_seen, visible

# Some systems pass no more to a browser.
LONGEST_ADDRESS = 8_000
LONGEST_HOST = 253
_ENCODED = QUrl.ComponentFormattingOption.FullyEncoded
_ASCII_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9.])?|\[[0-9a-f:.]+\]")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """`host` is in ASCII, with its port; `letters` is the host in other alphabets, or ''. `unseen`
    names characters that would be invisible there."""

    opened: str
    host: str
    letters: str
    unseen: tuple[str, ...] = ()


class RefusedAddressError(ValueError):
    """The message is the reason."""


def web_address(text: str) -> WebAddress:
    if len(text) > LONGEST_ADDRESS:
        raise RefusedAddressError(
            tr("It is longer than {count} characters.").format(count=format_count(LONGEST_ADDRESS))
        )
    url = QUrl(text, QUrl.ParsingMode.StrictMode)
    if url.scheme() not in ("http", "https"):
        raise RefusedAddressError(tr("Waymark opens only web addresses (http and https)."))
    if url.userInfo(_ENCODED) or "@" in url.authority(_ENCODED):
        raise RefusedAddressError(
            tr(
                "It has a user name or password before the host, which can disguise where an "
                "address leads."
            )
        )
    opened = bytes(url.toEncoded().data()).decode("ascii")
    host = _host(opened)
    if not url.isValid() or host is None:
        raise RefusedAddressError(tr("It is not a complete web address."))
    # Qt must read its own output the same way, and Python must find the same host.
    again = QUrl(opened, QUrl.ParsingMode.StrictMode)
    if again != url or again.host(_ENCODED) != host[0].strip("[]"):
        raise RefusedAddressError(tr("It can be read in more than one way."))
    name, port = host
    letters = ".".join(map(_letters, name.split(".")))
    shown = name if port is None else f"{name}:{port}"
    unseen = dict.fromkeys(visible(each) for each in unquote(opened) if not is_seen(each))
    return WebAddress(opened, shown, "" if letters == name else visible(letters), tuple(unseen))


def hover_words(address: str) -> str:
    """Either the address that opens, or why it can't."""
    try:
        return web_address(address).opened
    except RefusedAddressError as refusal:
        words = tr("Not opened: {address}\n{reason}")
        return words.format(address=visible(address), reason=refusal) if address else ""


def _letters(label: str) -> str:
    """Qt decodes only those of some countries."""
    if not label.startswith("xn--"):
        return label
    try:
        return label.removeprefix("xn--").encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _host(opened: str) -> tuple[str, int | None] | None:
    """In Python's reading."""
    try:
        parts = urlsplit(opened)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    name = f"[{name}]" if ":" in name else name
    fits = len(name) <= LONGEST_HOST and _ASCII_HOST.fullmatch(name)
    return (name, port) if fits else None
