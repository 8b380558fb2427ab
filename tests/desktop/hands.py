from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar, cast

from PySide6.QtCore import QEvent, QMimeData, QObject, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QLabel, QMenu, QWidget

from core.api.events import Generated
from core.api.stats import RequestStats
from core.client.blobs import BlobStore
from desktop.app import App
from desktop.chat.data.formats import Formats
from desktop.chat.drafts import Drafts
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.rows.reply_row import ReplyRow
from desktop.chat.rows.user_row import UserRow
from desktop.chat.transcript import LiveReply
from desktop.documents.documents import DocumentController
from desktop.engine.engine import EngineController
from desktop.engine.tasks import Tasks
from desktop.pictures.picture_strip import PictureThumbnail
from desktop.pictures.pictures import PictureController
from desktop.services import Services
from desktop.store.tables.records import Reply
from desktop.threads import unfinished
from desktop.widgets.pacing import pace
from tests.desktop.conftest import until
from tests.desktop.fake_engine import Asked, FakeEngine

Child = TypeVar("Child", bound=QObject)
Widget = TypeVar("Widget", bound=QWidget)


class Windows(QObject):
    """Notes widgets shown as windows: one that has no parent yet flashes up and takes the focus."""

    def __init__(self, qapp: QApplication) -> None:
        super().__init__(qapp)
        self.shown: list[str] = []
        qapp.installEventFilter(self)

    def eventFilter(self, shown: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.Show or isinstance(shown, QDialog | QMenu):
            return False
        if isinstance(shown, QWidget) and shown.isWindow():
            self.shown.append(shown.objectName() or type(shown).__name__)
        return False


def find(app: App, kind: type[Widget], name: str) -> Widget:
    """The last one: a long chat has many of some."""
    found = app.window.findChildren(kind, name)
    assert found, f"there is no {name}"
    return found[-1]


def press(app: App, name: str) -> None:
    button = find(app, QAbstractButton, name)
    assert button.isEnabled(), f"{name} can't be pressed"
    button.click()


def words(app: App, name: str) -> str:
    """Returns '' while it is hidden."""
    shown = find(app, QWidget, name)
    assert isinstance(shown, QLabel | QAbstractButton)
    return shown.text() if shown.isVisible() else ""


def type_in(app: App, text: str) -> None:
    app.window.page.composer.text.setPlainText(text)


def child(of: QObject, kind: type[Child], name: str = "") -> Child:
    """Find a child, visible or not."""
    found = of.findChild(kind, name) if name else of.findChild(kind)
    assert isinstance(found, kind)
    return found


def press_key(
    app: App,
    key: Qt.Key,
    modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:
    QTest.keyClick(app.window.page.composer.text, key, modifiers)


async def send(app: App, engine: FakeEngine, text: str) -> Asked:
    """Returns the request to the engine."""
    before = len(engine.asked)
    type_in(app, text)
    press_key(app, Qt.Key.Key_Return)
    await until(lambda: len(engine.asked) > before, f"{text!r} reaches the engine")
    return engine.asked[-1]


async def ended(app: App) -> ReplyRow:
    await until(lambda: app.parts.transcript.rows and app.parts.chat.running is None)
    row = app.window.page.transcript.row_widgets[-1]
    assert isinstance(row, ReplyRow)
    return row


def said(row: ReplyRow) -> str:
    body = row.findChild(MarkdownBody)
    assert body is not None
    return body.text()


def reply_of(row: ReplyRow) -> Reply:
    assert row.row.message.reply is not None
    return row.row.message.reply


def stats_of(row: ReplyRow) -> RequestStats:
    stats = reply_of(row).stats
    assert stats is not None
    return stats


def user_rows(app: App) -> list[UserRow]:
    return [row for row in app.window.page.transcript.row_widgets if isinstance(row, UserRow)]


def files(paths: Sequence[Path]) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def drop(app: App, data: QMimeData) -> None:
    page = app.window.page
    at, action = QPoint(50, 80), Qt.DropAction.CopyAction
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    page.dragEnterEvent(QDragEnterEvent(at, action, data, left, none))
    page.dropEvent(QDropEvent(QPointF(at), action, data, left, none))


def paste(app: App, data: QMimeData, plain: bool = False) -> None:
    """Press Ctrl+V, or Ctrl+Shift+V."""
    QGuiApplication.clipboard().setMimeData(data)
    control, shift = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
    keys = control | shift if plain else control
    QTest.keyClick(app.window.page.composer.text, Qt.Key.Key_V, keys)
    # What a clipboard still holds when Python ends is freed too late, and the process crashes.
    QGuiApplication.clipboard().clear()


def thumbnails(app: App) -> list[PictureThumbnail]:
    return app.window.page.composer.strip.thumbnails()


def arrive(live: LiveReply, text: str) -> None:
    live.take(Generated(request=1, answer=text))
    live.show_arrived()


def no_drafts() -> Drafts:
    tasks = Tasks(lambda error: None)
    engine = EngineController(FakeEngine(), tasks)
    database = SimpleNamespace(run_now=lambda stored: [])
    rest = {"tasks": tasks, "database": database, "settings": None, "remote": None}
    services = cast(Services, SimpleNamespace(engine=engine, blobs=BlobStore(Path()), **rest))
    pictures = PictureController(services)
    return Drafts(services, pictures, DocumentController(services, pictures))


def no_formats() -> Formats:
    return Formats(Tasks(lambda error: None))


async def settle() -> None:
    """Wait until nothing is laid out, drawn, read or stored any more."""
    # Qt's own events run while a coroutine sleeps. To process them inside one would run the next
    # step of another task within this one's, which asyncio refuses: that task never wakes again.
    for _ in range(10):
        await asyncio.sleep(0.005)
        await until(lambda: not (pace().is_busy() or unfinished()), "the window comes to rest")
