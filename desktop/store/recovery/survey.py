"""Which page of a damaged file holds rows of which table.

A page's rows say it by their number of columns and the types in them, for the tables are strict.
Where two tables look alike, the tree of pages says it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from desktop.store.recovery.pages import INTERIOR, LEAF, Pages

# How SQLite numbers the types of values.
WHOLE_NUMBERS = frozenset((1, 2, 3, 4, 5, 6, 8, 9))
NULL, FLOAT = 0, 7

# The types of a leaf's rows, each as often as it comes.
Rows: TypeAlias = Counter[tuple[int, ...]]


class Column(NamedTuple):
    """A column as it was declared."""

    name: str
    type: str
    required: bool
    has_default: bool = False

    def holds(self, kind: int) -> bool:
        """Whether a value whose type has this number can stand here."""
        if kind == NULL:
            return not self.required
        match self.type:
            case "INTEGER":
                return kind in WHOLE_NUMBERS
            case "REAL":
                return kind == FLOAT or kind in WHOLE_NUMBERS
            case "TEXT":
                return kind >= 13 and kind % 2 == 1
            case _:
                return kind >= 12 and kind % 2 == 0


class Shape(NamedTuple):
    """A table and the page where its tree begins.

    `key` is the place of the column that stands for the row's id, -1 without one.
    """

    table: str
    columns: tuple[Column, ...]
    key: int = -1
    root: int = 0

    def fits(self, types: tuple[int, ...]) -> bool:
        """Whether a record may be a row of this table; columns added later may be missing."""
        missing = self.columns[len(types) :]
        if len(types) > len(self.columns) or any(
            column.required and not column.has_default for column in missing
        ):
            return False
        return all(
            kind == NULL if place == self.key else self.columns[place].holds(kind)
            for place, kind in enumerate(types)
        )


TEXT = Column("", "TEXT", required=True)
SCHEMA = Shape(
    "sqlite_schema",
    (TEXT, TEXT, TEXT, Column("", "INTEGER", required=True), TEXT._replace(required=False)),
)


class Survey(NamedTuple):
    """The table of each leaf that has one, and how many pages of tables are lost."""

    tables: dict[int, Shape]
    lost_pages: int


def survey(pages: Pages, shapes: dict[str, Shape]) -> Survey:
    """Look at every page once. `shapes` are the tables of a new file."""
    kinds = {number: pages.kind(number) for number in pages.numbers()}
    leaves = {number: _types(pages, number) for number, kind in kinds.items() if kind == LEAF}
    # Where the list of tables is lost, each most likely begins where it does in a new file.
    likely = {shape.table: shape.root for shape in shapes.values()}
    owners, lost = _owners(pages, kinds, dict(_roots(pages, leaves, shapes)) or likely)
    found = {
        number: _closest(shapes, rows, owners.get(number, "")) for number, rows in leaves.items()
    }
    return Survey({number: shape for number, shape in found.items() if shape}, lost)


def shapes_in(connection: sqlite3.Connection) -> dict[str, Shape]:
    """The tables of a whole database, by name."""
    tables = connection.execute(
        "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    return {name: _shape(connection, name, root) for name, root in tables}


def _shape(connection: sqlite3.Connection, table: str, root: int) -> Shape:
    rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    keys = [place for place, (*_, in_key) in enumerate(rows) if in_key]
    is_id = len(keys) == 1 and rows[keys[0]][2] == "INTEGER"
    columns = (
        Column(name, declared, bool(required), default is not None)
        for _, name, declared, required, default, _ in rows
    )
    return Shape(table, tuple(columns), keys[0] if is_id else -1, root)


def _types(pages: Pages, number: int) -> Rows:
    return Counter(cell.types for cell in pages.cells(number) if cell is not None)


def _closest(shapes: dict[str, Shape], rows: Rows, owner: str) -> Shape | None:
    """The table that most rows of a leaf fit, best with no column missing; else its owner."""
    best, most = shapes.get(owner), (0, 0, False)
    for shape in shapes.values():
        fitting = {types: times for types, times in rows.items() if shape.fits(types)}
        whole = sum(fitting[types] for types in fitting if len(types) == len(shape.columns))
        score = (sum(fitting.values()), whole, shape.table == owner)
        if fitting and score > most:
            best, most = shape, score
    return best


def _owners(
    pages: Pages, kinds: dict[int, int], roots: dict[str, int]
) -> tuple[dict[int, str], int]:
    """The table of each leaf that a tree leads to, and how many pages that trees name are lost."""
    owners: dict[int, str] = {}
    seen: set[int] = set()
    lost = 0
    for table, root in roots.items():
        ahead = [root]
        while ahead:
            number = ahead.pop()
            if number in seen:
                continue
            seen.add(number)
            if kinds.get(number) == INTERIOR:
                ahead += pages.children(number)
            elif kinds.get(number) == LEAF:
                owners[number] = table
            else:
                lost += 1
    return owners, lost


def _roots(
    pages: Pages, leaves: dict[int, Rows], shapes: dict[str, Shape]
) -> Iterator[tuple[str, int]]:
    """The tables that the file itself lists, each with the page where its tree begins."""
    for number, rows in leaves.items():
        if not any(SCHEMA.fits(types) for types in rows):
            continue
        for cell in pages.cells(number):
            if cell is not None and SCHEMA.fits(cell.types):
                kind, name, _, root, _ = pages.values(cell)
                if kind == "table" and name in shapes and isinstance(root, int):
                    yield str(name), root
