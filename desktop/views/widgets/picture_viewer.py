"""A picture at full size, in a window of its own.

Knows how to read a picture file within a limit, fit it, zoom and pan. Leaves which file to its
caller. Failing to read is said in words where the picture would be.
"""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QImage, QImageReader
from PySide6.QtWidgets import QDialog, QHBoxLayout, QStackedLayout, QVBoxLayout, QWidget

from desktop.item_models.wording import format_count
from desktop.views.plain import Label
from desktop.views.widgets.icon_button import IconButton
from desktop.views.widgets.picture_canvas import PictureCanvas

# 64 million pixels of 4 bytes; a larger file is shown reduced to this many.
MOST_PIXELS = 64_000_000
ALLOCATION_LIMIT_MIB = 512
# The formats that can be sent; a drawing (SVG) or a document could name other files.
FORMATS = frozenset({"png", "jpeg", "jpg", "webp", "gif", "bmp", "tif", "tiff"})


class PictureViewer(QDialog):
    """Shows the picture file at `path`; open it with `open()` or `show()`."""

    def __init__(self, path: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Picture")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(900, 700)
        self._canvas = PictureCanvas(self)
        self._words = Label(parent=self, name="pictureError", style="error", wraps=True)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._size = Label(parent=self, name="pictureSize", style="muted small")
        self._fit_button = IconButton("fit", "Fit the picture into the window (F)", self)
        self._full_button = IconButton("actual_size", "Show every pixel, one to one (1)", self)
        self._fit_button.setShortcut("F")
        self._full_button.setShortcut("1")
        self._fit_button.clicked.connect(self._canvas.fit)
        self._full_button.clicked.connect(self._canvas.show_one_to_one)
        self._canvas.zoomed.connect(self._on_zoomed)
        self._lay_out()
        self._show_file(path)

    def canvas(self) -> PictureCanvas:
        """The part that draws the picture."""
        return self._canvas

    def error(self) -> str:
        """Why there is no picture; empty if there is one."""
        return self._words.text()

    def _show_file(self, path: str) -> None:
        image, size, error = read_picture(path)
        if error:
            self._words.setText(error)
            self._stack.setCurrentWidget(self._words)
            for button in (self._fit_button, self._full_button):
                button.setEnabled(False)
            return
        self._pixels = f"{format_count(size.width())} x {format_count(size.height())} pixels"
        if image.size() != size:
            self._pixels += ", shown reduced"
        self._canvas.set_image(image)
        self._canvas.setFocus()

    def _on_zoomed(self, percent: int) -> None:
        self._size.setText(f"{self._pixels}, {percent} %")

    def _lay_out(self) -> None:
        holder = QWidget(self)
        self._stack = QStackedLayout(holder)
        self._stack.addWidget(self._canvas)
        self._stack.addWidget(self._words)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 8, 6)
        bar.addWidget(self._size)
        bar.addStretch(1)
        bar.addWidget(self._fit_button)
        bar.addWidget(self._full_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(holder, 1)
        layout.addLayout(bar)


def read_picture(path: str) -> tuple[QImage, QSize, str]:
    """The picture upright, its own size, and, if it cannot be read, why not."""
    reader = QImageReader(path)
    reader.setAutoTransform(True)
    QImageReader.setAllocationLimit(ALLOCATION_LIMIT_MIB)
    if not reader.canRead() or bytes(reader.format().data()).decode() not in FORMATS:
        return QImage(), QSize(), "This picture's file is missing or is not a picture any more."
    stored = reader.size()
    pixels = stored.width() * stored.height()
    if pixels > MOST_PIXELS:
        reader.setScaledSize(stored * (MOST_PIXELS / pixels) ** 0.5)
    image = reader.read()
    if image.isNull():
        return QImage(), QSize(), f"This picture cannot be read: {reader.errorString()}"
    turned = (image.width() < image.height()) != (stored.width() < stored.height())
    return image, stored.transposed() if turned else stored, ""
