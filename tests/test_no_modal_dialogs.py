"""No part of the window opens a modal dialog: its event loop would stall asyncio inside Qt's."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUNS_A_LOOP = {"exec", "exec_"}
STATIC_DIALOGS = {
    "QMessageBox": re.compile(r"question|information|warning|critical|about|aboutQt"),
    "QFileDialog": re.compile(r"get\w+"),
    "QInputDialog": re.compile(r"get\w+"),
    "QColorDialog": re.compile(r"get\w+"),
    "QFontDialog": re.compile(r"get\w+"),
}


def modal_calls(source: str) -> list[tuple[int, str]]:
    """Line and name of each call that would start a second event loop."""
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    methods = [func for func in calls if isinstance(func, ast.Attribute)]
    return sorted((func.lineno, ast.unparse(func)) for func in methods if is_modal(func))


def is_modal(func: ast.Attribute) -> bool:
    if func.attr in RUNS_A_LOOP:
        return True
    owner = ast.unparse(func.value).rpartition(".")[2]
    pattern = STATIC_DIALOGS.get(owner)
    return pattern is not None and pattern.fullmatch(func.attr) is not None


MODAL = (
    "dialog.exec()",
    "self.menu.exec(point)",
    "QDialog(self).exec()",
    "QMessageBox.question(self, 'Title', 'Text')",
    "QtWidgets.QMessageBox.critical(self, 'Title', 'Text')",
    "QFileDialog.getOpenFileName(self)",
    "QInputDialog.getText(self, 'Title', 'Label')",
)
HARMLESS = "dialog.open() menu.popup(point) exec('1') QMessageBox(self) log.warning('Text')".split()


@pytest.mark.parametrize("call", [*MODAL, *HARMLESS])
def test_the_check_sees_modal_calls_and_no_others(call: str) -> None:
    found = modal_calls(f"def act(self):\n    return {call}\n")
    assert [line for line, _name in found] == ([2] if call in MODAL else [])


def test_the_window_has_no_modal_dialog() -> None:
    found = {
        str(path.relative_to(ROOT)): calls
        for path in sorted((ROOT / "desktop").rglob("*.py"))
        if (calls := modal_calls(path.read_text(encoding="utf-8")))
    }
    assert found == {}
