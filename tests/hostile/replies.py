"""Markdown replies that nobody writes: from a grammar of nested constructs, then damaged.

A seed makes the same reply on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable

DEEPEST = 6
LARGEST = 1_000_000
# What is said again and again within a reply grows no longer than this.
REPEATED = 20_000
# Characters that hide, turn around, stack up, are none, or are kept by Qt for itself.
STRANGE = (
    *("\u202e", "\u2066", "\u200f", "\u200b", "\u2060", "\ufeff", "\u00ad", "\u2028", "\u2029"),
    *("\x00", "\x07", "\x1b[31m", "\x7f", "\r", "\r\n", "\t", "\v", "\ud800", "\udfff", "\ufffc"),
    *("\ufdd0", "\ufffe", "a\u0301", "\u0301" * 90, "\u0627\u0644\u0639", "\u4e2d\u6587"),
    *("\N{FAMILY}", "\U0001f468\u200d\U0001f469", "\U000e0041", "\u1100\u1161", "\u0e34" * 20),
)
WORDS = (
    "a",
    "word",
    "x" * 40,
    "1.",
    "-",
    "<b>",
    "&lt;",
    "&#0;",
    "&amp;amp;",
    "\\",
    "[*]",
    "%1",
    "",
)
MARKS = ("*", "**", "_", "__", "~~", "`", "``", "```", "[", "]", "(", ")", "!", "<", ">", "|", "#")


class Grammar:
    """Writes one reply; FILE stands in it where a path can stand."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def reply(self) -> str:
        text = "\n\n".join(self._block(0) for _ in range(self._random.randint(1, 12)))
        for _ in range(self._random.choice((0, 0, 1, 3, 10))):
            text = self._damaged(text)
        if self._random.random() < 0.1:
            text *= min(self._random.choice((10, 100, 1_000)), LARGEST // max(1, len(text)))
        return text[:LARGEST]

    def _some(self, make: Callable[[], str], most: int, between: str = "") -> str:
        return between.join(make() for _ in range(self._random.randint(1, most)))

    def _block(self, depth: int) -> str:
        blocks = [self._paragraph, self._fence, self._table, self._heading, self._html, self._rule]
        if depth < DEEPEST:
            blocks += [
                lambda: self._list(depth),
                lambda: self._quote(depth),
                lambda: self._repeated(lambda: self._block(depth + 1)),
            ]
        return self._random.choice(blocks)()

    def _repeated(self, make: Callable[[], str]) -> str:
        text = make()
        if self._random.random() < 0.7:
            return text
        return text * min(self._random.choice((2, 20, 200)), 1 + REPEATED // max(1, len(text)))

    def _inline(self, depth: int = 0) -> str:
        if depth > DEEPEST:
            return self._random.choice(WORDS)

        def inner() -> str:
            return self._inline(depth + 1)

        kind = self._random.randrange(14)
        match kind:
            case 0 | 1 | 2:
                return self._some(lambda: self._random.choice(WORDS), 8, " ")
            case 3:
                return self._random.choice(STRANGE)
            case 4:
                mark = self._random.choice(MARKS)
                return f"{mark}{inner()}{mark}"
            case 5:
                return self._some(lambda: self._random.choice(MARKS), 12)
            case 6:
                return f"[{inner()}]({self._address()})"
            case 7:
                return f"![{inner()}](<{self._address()}> '{inner()}')"
            case 8:
                return f"<{self._address()}>"
            case 9:
                return self._address()
            case 10:
                return self._markup()
            case 11:
                return "x" * self._random.choice((100, 1_001, 6_000))
            case _:
                return self._repeated(inner) + inner()

    def _address(self) -> str:
        host = self._random.choice(
            ("a.example", "bank.example@b.example", "\u0430.example", "[::1]")
        )
        return self._random.choice(
            (
                *("FILE", "file://FILE", "file:FILE", "//host/FILE", "FILE?x#y", "qrc:FILE"),
                *("javascript:alert(1)", "data:text/html,<style>@import 'FILE'</style>"),
                *(f"http://{host}/{self._random.choice(STRANGE)}", f"https://{host}:99999", ""),
                "http://a.example/" + "b" * self._random.choice((10, 3_000)),
            )
        )

    def _markup(self) -> str:
        return self._random.choice(
            (
                "<img src='FILE'>",
                "<style>@import 'FILE';</style>",
                "<style>body{background:url(FILE)}",
                "<link rel=stylesheet href=FILE>",
                "<table background='FILE'><tr><td>",
                "<a href='FILE'>",
                "<!--",
                "<?xml version='1.0'?>",
                "<![CDATA[",
                "<object data=FILE>",
            )
        )

    def _paragraph(self) -> str:
        return self._some(self._inline, 6, self._random.choice((" ", "\n", "  \n", "\\\n")))

    def _heading(self) -> str:
        if self._random.random() < 0.3:
            return f"{self._inline()}\n{self._random.choice('=-') * 3}"
        return f"{'#' * self._random.randint(1, 7)} {self._inline()}"

    def _rule(self) -> str:
        return self._random.choice(("---", "***", "_ _ _", "[a]: FILE 'b'", "    code", "\t\tcode"))

    def _html(self) -> str:
        return f"{self._markup()}\n{self._inline()}\n\n</div>"

    def _fence(self) -> str:
        mark = self._random.choice(("```", "~~~", "`````", "   ```"))
        language = self._random.choice(
            ("", "python", "c", "html", "java", "<style>@import'FILE'", "x" * 90, "\u202e", "{=x}")
        )
        line = self._random.choice(("x = 1", "", "\t" * 9, "<!--", '"', "a" * 3_000, "```", "\x00"))
        code = "\n".join([line] * self._random.choice((1, 5, 450)))
        return f"{mark}{language}\n{code}\n{self._random.choice((mark, ''))}"

    def _table(self) -> str:
        columns = self._random.choice((1, 3, 12, 70))
        rows = self._random.choice((0, 2, 9, 60))
        head = "|" + "".join(f"{self._inline(DEEPEST)}|" for _ in range(columns))
        body = "|" + "".join(f"{self._inline(DEEPEST - 1)}|" for _ in range(columns)).replace(
            "\n", ""
        )
        return "\n".join([head.replace("\n", ""), "|" + "-|" * columns, *[body] * rows])

    def _list(self, depth: int) -> str:
        mark = self._random.choice(("- ", "* ", "1. ", "999999999. ", "- [x] ", "-\t", "- " * 9))
        indent = " " * len(mark)
        items = [self._block(depth + 1) for _ in range(self._random.randint(1, 4))]
        return "\n".join(mark + item.replace("\n", f"\n{indent}") for item in items)

    def _quote(self, depth: int) -> str:
        mark = self._random.choice(("> ", ">", "> > > ", ">" * 20))
        return mark + self._block(depth + 1).replace("\n", f"\n{mark}")

    def _damaged(self, text: str) -> str:
        data = bytearray(text.encode("utf-8", "surrogatepass"))
        if not data:
            return text
        start = self._random.randrange(len(data))
        end = min(len(data), start + self._random.choice((1, 2, 30, 500)))
        match self._random.randrange(5):
            case 0:
                data[start] ^= 1 << self._random.randrange(8)
            case 1:
                del data[start:end]
            case 2:
                data[start:start] = data[start:end] * self._random.choice((1, 7, 60))
            case 3:
                place = self._random.randrange(len(data))
                data[place:place] = data[start:end]
            case _:
                del data[start:]
        return data.decode("utf-8", "replace")


def reply(seed: int, bait: str) -> str:
    return Grammar(seed).reply().replace("FILE", bait)
