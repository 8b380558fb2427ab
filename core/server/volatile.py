"""Lines that programs put into the system prompt and that change with every request or day.

Those of `resources/server/volatile_lines.json` that say nothing to a model are left out; `pinned`
ones stay as they were in the chat's first request. Otherwise nothing behind them could be reused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.client.programs import RESOURCES

_FLAGS = re.MULTILINE | re.IGNORECASE


@dataclass(frozen=True, slots=True)
class Steadied:
    """A system prompt's text around its pinned lines, and the names of all volatile ones."""

    around: tuple[str, ...]
    pinned: tuple[str, ...]
    names: tuple[str, ...]

    def text(self, pinned: Sequence[str]) -> str:
        """The text with other lines in place of its own, if there are as many."""
        lines = pinned if len(pinned) == len(self.pinned) else self.pinned
        return "".join(
            part for pair in zip(self.around, (*lines, ""), strict=True) for part in pair
        )


def steadied(text: str) -> Steadied:
    names = list[str]()
    for each in _table():
        if each["pattern"].search(text) is None:
            continue
        names.append(each["name"])
        if not each["pinned"]:
            text = each["pattern"].sub("", text)
    pinned = _pinned()
    return Steadied(tuple(pinned.split(text)), tuple(pinned.findall(text)), tuple(names))


@cache
def _table() -> list[dict[str, Any]]:
    table = json.loads((RESOURCES / "server" / "volatile_lines.json").read_text("utf-8"))
    return [{**each, "pattern": re.compile(each["pattern"], _FLAGS)} for each in table]


@cache
def _pinned() -> re.Pattern[str]:
    patterns = (each["pattern"].pattern for each in _table() if each["pinned"])
    return re.compile("|".join(f"(?:{each})" for each in patterns), _FLAGS)
