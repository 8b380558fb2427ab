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
from desktop.widgets.plain import Label

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
        self.allowed = Switch()
        self.allowed.setObjectName("networkAllowed")
        self.allowed.setAccessibleName(may)
        self.allowed.setChecked(network.allowed)
        self.allowed.toggled.connect(self.apply)
        self._hub = self._field("networkHub", tr("Model server"), network.hub, HUB)
        self._proxy = self._field(
            "networkProxy", tr("Proxy"), network.proxy, tr("the system's proxy")
        )
        self._token = self._field(
            "networkToken", tr("Access token"), downloads.token, tr("not stored; until you quit")
        )
        self._token.setEchoMode(QLineEdit.EchoMode.Password)
        self._limit = QSpinBox()
        self._limit.setObjectName("networkLimit")
        self._limit.setAccessibleName(tr("Limit of speed in MB a second"))
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
        form.addRow(row(self.allowed, Label(may), None))
        for name, field in (
            (tr("Model server"), self._hub),
            (tr("Proxy"), self._proxy),
            (tr("Access token"), self._token),
            (tr("Speed"), self._limit),
        ):
            form.addRow(Label(name, style="label"), field)
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
        )
        token = self._token.text().strip()
        if (network, token) != (self._downloads.network, self._downloads.token):
            self._downloads.change(network, token)

    def _field(self, name: str, spoken: str, text: str, empty: str) -> QLineEdit:
        field = QLineEdit(text)
        field.setObjectName(name)
        field.setAccessibleName(spoken)
        field.setPlaceholderText(empty)
        field.editingFinished.connect(self.apply)
        return field
