"""Boxes of *Get a model*: how it connects, and the downloads at its lower edge."""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFormLayout, QLineEdit, QProgressBar, QSpinBox, QWidget

from core.downloads.messages import HUB
from desktop import theme
from desktop.i18n import tr
from desktop.models.downloads import RUNNING, DownloadsController, ShownDownload, Stage
from desktop.settings.controls import Switch
from desktop.store.settings import NetworkSettings
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import Frame, column, row
from desktop.widgets.notices import Question
from desktop.widgets.plain import Button, ElidedLabel, Label, named

FASTEST = 100_000


class ConnectionBox(Frame):
    folder_asked = Signal()

    def __init__(self, downloads: DownloadsController) -> None:
        super().__init__("connectionBox")
        self._downloads = downloads
        network = downloads.network
        may = tr(
            "Let Waymark connect, to search for and download models and to use servers that "
            "you added"
        )
        self.allowed = named(Switch(), "networkAllowed", may)
        self.allowed.setChecked(network.allowed)
        self.allowed.toggled.connect(self.apply)
        self._hub = self._field("networkHub", tr("Model server"), network.hub, HUB)
        self._proxy = self._field(
            "networkProxy", tr("Proxy"), network.proxy, tr("the system's proxy")
        )
        self._token = self._field("networkToken", tr("Access token"), "", "")
        self._token.setEchoMode(QLineEdit.EchoMode.Password)
        self._forget = IconButton("trash", tr("Delete the access token"), name="networkForgetToken")
        self._forget.clicked.connect(lambda: downloads.change(downloads.network, ""))
        downloads.changed.connect(self._show_token)
        self._show_token()
        self._limit = named(QSpinBox(), "networkLimit", tr("Speed limit in MB a second"))
        self._limit.setRange(0, FASTEST)
        self._limit.setSuffix(tr(" MB a second"))
        self._limit.setSpecialValueText(tr("no limit"))
        self._limit.setValue(network.megabytes_per_second)
        self._limit.lineEdit().setTextMargins(7, 0, 0, 0)
        self._limit.editingFinished.connect(self.apply)
        self._folder = self._field(
            "networkFolder", tr("Folder for models"), network.models_folder, str(downloads.folder)
        )
        choose = IconButton("folder", tr("Choose a folder for models"), name="networkChooseFolder")
        choose.clicked.connect(self.folder_asked)
        form = QFormLayout(self)
        form.setContentsMargins(12, 10, 12, 10)
        form.addRow(row(self.allowed, (Label(may, wraps=True), 1)))
        for name, field in (
            (tr("Model server"), self._hub),
            (tr("Proxy"), self._proxy),
            (tr("Speed"), self._limit),
        ):
            form.addRow(Label(name, style="label"), field)
        form.addRow(Label(tr("Access token"), style="label"), row((self._token, 1), self._forget))
        form.addRow(Label(tr("Folder"), style="label"), row((self._folder, 1), choose))

    def set_folder(self, folder: str) -> None:
        self._folder.setText(folder)
        self.apply()

    def apply(self) -> None:
        if folder := self._folder.text().strip():
            # The process of downloads has another working folder, and knows no "~".
            self._folder.setText(str(Path.home() / os.path.expanduser(folder)))
        network = NetworkSettings(
            allowed=self.allowed.isChecked(),
            hub=self._hub.text().strip(),
            proxy=self._proxy.text().strip(),
            models_folder=self._folder.text().strip(),
            megabytes_per_second=self._limit.value(),
            token_for=self._downloads.network.token_for,
        )
        # Once typed it is in the keyring or in memory: the window has no use for it.
        token = self._token.text().strip() or None
        self._token.clear()
        if token or network != self._downloads.network:
            self._downloads.change(network, token)

    def _show_token(self) -> None:
        self._token.setPlaceholderText(self._downloads.token_place())
        self._forget.setEnabled(self._downloads.has_token)

    def _field(self, name: str, spoken: str, text: str, empty: str) -> QLineEdit:
        field = named(QLineEdit(text), name, spoken)
        field.setPlaceholderText(empty)
        field.editingFinished.connect(self.apply)
        return field


