from __future__ import annotations

import asyncio

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from desktop.app import App
from desktop.widgets.dialogs import LinkDialog
from desktop.widgets.plain import Button, Label
from desktop.widgets.web_address import web_address
from tests.desktop.conftest import until
from tests.desktop.hands import child

PLAIN = "https://example.org/a?b=c"
LOOKS_LIKE = "https://b\u0430nk.example/\u202egpj.exe"
LONG = "https://" + "long." * 40 + "example/" + "a" * 3_000


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(
        QDesktopServices,
        "openUrl",
        lambda url: found.append(bytes(url.toEncoded().data()).decode()),
    )
    return found


def part(dialog: QWidget, name: str) -> str:
    """Returns '' if it is not there."""
    label = dialog.findChild(Label, name)
    return label.text() if isinstance(label, Label) else ""


def shown_address(dialog: QWidget) -> str:
    field = child(dialog, QPlainTextEdit, "linkAddress")
    return field.toPlainText()


async def asked(app: App, address: str) -> LinkDialog:
    app.window.page.transcript.messages.link_asked.emit(address)
    await until(lambda: app.window.findChild(LinkDialog))
    return child(app.window, LinkDialog)


async def pressed(app: App, dialog: LinkDialog, name: str) -> None:
    button = child(dialog, Button, name)
    button.click()
    await until(lambda: app.window.findChild(LinkDialog) is None)


async def test_a_link_is_shown_whole_and_opened_only_when_told(opened: list[str], app: App) -> None:
    for address, host, letters in (
        (PLAIN, "example.org", ""),
        (LOOKS_LIKE, "xn--bnk-6cd.example", "b\u0430nk.example"),
        (LONG, "long." * 40 + "example", ""),
    ):
        expected = web_address(address).opened
        opened.clear()
        for button in ("linkCancel", "linkOpen"):
            dialog = await asked(app, address)
            assert part(dialog, "linkHost") == host
            assert letters in part(dialog, "linkLetters")
            assert bool(letters) == bool(part(dialog, "linkLetters"))
            assert ("<U+202E>" in part(dialog, "linkUnseen")) == ("\u202e" in address)
            assert shown_address(dialog) == expected
            assert opened == []
            await pressed(app, dialog, button)
        assert opened == [expected]


async def test_an_address_that_is_not_opened_says_why(opened: list[str], app: App) -> None:
    for address, reason in (
        ("file:///etc/passwd", "only web addresses"),
        ("https://bank.example@evil.example/\u202e", "before the host"),
        ("http://a.example\\@evil.example/", ""),
    ):
        dialog = await asked(app, address)
        assert reason in part(dialog, "linkRefusal") and part(dialog, "linkRefusal")
        assert shown_address(dialog) == address.replace("\u202e", "<U+202E>")
        assert dialog.findChild(Button, "linkOpen") is None
        await pressed(app, dialog, "linkCancel")
    dialog = await asked(app, PLAIN)
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    await until(lambda: app.window.findChild(LinkDialog) is None)
    await asyncio.sleep(0)
    assert opened == []


@pytest.mark.parametrize("address", [PLAIN, LOOKS_LIKE, LONG])
def test_the_host_is_seen_whole(qtbot: QtBot, address: str) -> None:
    dialog = LinkDialog.asking(web_address(address))
    qtbot.addWidget(dialog)
    dialog.show()
    host = child(dialog, Label, "linkHost")
    assert dialog.rect().contains(host.geometry())
    assert host.height() >= host.heightForWidth(host.width())
    assert dialog.width() <= 600


def test_a_host_is_copied_as_it_is(qtbot: QtBot) -> None:
    host = "accounts-google-com-signin-v2-identifier-continue.evil.example"
    dialog = LinkDialog.asking(web_address(f"https://{host}/"))
    qtbot.addWidget(dialog)
    dialog.show()
    label = child(dialog, Label, "linkHost")
    label.setFocus()
    label.setSelection(0, len(label.selectedText() or QLabel.text(label)))
    QTest.keyClick(label, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == host
    QGuiApplication.clipboard().clear()
