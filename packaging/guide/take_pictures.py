"""Take the pictures of the user guide: the real window, with the demo model, on a virtual screen.

Usage, from the repository's root:
PYTHONPATH=. xvfb-run -s "-screen 0 1280x820x24" python packaging/guide/take_pictures.py en|de
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from PIL import Image
from PySide6.QtGui import QCursor, QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QDialog, QLineEdit, QWidget

from core.api.reply_format import ReplyFormat
from desktop import app
from desktop.window.main_window import MainWindow

ROOT = Path(__file__).resolve().parents[2]
SETTLED_S = 2.0
REPLY_S = 60.0
CHOICES = ("The star is red.", "The star is green.", "The star is blue.")
WORDS = {
    "en": ("Shapes", "Picture puzzle", "One of three", "Precise", "model", "user-guide.md"),
    "de": ("Formen", "Bilderrätsel", "Eine von drei", "Genau", "Modell", "user-guide.de.md"),
}


class Photographer:
    def __init__(self, window: MainWindow, language: str) -> None:
        self.window, self.parts, self.page = window, window._parts, window.page
        self.language = language

    async def until(self, reached: Callable[[], object]) -> None:
        async with asyncio.timeout(REPLY_S):
            while not reached():  # noqa: ASYNC110 - the conditions have no common signal
                await asyncio.sleep(0.1)

    async def take(self, name: str, of: QWidget | None = None) -> None:
        await asyncio.sleep(SETTLED_S)
        shown = of or self.window
        picture = QGuiApplication.primaryScreen().grabWindow(shown.winId())
        target = ROOT / "docs" / "images" / f"guide-{name}-{self.language}.png"
        picture.save(str(target))
        Image.open(target).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
            target, optimize=True
        )

    async def ask(self, question: str, *files: str) -> None:
        composer = self.page.composer
        composer.add_files([ROOT / "resources" / "samples" / each for each in files])
        composer.text.setPlainText(question)
        await asyncio.sleep(SETTLED_S)
        self.parts.chat.send()
        await asyncio.sleep(SETTLED_S)
        await self.until(lambda: not self.parts.replies.live)
        await asyncio.sleep(SETTLED_S)

    async def act(self, name: str) -> None:
        self.window.actions_by_name[name].trigger()
        await asyncio.sleep(SETTLED_S)

    def rename(self, title: str) -> None:
        shown = self.parts.chats.shown
        assert shown is not None
        self.parts.chats.rename(shown, title)

    async def take_all(self) -> None:
        folder, puzzle, choice, preset, searched, guide = WORDS[self.language]
        self.window.resize(1280, 820)
        # The pointer lights up what is below it.
        QCursor.setPos(1279, 819)
        await self.until(lambda: self.parts.engine.status.model)
        await self.take("start")
        await self.ask("What is in the picture?", "three-shapes.png")
        self.rename(puzzle)
        await self.ask("What colour is the star?")
        await self.act("actionRegenerate")
        await self.until(lambda: not self.parts.replies.live)
        self.parts.folders_of_chats.make(self.parts.chats.shown)
        await asyncio.sleep(SETTLED_S)
        made = next(iter(self.parts.chat_list.folders))
        self.parts.folders_of_chats.rename(made, folder)
        self.page.composer.setFocus()
        await self.take("chat")
        self.parts.chat_settings.set_value("sampling.temperature", 0.2)
        self.parts.chat_settings.save(preset, with_model=False)
        self.page.composer.settings.click()
        await self.take_dialog("settings")
        await self.act("actionNewChat")
        self.parts.chat.ask_for(ReplyFormat(kind="choice", choices=CHOICES))
        await self.ask("What colour is the star?", "three-shapes.png")
        self.rename(choice)
        await self.ask(
            "A formula: $$x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$$ What colour is the star?"
        )
        await self.take("data")
        await self.act("actionNewChat")
        self.page.composer.add_files([ROOT / "docs" / guide])
        await asyncio.sleep(SETTLED_S)
        chip = self.page.composer.findChild(QAbstractButton, "documentOpen")
        assert chip is not None
        chip.click()
        await asyncio.sleep(SETTLED_S)
        field = self.shown_dialog().findChild(QLineEdit, "documentSearch")
        assert field is not None
        field.setText(searched)
        await self.take_dialog("document")
        await self.act("actionGetModel")
        # The speeds to expect are measured now.
        await self.until(lambda: self.parts.library.device.speeds)
        await self.take_dialog("models")

    def shown_dialog(self) -> QDialog:
        dialogs: list[QDialog] = self.window.findChildren(QDialog)
        return next(each for each in dialogs if each.isVisible())

    async def take_dialog(self, name: str) -> None:
        await asyncio.sleep(SETTLED_S)
        dialog = self.shown_dialog()
        await self.take(name, dialog)
        dialog.close()


class PhotographedApp(app.App):
    language: str

    def begin(self) -> None:
        super().begin()
        self.pictures = asyncio.ensure_future(self.take_pictures())

    async def take_pictures(self) -> None:
        try:
            await Photographer(self.window, self.language).take_all()
        finally:
            self.leave()


def main() -> None:
    PhotographedApp.language = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "settings.json").write_text(
            f'{{"window": {{"theme": "light", "language": "{PhotographedApp.language}"}}}}'
        )
        with mock.patch.object(app, "App", PhotographedApp):
            app.main(["--data", folder])


if __name__ == "__main__":
    main()
