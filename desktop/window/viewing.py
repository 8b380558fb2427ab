"""Open documents, and large pictures from a strip; fetch their pixels, copy and save them."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import shiboken6
from PySide6.QtCore import QMimeData, QObject
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QWidget

from core.api.errors import WaymarkError
from core.api.events import ImageRendered
from core.api.limits import PICTURE_BEGINNING, picture_format
from desktop.documents.document_dialog import Choose, DocumentDialog
from desktop.documents.parts import estimated_tokens
from desktop.engine.error_words import error_text
from desktop.i18n import tr
from desktop.pictures.given_data import png_bytes
from desktop.pictures.picture_viewer import MOST_PIXELS, PictureViewer, within
from desktop.store.tables.records import Document, Picture
from desktop.widgets import dialogs
from desktop.widgets.plain_text import is_seen
from desktop.window.window_parts import WindowParts

PNG = "image/png"
# Marks clipboard data of this process.
OURS = f"application/x-waymark-{os.getpid()}"
NOT_IN_NAMES = '<>:"|?*'
LONGEST_NAME = 100


class NotSavedError(WaymarkError, title="The picture was not saved"): ...


class Viewing(QObject):
    def __init__(self, parts: WindowParts, window: QWidget) -> None:
        super().__init__(window)
        self._parts = parts
        self._window = window
        self._copied = False

    def open(self, digest: str) -> None:
        """The viewer can turn to the others of its chat or draft."""
        pictures = self._parts.chat.pictures_with(digest)
        found = next((each for each in pictures if each.digest == digest), None)
        if found is None:
            return
        viewer, spawn = PictureViewer(found, self._window, pictures), self._parts.tasks.spawn
        viewer.pixels_wanted.connect(
            lambda width, height: spawn(
                self._render(viewer, width, height), tr("Showing a picture")
            )
        )
        viewer.copy_asked.connect(
            lambda picture: spawn(self._copy(viewer, picture), tr("Copying a picture"))
        )
        viewer.save_asked.connect(
            lambda picture: spawn(self._save(viewer, picture), tr("Saving a picture"))
        )
        viewer.show()

    def open_document(
        self, document: Document, choose: Choose | None = None, words: str = ""
    ) -> None:
        """Show a document's text, where it has these words; with `choose`, the parts to read are
        chosen for the draft."""
        size, room = self._parts.draft_size.size, None
        if choose is not None and size is not None:
            room = size.left + estimated_tokens(document)
        dialog = DocumentDialog(document, self._window, choose, room)
        dialog.field.setText(words)
        dialog.show()

    async def _render(self, viewer: PictureViewer, width: int, height: int) -> None:
        picture, why = viewer.picture, ""
        rendered: ImageRendered | None = None
        try:
            rendered = await self._parts.pictures.render(picture, width, height)
        except WaymarkError as error:
            why = error_text(error)
        # The viewer may be closed by now, or show another picture.
        if not shiboken6.isValid(viewer) or viewer.picture is not picture:
            return
        if rendered is None:
            viewer.show_error(why)
        else:
            viewer.show_pixels(rendered)

    async def _copy(self, viewer: PictureViewer, picture: Picture) -> None:
        size = within(picture.size, MOST_PIXELS)
        rendered = await self._parts.pictures.render(picture, size.width(), size.height())
        width, height = rendered.width, rendered.height
        kind = QImage.Format.Format_RGBA8888
        image = QImage(rendered.pixels, width, height, 4 * width, kind).copy()
        if sys.platform == "linux":
            # Otherwise Qt encodes it at each paste, which blocks the window.
            data = QMimeData()
            png = await asyncio.get_running_loop().run_in_executor(None, png_bytes, image)
            data.setData(PNG, png)
            data.setData(OURS, b"")
            self._copied = True
            QGuiApplication.clipboard().setMimeData(data)
        else:
            QGuiApplication.clipboard().setImage(image)
        if shiboken6.isValid(viewer):
            viewer.say_copied()

    def forget_copied(self) -> None:
        """Clear a copied picture from the clipboard; at Python's end it would be freed too late."""
        data: QMimeData | None = QGuiApplication.clipboard().mimeData() if self._copied else None
        if data is not None and data.hasFormat(OURS):
            QGuiApplication.clipboard().clear()

    async def _save(self, viewer: PictureViewer, picture: Picture) -> None:
        source = Path(self._parts.pictures.path_of(picture))
        run = asyncio.get_running_loop().run_in_executor
        try:
            name = await run(None, suggested_name, picture.name, source)
            target = await dialogs.choose_target(viewer, tr("Save the picture"), name)
            if target:
                await run(None, shutil.copyfile, source, target)
        except OSError as error:
            words = tr("The system gave no reason.")
            if error.strerror:
                words = tr("The system's reason: {reason}.").format(reason=error.strerror)
            raise NotSavedError(words) from error


def suggested_name(name: str, source: Path) -> str:
    """With the suffix of the picture's format. Raises OSError."""
    with source.open("rb") as file:
        known = picture_format(file.read(PICTURE_BEGINNING))
    stem = Path(_safe(name) or tr("Picture"))
    suffixes = known.suffixes if known else ("",)
    return str(stem) if stem.suffix.lower() in suffixes else f"{stem}{suffixes[0]}"


def _safe(name: str) -> str:
    last = name.replace("\\", "/").rpartition("/")[2][:LONGEST_NAME]
    return "".join(each for each in last if is_seen(each) and each not in NOT_IN_NAMES).strip(" .")
