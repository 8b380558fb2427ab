"""H1: labels, buttons, tool tips, message boxes and documents are made in one place each.

What Qt shows by guessing whether it is HTML, or by reading '&' as a shortcut, may be named only by
the module that stops it from doing so.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN = "desktop/widgets/plain.py"
DOCUMENTS = "desktop/chat/markdown/block_text.py"
# Its document loads nothing either, and its HTML is made by the renderer of replies.
PRINTED = "desktop/export/printing.py"
# Only a notification's text may be markup; there a chat's title is the title.
TRAY = "desktop/background.py"
# Widgets whose words Qt would guess about, or underline, and the files that make them.
MADE_IN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("QLabel", "QPushButton", "QToolButton", "QAction", "QToolTip"), (PLAIN,)),
    # `dialogs.outcome`, which opens every dialog, has them show their words as they are.
    "QMessageBox": (PLAIN,),
    "QTextBrowser": (DOCUMENTS,),
    "QTextDocument": (DOCUMENTS, PRINTED),
    "QSystemTrayIcon": (TRAY,),
}
# Methods that take words Qt would guess about, and the files that call them.
CALLED_IN: dict[str, tuple[str, ...]] = {
    "setToolTip": (PLAIN, TRAY),
    "setTextFormat": (PLAIN,),
    # What is copied as formatted text is Markdown rendered without raw HTML.
    "setHtml": (DOCUMENTS, PRINTED, "desktop/chat/markdown/conversion.py"),
    "setInformativeText": (PLAIN,),
}
# No part of the window uses these; whoever does adds a plain form of them first.
NOWHERE = frozenset(
    """
    QCheckBox QCommandLinkButton QDockWidget QErrorMessage QGraphicsTextItem QGroupBox QImageReader
    QInputDialog QMovie QProgressDialog QRadioButton QSplashScreen QStaticText QStatusBar
    QTabBar QTabWidget QTextEdit QToolBox QWhatsThis QWizard
    appendHtml insertHtml insertMarkdown setDetailedText setMarkdown setSource setStatusTip
    setWhatsThis
    """.split()
)


def allowed(name: str, path: str) -> bool:
    homes = MADE_IN.get(name) or CALLED_IN.get(name) or (path,)
    return path in homes and name not in NOWHERE


def offences(source: str, path: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Call):
            parts = ast.unparse(node.func).split(".")
            names = [parts[-1], *(owner for owner in parts[:-1] if owner == "QToolTip")]
        elif isinstance(node, ast.ClassDef):
            names = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        if isinstance(node, ast.Call | ast.ClassDef):
            found += [f"line {node.lineno}: {name}" for name in names if not allowed(name, path)]
    return sorted(found)


@pytest.mark.parametrize(
    "line",
    [
        "QLabel(words)",
        "QtWidgets.QLabel(words)",
        "button = QPushButton()",
        "self.setToolTip(name)",
        "QMessageBox(self)",
        "QToolTip.showText(place, words)",
        "body.setHtml(words)",
        "label.setTextFormat(kind)",
        "class Mine(QLabel): pass",
        "class Mine(QTextBrowser): pass",
    ],
)
def test_the_check_sees_what_is_not_allowed(line: str) -> None:
    assert offences(line, "desktop/chat/other.py") != []


@pytest.mark.parametrize("line", ["Label(words)", "set_tip(self, words)", "class A(Label): pass"])
def test_the_check_lets_the_rest_pass(line: str) -> None:
    assert offences(line, "desktop/chat/other.py") == []


def test_H1_the_window_makes_its_words_in_one_place() -> None:
    found = {}
    for path in sorted((ROOT / "desktop").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if bad := offences(path.read_text(encoding="utf-8"), name):
            found[name] = bad
    assert found == {}


NETWORKS = (
    *("PySide6.QtNetwork", "PySide6.QtWebEngine", "PySide6.QtWebSockets", "PySide6.QtDBus"),
    *("socket", "ssl", "http", "urllib.request", "ftplib", "smtplib", "xmlrpc", "requests"),
    *("httpx", "aiohttp", "huggingface_hub"),
)


def imported(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_H9_the_window_opens_addresses_in_one_place_and_knows_no_network() -> None:
    opening = set()
    for path in sorted((ROOT / "desktop").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        reached = [name for name in imported(source) if name.startswith(NETWORKS)]
        assert reached == [], path
        if "openUrl" in source:
            opening.add(path.relative_to(ROOT).as_posix())
    assert opening == {"desktop/widgets/dialogs.py"}
