"""Pictures of the real window with the demo model, light and dark: for the README and for a look.

Usage: python -m tests.desktop.screenshots FOLDER     (under xvfb-run where there is no display)

Writes window-light.png, window-dark.png and the same for the settings. Not a test.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Literal

from PySide6.QtWidgets import QApplication
from qasync import QEventLoop

from core.client.client import EngineClient
from desktop import theme
from desktop.app import App
from desktop.engine.engine_status import Phase
from desktop.store.folders import SAMPLE_PICTURES, Folders
from tests.desktop.conftest import until

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
QUESTIONS = ("What is in the picture?", "What colour is the star?", "How many shapes are there?")
# Long enough for a reply to be settled, so that the next one reads only what is new.
PAUSE_S = 2.0


async def ask(app: App, question: str) -> None:
    rows = app.parts.transcript.rows
    app.parts.chat.draft.text = question
    app.window.page.composer.text.setPlainText(question)
    app.window.page.composer.text.send_asked.emit()
    before = len(rows)
    await until(lambda: len(app.parts.transcript.rows) > before)
    await until(lambda: app.parts.chat.running is None)
    await asyncio.sleep(PAUSE_S)


async def take(folder: Path, data: Path) -> None:
    folders = Folders.choose(str(data))
    folders.create()
    app = App(folders, EngineClient(folders.engine_log))
    app.begin()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    app.window.page.composer.add_files([SAMPLE_PICTURES / "three-shapes.png"])
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    for question in QUESTIONS:
        await ask(app, question)
    for scheme in SCHEMES:
        qt = QApplication.instance()
        assert isinstance(qt, QApplication)
        theme.force(qt, scheme)
        for page, name in ((1, "settings"), (0, "window")):
            app.window.side_panel.show_page(page)
            await asyncio.sleep(0.3)
            app.window.grab().save(str(folder / f"{name}-{scheme}.png"))
    app.leave()
    await app.gone.wait()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    qt = QApplication(sys.argv[:1])
    qt.setQuitOnLastWindowClosed(False)
    theme.apply(qt)
    with tempfile.TemporaryDirectory() as data, QEventLoop(qt) as loop:
        loop.run_until_complete(take(folder, Path(data)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