STEPS = 1_000


class DownloadRow(Frame):
    # Pause, or resume.
    turned = Signal(str)
    # Delete what has arrived, or take a complete one off the list.
    left = Signal(str)
    # Load the model of a complete one.
    load_asked = Signal(str)

    def __init__(self, work: str) -> None:
        super().__init__("downloadRow")
        self._work = work
        self._name = ElidedLabel(name="downloadName", style="label")
        self._words = Label(name="downloadWords", style="muted small", wraps=True)
        self._bar = named(QProgressBar(), "downloadProgress")
        self._bar.setRange(0, STEPS)
        self._bar.setTextVisible(False)
        self._turn = Button(name="downloadTurn")
        self._turn.clicked.connect(lambda: self.turned.emit(work))
        self._leave = Button(name="downloadLeave")
        self._leave.clicked.connect(lambda: self.left.emit(work))
        self._load = Button(tr("Load"), name="downloadLoad", style="primary")
        self._load.clicked.connect(lambda: self.load_asked.emit(work))
        head = row((self._name, 1), self._turn, self._leave, self._load)
        column(head, self._bar, self._words, of=self, margins=(12, 8, 12, 8), spacing=6)

    def show_download(self, download: ShownDownload) -> None:
        name, stage = download.name, download.stage
        runs, complete = stage in RUNNING, stage is Stage.COMPLETE
        self._name.set_words(name)
        self._words.setText(download.words())
        theme.set_class(self._words, "error small" if stage is Stage.STOPPED else "muted small")
        self._bar.setValue(STEPS * download.done // max(1, download.total))
        self._bar.setAccessibleName(tr("Download of {name}").format(name=name))
        self._bar.setVisible(not complete)
        self._turn.set_words(tr("Pause") if runs else tr("Resume"))
        spoken = tr("Pause the download of {name}") if runs else tr("Resume the download of {name}")
        self._turn.setAccessibleName(spoken.format(name=name))
        self._turn.setVisible(not complete)
        self._leave.set_words(tr("Hide") if complete else tr("Delete"))
        spoken = tr("Hide {name}") if complete else tr("Delete the download of {name}")
        self._leave.setAccessibleName(spoken.format(name=name))
        self._leave.setEnabled(not runs)
        self._load.setAccessibleName(tr("Load {name}").format(name=name))
        self._load.setVisible(complete)


class DownloadList(QWidget):
    # The path of a model to load.
    load_asked = Signal(str)

    def __init__(self, downloads: DownloadsController, over: QWidget) -> None:
        """A question covers `over` before something is deleted."""
        super().__init__()
        self._downloads = downloads
        self._rows: dict[str, DownloadRow] = {}
        self._asked = ""
        self._layout = column(None, of=self, spacing=8)
        self.question = Question(
            over, "deleteDownload", tr("Delete a download"), tr("Keep it"), tr("Delete")
        )
        self.question.confirmed.connect(lambda: downloads.discard(self._asked))
        downloads.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        shown = self._downloads.shown
        for work in [work for work in self._rows if work not in shown]:
            gone = self._rows.pop(work)
            gone.hide()
            gone.deleteLater()
        for work, download in shown.items():
            if work not in self._rows:
                self._rows[work] = self._made(work)
            self._rows[work].show_download(download)

    def _made(self, work: str) -> DownloadRow:
        made = DownloadRow(work)
        made.turned.connect(self._turn)
        made.left.connect(self._leave)
        made.load_asked.connect(
            lambda work: self.load_asked.emit(str(self._downloads.shown[work].job.model))
        )
        # Above the empty room at the end.
        self._layout.insertWidget(self._layout.count() - 1, made)
        return made

    def _turn(self, work: str) -> None:
        runs = self._downloads.shown[work].stage in RUNNING
        (self._downloads.pause if runs else self._downloads.resume)(work)

    def _leave(self, work: str) -> None:
        download = self._downloads.shown[work]
        if download.stage is Stage.COMPLETE or not download.done:
            self._downloads.discard(work)
            return
        self._asked = work
        words = tr("Delete the part of {name} that is downloaded?").format(name=download.name)
        self.question.ask(words, self._rows[work])
