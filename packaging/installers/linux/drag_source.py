"""A window to drag a file out of, as out of a file manager: drag_source.py PATH

Stands in the lower right corner of the screen, and ends once the file was dropped somewhere.
"""

from __future__ import annotations

import sys

from PySide6.QtCore import QMimeData, Qt, QTimer, QUrl
from PySide6.QtGui import QDrag, QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel

STAYS_MS = 2_000


class Source(QLabel):
    """Begins a drag when the pointer moves with its button held."""

    def __init__(self, path: str) -> None:
        super().__init__("drag me")
        self._path = path
        self.setWindowTitle("Drag source")
        self.setFixedSize(120, 60)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        drag = QDrag(self)
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(self._path)])
        drag.setMimeData(data)
        taken = drag.exec(Qt.DropAction.CopyAction) is Qt.DropAction.CopyAction
        # Whoever took it asks for the file's name after that.
        QTimer.singleShot(STAYS_MS, lambda: QApplication.exit(0 if taken else 1))


if __name__ == "__main__":
    application = QApplication(sys.argv)
    source = Source(sys.argv[1])
    screen = application.primaryScreen().geometry()
    source.move(screen.width() - 130, screen.height() - 70)
    source.show()
    sys.exit(application.exec())
