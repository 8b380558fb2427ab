"""Let the user pick one of several models in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from desktop import theme
from desktop.engine.engine_status import shown_name
from desktop.i18n import tr
from desktop.widgets.plain import Button, Label

WIDTH, HEIGHT, ITEM_HEIGHT = 420, 320, 32


class ModelsDialog(QDialog):
    def __init__(self, models: Sequence[Path], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelsDialog")
        self.setWindowTitle(tr("Choose a model folder"))
        self._list = QListWidget()
        self._list.setObjectName("modelsFound")
        found = tr("This folder holds several models. Choose one.")
        self._list.setAccessibleName(found)
        for model in models:
            item = QListWidgetItem(shown_name(str(model)))
            item.setSizeHint(QSize(0, theme.px(ITEM_HEIGHT)))
            item.setData(Qt.ItemDataRole.UserRole, str(model))
            self._list.addItem(item)
        self._list.setCurrentRow(0)
        self._list.itemDoubleClicked.connect(self.accept)
        choose = Button(tr("Choose"), name="modelsChoose", spoken=tr("Choose"))
        choose.setProperty("class", "primary")
        choose.setDefault(True)
        choose.clicked.connect(self.accept)
        cancel = Button(tr("Cancel"), name="modelsCancel", spoken=tr("Cancel"))
        cancel.clicked.connect(self.reject)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(cancel)
        row.addWidget(choose)
        layout = QVBoxLayout(self)
        layout.addWidget(Label(found, style="muted", wraps=True))
        layout.addWidget(self._list, 1)
        layout.addLayout(row)
        self.resize(WIDTH, HEIGHT)

    def model(self) -> str:
        """The path of the selected model, or ''."""
        item = self._list.currentItem()
        return "" if item is None else str(item.data(Qt.ItemDataRole.UserRole))
