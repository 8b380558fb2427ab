"""A bench's tables in docs/performance.md, between two comments that nobody sees."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between the comments of `name`. Raises ValueError without them."""
    start, end = _comments(name)
    old = page.read_text(encoding="utf-8")
    before, found, rest = old.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no place for {name}")
    page.write_text(f"{before}{start}\n{text.strip()}\n\n{end}{after}", encoding="utf-8")


def has_place(page: Path, name: str) -> bool:
    """Whether `write_between` can write there."""
    start, end = _comments(name)
    return end in page.read_text(encoding="utf-8").partition(start)[2]


def _comments(name: str) -> tuple[str, str]:
    return f"<!-- {name}: written by make bench -->\n", f"<!-- end of {name} -->\n"
