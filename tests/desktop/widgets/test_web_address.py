from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QUrl

from desktop.widgets.web_address import (
    LONGEST_ADDRESS,
    RefusedAddressError,
    WebAddress,
    web_address,
)

PIECES = st.sampled_from(
    [
        *("http", "https", "HTTP", "file", "javascript", "mailto", ":", "//", "/", "\\", "@", "#"),
        *(
            "?",
            "%",
            "%2e",
            "%40",
            "%00",
            "[",
            "]",
            "::1",
            ":80",
            ":99999",
            ".",
            "..",
            "a.b",
            "bank",
        ),
        *(" ", "\t", "\n", "\x00", "\u202e", "\u200b", "\u0430", "xn--", "\u3002", "\uff0f", "&"),
        *("127.1", "0x7f", "evil.example", "\udcff", "\u2044", "\u24d4", "\u00df", "-", "_", "'"),
    ]
)


@pytest.mark.parametrize(
    ("text", "opened", "host", "letters"),
    [
        ("https://a.example/b?c=d#e", "https://a.example/b?c=d#e", "a.example", ""),
        ("HTTPS://A.Example/B", "https://a.example/B", "a.example", ""),
        ("http://a.example:8080/", "http://a.example:8080/", "a.example:8080", ""),
        ("https://a.example.", "https://a.example.", "a.example.", ""),
        ("http://[::1]:80/", "http://[::1]:80/", "[::1]:80", ""),
        ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1", ""),
        # A Cyrillic letter that looks like a Latin one.
        (
            "https://ex\u0430mple.com/",
            "https://xn--exmple-4nf.com/",
            "xn--exmple-4nf.com",
            "ex\u0430mple.com",
        ),
        (
            "https://xn--exmple-4nf.com/",
            "https://xn--exmple-4nf.com/",
            "xn--exmple-4nf.com",
            "ex\u0430mple.com",
        ),
        # A full stop of another script parts labels too.
        (
            "https://a.example\u3002b.example",
            "https://a.example.b.example",
            "a.example.b.example",
            "",
        ),
        ("https://a.example/\u0444", "https://a.example/%D1%84", "a.example", ""),
        ("https://a.example/?u=https://b.example@c", None, "a.example", ""),
    ],
)
def test_where_an_address_leads(text: str, opened: str | None, host: str, letters: str) -> None:
    assert web_address(text) == WebAddress(opened or text, host, letters)


def test_characters_that_are_not_seen_are_named() -> None:
    found = web_address("https://a.example/\u202ex\u200b%E2%80%AE")
    assert found.opened == "https://a.example/%E2%80%AEx%E2%80%8B%E2%80%AE"
    assert found.unseen == ("<U+202E>", "<U+200B>")
    blank = web_address("http://xn--google-ks5e.com/%E3%85%A4")
    assert "<U+3164>" in blank.letters and blank.unseen == ("<U+3164>",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("file:///etc/passwd", "only web addresses"),
        ("javascript:alert(1)", "only web addresses"),
        ("mailto:a@b.example", "only web addresses"),
        ("//a.example", "only web addresses"),
        ("a.example", "only web addresses"),
        ("", "only web addresses"),
        ("https://bank.example@evil.example/", "before the host"),
        ("https://bank.example:443@evil.example/", "before the host"),
        ("https://@evil.example/", "before the host"),
        ("http://a.example:99999/", "not a complete"),
        ("https:///a", "not a complete"),
        ("https:a.example", "not a complete"),
        ("https://a..b", "not a complete"),
        (f"https://{'a.' * 150}b/", "not a complete"),
        ("https://" + "a" * LONGEST_ADDRESS, "longer than"),
    ],
)
def test_why_an_address_is_not_opened(text: str, words: str) -> None:
    with pytest.raises(RefusedAddressError, match=words):
        web_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://a.example\\@evil.example/",
        "https://a.example\\.evil.example/",
        "https://a\t.example/",
        "https://a.example\n.evil.example/",
        "https://a%2eb.example/",
        "https://a b.example/",
        "https://a.example%00.evil.example/",
    ],
)
def test_what_parsers_disagree_about_is_not_opened(text: str) -> None:
    with pytest.raises(RefusedAddressError):
        web_address(text)


@given(st.lists(PIECES, max_size=12))
def test_H1_what_is_shown_is_what_is_opened(pieces: list[str]) -> None:
    text = "".join(pieces)
    for address in (text, f"https://{text}"):
        try:
            found = web_address(address)
        except RefusedAddressError:
            continue
        assert found.opened.isascii() and found.opened.isprintable() and " " not in found.opened
        parts, url = urlsplit(found.opened), QUrl(found.opened, QUrl.ParsingMode.StrictMode)
        assert parts.scheme in ("http", "https")
        assert parts.username is None and parts.password is None
        assert found.host.isascii() and parts.netloc == found.host
        assert url.host(QUrl.ComponentFormattingOption.FullyEncoded) == parts.hostname
        assert web_address(found.opened) == found
