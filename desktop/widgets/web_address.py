"""An address that a stranger wrote: where it leads, or why it is not opened.

What is shown must be what is opened, so an address is read once, strictly, and written down again;
only that goes on. Parsers differ in what they forgive, so nothing is forgiven here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from PySide6.QtCore import QUrl

from desktop.widgets.plain_text import is_seen, visible
from desktop.words import links as words

# No site needs more, and some systems hand a browser no more than this.
LONGEST_ADDRESS = 8_000
LONGEST_HOST = 253
_ENCODED = QUrl.ComponentFormattingOption.FullyEncoded
_ASCII_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9.])?|\[[0-9a-f:.]+\]")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """`opened` is exactly what a browser is given. `host` is its host in ASCII, with the port if
    one is named; `letters` is the host in letters of other alphabets, '' if it has none. `unseen`
    names the characters that could not be seen if the address were shown in letters."""

    opened: str
    host: str
    letters: str
    unseen: tuple[str, ...] = ()


class RefusedAddressError(ValueError):
    """Why an address is not opened, in words."""


def web_address(text: str) -> WebAddress:
    """Read an address. Raises RefusedAddressError."""
    if len(text) > LONGEST_ADDRESS:
        raise RefusedAddressError(words.too_long(LONGEST_ADDRESS))
    url = QUrl(text, QUrl.ParsingMode.StrictMode)
    if url.scheme() not in ("http", "https"):
        raise RefusedAddressError(words.NO_WEB_ADDRESS)
    if url.userInfo(_ENCODED) or "@" in url.authority(_ENCODED):
        raise RefusedAddressError(words.NAMES_SOMEONE)
    opened = bytes(url.toEncoded().data()).decode("ascii")
    host = _host(opened)
    if not url.isValid() or host is None:
        raise RefusedAddressError(words.INCOMPLETE)
    # Qt must read what it has written as it read it before, and Python must find the same host.
    again = QUrl(opened, QUrl.ParsingMode.StrictMode)
    if again != url or again.host(_ENCODED) != host[0].strip("[]"):
        raise RefusedAddressError(words.AMBIGUOUS)
    name, port = host
    letters = ".".join(map(_letters, name.split(".")))
    shown = name if port is None else f"{name}:{port}"
    unseen = dict.fromkeys(visible(each) for each in unquote(opened) if not is_seen(each))
    return WebAddress(opened, shown, "" if letters == name else visible(letters), tuple(unseen))


def hover_words(address: str) -> str:
    """What is said where the pointer rests on a link: where it leads, or why it is not opened."""
    try:
        return web_address(address).opened
    except RefusedAddressError as refusal:
        return words.not_opened(visible(address), str(refusal)) if address else ""


def _letters(label: str) -> str:
    """A part of a host's name in the letters it stands for (Qt asks first which country it is)."""
    if not label.startswith("xn--"):
        return label
    try:
        return label.removeprefix("xn--").encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _host(opened: str) -> tuple[str, int | None] | None:
    """Host and port of an address as Python reads it; None where it finds none."""
    try:
        parts = urlsplit(opened)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    name = f"[{name}]" if ":" in name else name
    fits = len(name) <= LONGEST_HOST and _ASCII_HOST.fullmatch(name)
    return (name, port) if fits else None
