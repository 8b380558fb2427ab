"""A part of a bundle, with its licence and the texts that must come with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

TEXTS = Path(__file__).with_name("texts")
APACHE = Path(__file__).parents[2] / "LICENSE"


class LicenceError(Exception):
    """Why a bundle can't be described: a part of it is nobody's, or has no text."""


@dataclass
class Component:
    """One part, made by others or by us."""

    name: str
    version: str
    licence: str
    """The licence as its maker states it; an SPDX expression if `is_spdx`."""
    is_spdx: bool = True
    kind: str = "library"
    purl: str = ""
    sources: str = ""
    """The place of its source code, for licences that require it."""
    texts: dict[str, bytes] = field(default_factory=dict)
    parts: list[Component] = field(default_factory=list)
    """Components inside it; their texts are among its own."""

    @property
    def key(self) -> str:
        """A name for a folder, and for references inside the list."""
        return re.sub(r"[^\w.+-]", "-", self.name).strip(".").lower()


def kept_texts(*names: str) -> dict[str, bytes]:
    """Texts that are kept here, for parts that bring none along."""
    return {f"{name}.txt": _kept(name).read_bytes() for name in names}


def _kept(name: str) -> Path:
    return APACHE if name == "Apache-2.0" else TEXTS / f"{name}.txt"


def texts_for(what: str, expression: str) -> dict[str, bytes]:
    """The stored texts of the licences in an SPDX expression; one of alternatives is enough.

    Raises LicenceError if none of them is stored here.
    """
    found: dict[str, bytes] = {}
    for all_hold in re.split(r"\bAND\b", expression):
        names = set(re.findall(r"[\w.+-]+", all_hold)) - {"OR", "WITH"}
        kept = kept_texts(*sorted(name for name in names if _kept(name).exists()))
        if not kept:
            said = expression or "no licence"
            raise LicenceError(f"{what} is under {said}, of which no text is kept")
        found |= kept
    return found
