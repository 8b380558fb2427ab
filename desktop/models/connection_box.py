"""How *Get a model* connects: the switch that forbids it, server, proxy, token, speed, folder."""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFormLayout, QFrame, QLineEdit, QSpinBox

from core.downloads.messages import HUB
from desktop.i18n import tr
from desktop.models.downloads import DownloadsController
from desktop.settings.controls import Switch
from desktop.store.settings import NetworkSettings
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import row
from desktop.widgets.plain import Label, named

FASTEST = 100_000


class ConnectionBox(QFrame):
    folder_asked = Signal()

    def __init__(self, downloads: DownloadsController) -> None:
        super().__init__()
        self.setObjectName("connectionBox")
        self.setProperty("class", "card")
        self._downloads = downloads
        network = downloads.network
        may = tr(
            "Waymark may connect: for searches, downloads of models, and servers that you added"
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
        self._limit = named(QSpinBox(), "networkLimit", tr("Limit of speed in MB a second"))
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
