"""Opens the window on a chat full of paths and addresses, looks at all of it, and closes it.

Usage: python -m tests.desktop.hostile_chat DATA BAIT CONTROL

BAIT stands wherever a path or an address can stand. CONTROL is opened at the end on purpose, the
way that the window must not. Run by test_files_opened.py, under strace.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QTextBrowser, QToolTip, QWidget
from qasync import QEventLoop

from desktop import theme
from desktop.app import App
from desktop.chat.rows.reply_row import ReplyRow
from desktop.engine.engine_status import Phase
from desktop.store.folders import Folders
from desktop.store.tables import chats, messages
from desktop.widgets.pacing import pace
from tests.desktop.conftest import until
from tests.desktop.fake_engine import FakeEngine, model_info
from tests.hostile.replies import reply

REPLIES = 60


async def rest() -> None:
    for _ in range(3):
        await until(lambda: not pace().is_busy())
        await asyncio.sleep(0.01)


async def look(data: Path, bait: str) -> None:
    folders = Folders.choose(str(data))
    folders.create()
    markup = f"<style>@import '{bait}';</style><img src='{bait}'>"
    model = model_info(name=markup, path=bait, family=markup, history_note=markup)
    app = App(folders, FakeEngine(model))

    def fill(connection: sqlite3.Connection) -> int:
        turn = messages.append_turn(connection, None, markup)
        chats.rename(connection, turn.chat, markup)
        for seed in range(REPLIES):
            turn = messages.append_turn(connection, turn.chat, f"{markup} {seed}")
            text = reply(seed, bait)[:50_000].encode(errors="replace").decode()
            connection.execute("UPDATE messages SET text = ? WHERE id = ?", (text, turn.reply))
        return turn.chat

    chat = await app.parts.database.run(fill)
    app.begin()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    app.parts.chat.open(chat)
    await until(lambda: app.parts.transcript.rows)
    await rest()
    view = app.window.page.transcript
    bar = view.verticalScrollBar()
    for share in range(0, 101, 5):
        bar.setValue(bar.maximum() * share // 100)
        await rest()
        for row in view.row_widgets:
            if isinstance(row, ReplyRow):
                row._reasoning.set_open(True)
    for widget in app.window.findChildren(QWidget):
        QToolTip.showText(QPoint(1, 1), widget.toolTip(), widget)
    for page in (1, 0):
        app.window.side_panel.show_page(page)
        app.window.grab()
    app.leave()
    await app.gone.wait()


def main(data: str, bait: str, control: str) -> None:
    qt = QApplication(sys.argv[:1])
    qt.setQuitOnLastWindowClosed(False)
    theme.apply(qt)
    with QEventLoop(qt) as loop:
        loop.run_until_complete(look(Path(data), bait))
    browser = QTextBrowser()
    browser.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    browser.setHtml(f"<img src='{control}'>")
    browser.grab()
    browser.deleteLater()


if __name__ == "__main__":
    main(*sys.argv[1:])
