"""Every sentence of the window can be extracted by `pyside6-lupdate`."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "desktop"


def test_arguments_of_tr_are_literals_without_named_characters() -> None:
    """It finds only literals, and misreads `\\N{...}` in them."""
    wrong, found = [], 0
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "tr":
                argument = node.args[0]
                written = ast.get_source_segment(source, argument) or ""
                found += 1
                if not isinstance(argument, ast.Constant) or "\\N{" in written:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {written}")
    assert found > 300
    assert wrong == []
