"""Dialogs over the window: models, servers, search, documents, and pictures in full size."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import shiboken6
from PySide6.QtCore import QMimeData, QObject
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QWidget

from core.api.errors import WaymarkError
from core.api.limits import PICTURE_BEGINNING, picture_format
from desktop.compare.compare_dialog import CompareDialog
from desktop.documents.document_dialog import Choose, DocumentDialog
from desktop.documents.parts import estimated_tokens
from desktop.engine.error_words import error_text
from desktop.i18n import tr
from desktop.models.get_model import GetModelDialog
from desktop.models.library_dialog import LibraryDialog
from desktop.models.model_choice import chosen_model, dropped_model
from desktop.pictures.given_data import png_bytes
from desktop.pictures.picture_viewer import MOST_PIXELS, PictureViewer, within
from desktop.pictures.screen_part import choose_screen_part
from desktop.presets import ChatSettingsDialog
from desktop.remote.remote import ServersDialog
from desktop.search.index import Hit
from desktop.search.search_dialog import SearchDialog
from desktop.server.server_page import LocalServerDialog
from desktop.store.tables.records import Document, Picture
from desktop.widgets import dialogs
from desktop.widgets.plain_text import is_seen
from desktop.window.chat_page import ChatPage
from desktop.window.window_parts import WindowParts

AddFiles = Callable[[list[Path]], None]
PNG = "image/png"
# Marks clipboard data of this process.
OURS = f"application/x-waymark-{os.getpid()}"
NOT_IN_NAMES = '<>:"|?*'
LONGEST_NAME = 100


class NotSavedError(WaymarkError, title="The picture was not saved"): ...


class WindowDialogs(QObject):
    def __init__(self, parts: WindowParts, page: ChatPage, window: QWidget) -> None:
        super().__init__(window)
        self._parts, self._page, self._window = parts, page, window
        self._copied = self._choosing_part = False
        parts.deletion.everything_gone.connect(self._forget_comparison)

    @cached_property
    def _get_model(self) -> GetModelDialog:
        dialog = GetModelDialog(
            self._parts.downloads, self._parts.library, self._parts.tasks, self._window
        )
        dialog.load_asked.connect(self.load_path)
        return dialog

    @cached_property
    def _library(self) -> LibraryDialog:
        parts = self._parts
        dialog = LibraryDialog(
            parts.library, parts.moves, parts.settings, parts.tasks, self._window
        )
        dialog.load_asked.connect(self.load_path)
        dialog.get_asked.connect(self.show_get_model)
        dialog.compare_asked.connect(self.show_compare)
        return dialog

    @cached_property
    def _compare(self) -> CompareDialog:
        dialog = CompareDialog(
            self._parts.compare, self._parts.library, self._parts.chat, self._window
        )
        dialog.link_asked.connect(self.open_link)
        return dialog

    @cached_property
    def chat_settings(self) -> ChatSettingsDialog:
        return ChatSettingsDialog(self._parts.chat_settings, self._window)

    @cached_property
    def server(self) -> LocalServerDialog:
        return LocalServerDialog(self._parts.server, self._window)

    @cached_property
    def _servers(self) -> ServersDialog:
        dialog = ServersDialog(self._parts.remote, self._parts.tasks, self._window)
        dialog.place_asked.connect(self._page.run_at)
        return dialog

    @cached_property
    def _search(self) -> SearchDialog:
        dialog = SearchDialog(self._parts.search, lambda: self._parts.chats.shown, self._window)
        dialog.open_asked.connect(self.open_hit)
        return dialog

    def show_get_model(self) -> None:
        dialogs.come_up(self._get_model, self._get_model.search)

    def show_library(self) -> None:
        dialogs.come_up(self._library, self._library.view)

    def show_compare(self) -> None:
        dialogs.come_up(self._compare, self._compare.message)

    def _forget_comparison(self) -> None:
        self._parts.compare.forget()
        if (dialog := self.__dict__.pop("_compare", None)) is not None:
            dialog.close()
            dialog.deleteLater()

    def show_servers(self) -> None:
        dialogs.come_up(self._servers, self._servers.address)

    def ask_for_key(self, address: str) -> None:
        self._servers.edit(address)
        dialogs.come_up(self._servers, self._servers.key)

    def show_search(self, words: str = "") -> None:
        self._search.begin(words)

    def open_hit(self, hit: Hit) -> None:
        if hit.message:
            self._parts.tasks.spawn(self._show_hit(hit), tr("Opening a chat"))
        else:
            self._parts.chat.open(hit.chat)
            self._page.composer.setFocus()

    async def _show_hit(self, hit: Hit) -> None:
        await self._parts.chat.open_at(hit.chat, hit.message)
        place, match = self._parts.transcript.place_of(hit.message), hit.extract.match
        if place is not None and match and not hit.in_document:
            self._page.find_bar.look_for(match, place)
        elif place is not None:
            self._page.transcript.show_message(place)
            documents = self._parts.transcript.rows[place].message.documents
            holding = (each for each in documents if any(match in part for part in each.parts))
            if hit.in_document and (found := next(holding, None)) is not None:
                self.open_document(found, words=match)

    def choose_model(self) -> None:
        self._parts.tasks.spawn(self._set_chosen_model(), tr("Choosing a model"))

    def choose_and_load(self, file: bool = False) -> None:
        self._parts.tasks.spawn(self._load_chosen_model(file), tr("Choosing a model"))

    async def _load_chosen_model(self, file: bool) -> None:
        if await self._set_chosen_model(file):
            self._parts.settings.load()

    async def _set_chosen_model(self, file: bool = False) -> bool:
        path = await chosen_model(self._window, self._parts.settings.settings, file=file)
        if path:
            self._parts.settings.set_model_path(path)
        return bool(path)

    def load_dropped(self, paths: list[Path]) -> None:
        self._parts.tasks.spawn(self._take_dropped(paths), tr("Choosing a model"))

    async def _take_dropped(self, paths: list[Path]) -> None:
        path = await dropped_model(self._window, paths)
        if path is None:
            self._page.composer.add_files(paths)
        elif path:
            self.load_path(path)

    def load_path(self, path: str) -> None:
        self._parts.settings.set_model_path(path)
        self._parts.settings.load()

    def look_for_models(self) -> None:
        self._parts.tasks.spawn(self._offer_models(), tr("Looking for models"))

    async def _offer_models(self) -> None:
        self._page.header.model.show_waits(await self._parts.predictions.of_models())
        self._page.header.model.show_offered(await self._parts.library.find())

    def choose_pictures(self, add: AddFiles | None = None) -> None:
        add = add or self._page.composer.add_files
        self._parts.tasks.spawn(self._add_chosen(add), tr("Choosing pictures"))

    async def _add_chosen(self, add: AddFiles) -> None:
        chosen = await dialogs.choose_files(self._window)
        if chosen:
            add([Path(name) for name in chosen])

    def choose_folder(self) -> None:
        self._parts.tasks.spawn(self._add_folder(), tr("Choosing a folder"))

    async def _add_folder(self) -> None:
        chosen = await dialogs.choose_folder(self._window, tr("Add a folder of documents"), "")
        if chosen:
            self._page.composer.add_files([Path(chosen)])

    def choose_screen_part(self) -> None:
        self._parts.tasks.spawn(self._add_screen_part(), tr("Adding a part of the screen"))

    async def _add_screen_part(self) -> None:
        # The tray and other dialogs can ask again before the covers are up.
        if self._choosing_part:
            return
        self._choosing_part = True
        try:
            image = await choose_screen_part(self._window)
        finally:
            self._choosing_part = False
        if not image.isNull():
            self._page.composer.add_image(image, tr("Part of the screen"))

    def open_link(self, address: str) -> None:
        self._parts.tasks.spawn(dialogs.open_link(self._window, address), tr("Opening a link"))

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
        """Show where the words are; `choose` gets the parts to read for the draft."""
        size, room = self._parts.draft_size.size, None
        if choose is not None and size is not None:
            room = size.left + estimated_tokens(document)
        dialog = DocumentDialog(document, self._window, choose, room)
        dialog.field.setText(words)
        dialog.show()

    async def _render(self, viewer: PictureViewer, width: int, height: int) -> None:
        picture, image, why = viewer.picture, QImage(), ""
        try:
            image = await self._parts.pictures.render(picture, width, height)
        except WaymarkError as error:
            why = error_text(error)
        # The viewer may be closed by now, or show another picture.
        if not shiboken6.isValid(viewer) or viewer.picture is not picture:
            return
        if why:
            viewer.show_error(why)
        else:
            viewer.show_pixels(image)

    async def _copy(self, viewer: PictureViewer, picture: Picture) -> None:
        size = within(picture.size, MOST_PIXELS)
        image = await self._parts.pictures.render(picture, size.width(), size.height())
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
        """At Python's end a copied picture would be freed too late."""
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
