from __future__ import annotations

import pytest
from PySide6.QtGui import Qt, QTextDocument

from desktop.widgets.plain_text import (
    LONGEST_TIP,
    breakable,
    shortened,
    tip,
    unbroken,
    visible,
)

TEXTS = [
    "",
    "words",
    "two\nlines",
    "<b>bold</b>",
    "&lt;b&gt;",
    "<style>@import '/a';</style>",
    "a <!-- b",
    "<?xml version='1.0'?>",
    "1 < 2 and 3 > 2",
    "'\"&<>",
    "  <a href='b'>c",
    "\x00\u202e<img src=x>",
]


@pytest.mark.parametrize("text", TEXTS)
def test_H1_a_tool_tip_is_shown_as_it_is_written(text: str) -> None:
    shown = tip(text)
    document = QTextDocument()
    if Qt.mightBeRichText(shown):
        document.setHtml(shown)
    else:
        document.setPlainText(shown)
    assert document.toPlainText().split() == text.split()


def test_a_tool_tip_fits_on_a_screen() -> None:
    for text in ("word " * 1_000, "w" * 5_000):
        lines = tip(text).split("\n")
        assert max(map(len, lines)) <= 90
        assert len("".join(lines)) <= LONGEST_TIP


def test_a_text_is_shortened_with_a_sign() -> None:
    assert shortened("12345", 5) == "12345"
    assert shortened("123456", 5) == "1234\N{HORIZONTAL ELLIPSIS}"


def test_a_long_word_can_be_broken_and_loses_nothing() -> None:
    text = f"short {'x' * 100} words"
    assert breakable(text).replace("\N{ZERO WIDTH SPACE}", "") == text
    assert max(map(len, breakable(text).replace("\N{ZERO WIDTH SPACE}", " ").split())) <= 20
    assert breakable("no word is long here") == "no word is long here"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "first token 0.4 s \N{MIDDLE DOT} 75 tokens/s",
            "first token 0.4_s_\N{MIDDLE DOT} 75_tokens/~s",
        ),
        ("12 Token/s", "12_Token/~s"),
        ("of 4,096 tokens (4.2 MB), 60 % reused", "of 4,096_tokens (4.2_MB), 60_% reused"),
        (
            "480 x 480 \N{RIGHTWARDS ARROW} 96 x 96, 9 tokens",
            "480_x_480 \N{RIGHTWARDS ARROW} 96_x_96, 9_tokens",
        ),
        ("32 checkpoints, 5 seconds, 2 min 5 s", "32 checkpoints, 5 seconds, 2_min 5_s"),
    ],
)
def test_a_number_stays_on_the_line_of_its_unit(text: str, shown: str) -> None:
    found = breakable(text).replace("\N{NO-BREAK SPACE}", "_").replace("\N{WORD JOINER}", "~")
    assert found == shown
    assert unbroken(breakable(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("words \u0444 \N{ROCKET}", "words \u0444 \N{ROCKET}"),
        ("\u202egpj.exe", "<U+202E>gpj.exe"),
        ("a\u200bb\u2066\x00\n\t", "a<U+200B>b<U+2066><U+0000><U+000A><U+0009>"),
        ("\u00a0\U000e0041\ud800", "<U+00A0><U+E0041><U+D800>"),
    ],
)
def test_what_is_not_seen_is_named(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "character",
    ["\u3164", "\u115f", "\u2800", "\ufe0f", "\u034f", "\u200b", "\u202e", "\U000e0041"],
)
def test_what_python_takes_for_printable_and_is_not_seen_is_named(character: str) -> None:
    assert visible(f"a{character}b") == f"a<U+{ord(character):04X}>b"


def test_what_is_seen_stays() -> None:
    text = "aé\u0430\u4e2d\N{GRINNING FACE} 1-_.%"
    assert visible(text) == text
