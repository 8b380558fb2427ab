"""A picture at full size, in a window of its own.

Decodes nothing: it asks for as many pixels as are seen, and for more when the picture is drawn
larger. Until they come the thumbnail stands in for them. Leaves where pixels come from to whoever
hears `pixels_wanted`. That there are none is said in words where the picture would be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QImage, QShowEvent
from PySide6.QtWidgets import QDialog, QHBoxLayout, QStackedLayout, QVBoxLayout, QWidget

from core.api.events import ImageRendered
from desktop.numbers import format_count
from desktop.pictures.picture import read_thumbnail
from desktop.pictures.picture_canvas import PictureCanvas
from desktop.store.tables.records import Picture
from desktop.widgets.copy_button import CopyButton
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Label
from desktop.words import pictures as words

# More would take the pipe from the engine's process longer than the window may be kept waiting.
MOST_PIXELS = 6_000_000
# Zooming goes through many sizes in a moment; only where it rests are pixels asked for.
REST_MS = 150
# Asked for beyond what is seen, so that not every step of the wheel asks again.
SPARE = 1.25


class PictureViewer(QDialog):
    """Shows `picture`, and turns to the others of `pictures`; open it with `open()` or `show()`.

    Signals:
        pixels_wanted(int, int): so many pixels, width and height, are to be given to `show_pixels`.
        copy_asked(Picture), save_asked(Picture): put it on the clipboard, or into a file.
    """

    pixels_wanted = Signal(int, int)
    copy_asked = Signal(object)
    save_asked = Signal(object)

    def __init__(
        self,
        picture: Picture,
        parent: QWidget | None = None,
        pictures: Sequence[Picture] = (),
    ) -> None:
        super().__init__(parent)
        self.picture = picture
        self._pictures = list(pictures) or [picture]
        self.setWindowTitle("Picture")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(900, 700)
        self._whole = QSize(*picture.size)
        # How many pixels there are, and how many were asked for.
        self._shown = self._asked = QSize()
        self._canvas = PictureCanvas(self._whole, self)
        self._canvas.set_image(read_thumbnail(picture.thumbnail))
        self._words = Label(parent=self, name="pictureError", style="error", wraps=True)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._size = Label(parent=self, name="pictureSize", style="muted small")
        self._fit_button = IconButton("fit", words.FIT, self)
        self._full_button = IconButton("actual_size", words.ONE_TO_ONE, self)
        self._place = Label(parent=self, name="picturePlace", style="muted small")
        self._before = IconButton("chevron_left", words.PREVIOUS, self, name="pictureBefore")
        self._next = IconButton("chevron_right", words.NEXT, self, name="pictureNext")
        self._copy = CopyButton(words.COPY)
        self._copy.setObjectName("pictureCopy")
        self._save = IconButton("save", words.SAVE, self, name="pictureSave")
        for button, key in (
            (self._before, "Left"),
            (self._next, "Right"),
            (self._copy, "Ctrl+C"),
            (self._save, "Ctrl+S"),
        ):
            button.setShortcut(key)
        self._before.clicked.connect(lambda: self._turn(-1))
        self._next.clicked.connect(lambda: self._turn(1))
        self._copy.clicked.connect(lambda: self.copy_asked.emit(self.picture))
        self._save.clicked.connect(lambda: self.save_asked.emit(self.picture))
        self._fit_button.setShortcut("F")
        self._full_button.setShortcut("1")
        self._fit_button.clicked.connect(self._canvas.fit)
        self._full_button.clicked.connect(self._canvas.show_one_to_one)
        self._canvas.zoomed.connect(self._on_zoomed)
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._ask)
        self._lay_out()
        self._show_place()
        self._canvas.setFocus()

    def canvas(self) -> PictureCanvas:
        """The part that draws the picture."""
        return self._canvas

    def error(self) -> str:
        """Why there is no picture; empty if there is one."""
        return self._words.text()

    def pixels(self) -> QSize:
        """How many pixels there are to draw it from; none until they come."""
        return self._shown

    def say_copied(self) -> None:
        """Show for a moment that the picture was copied."""
        self._copy.say_copied()

    def _turn(self, step: int) -> None:
        """Show another picture, if there is one there."""
        place = self._pictures.index(self.picture) + step
        if not 0 <= place < len(self._pictures):
            return
        self.picture = self._pictures[place]
        self._whole, self._shown, self._asked = QSize(*self.picture.size), QSize(), QSize()
        self._words.setText("")
        self._stack.setCurrentWidget(self._canvas)
        for button in (self._fit_button, self._full_button):
            button.setEnabled(True)
        self._canvas.set_size(self._whole)
        self._canvas.set_image(read_thumbnail(self.picture.thumbnail))
        self._show_place()
        self._say_size()
        self._ask()

    def _show_place(self) -> None:
        place, count = self._pictures.index(self.picture), len(self._pictures)
        self._place.setText(words.place_words(place, count))
        self._before.setEnabled(place > 0)
        self._next.setEnabled(place < count - 1)
        for widget in (self._place, self._before, self._next):
            widget.setVisible(count > 1)

    def show_pixels(self, rendered: ImageRendered) -> None:
        """Draw the picture from these pixels."""
        size = QSize(rendered.width, rendered.height)
        if size.isEmpty() or len(rendered.pixels) != 4 * rendered.width * rendered.height:
            self.show_error(words.NOT_SHOWN)
            return
        kind = QImage.Format.Format_RGBA8888
        # What was asked for first may come last.
        if size.width() < self._shown.width():
            return
        image = QImage(rendered.pixels, size.width(), size.height(), 4 * size.width(), kind)
        self._canvas.set_image(image)
        self._shown = size
        self._say_size()

    def show_error(self, why: str) -> None:
        """Say why there is no picture; one that is there already stays."""
        if not self._shown.isEmpty():
            # With the next step of the zoom it is asked for again.
            self._asked = self._shown
            return
        self._words.setText(why)
        self._stack.setCurrentWidget(self._words)
        for button in (self._fit_button, self._full_button):
            button.setEnabled(False)

    def _wanted(self) -> QSize:
        """As many pixels as the picture is drawn with now and a few more, if it has so many."""
        return within(self.picture.size, MOST_PIXELS, SPARE * self._canvas.zoom())

    def _ask(self) -> None:
        wanted = self._wanted()
        enough = max(self._asked.width(), self._shown.width())
        if not self.error() and wanted.width() > enough:
            self._asked = wanted
            self.pixels_wanted.emit(wanted.width(), wanted.height())

    def _on_zoomed(self, _percent: int) -> None:
        self._say_size()
        # What is asked for already is enough for somewhat more than was seen.
        if self.isVisible() and self._canvas.zoom() * self._whole.width() > self._asked.width():
            self._rest.start()

    def _say_size(self) -> None:
        whole = self._whole
        said = f"{format_count(whole.width())} x {format_count(whole.height())} pixels"
        drawn = self._canvas.zoom() * whole.width()
        # Up to a pixel is a matter of rounding.
        if 0 < self._shown.width() < min(drawn, whole.width()) - 1:
            said += ", shown reduced"
        self._size.setText(f"{said}, {round(100 * self._canvas.zoom())} %")

    def _lay_out(self) -> None:
        holder = QWidget(self)
        self._stack = QStackedLayout(holder)
        self._stack.addWidget(self._canvas)
        self._stack.addWidget(self._words)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 8, 6)
        bar.addWidget(self._size)
        bar.addStretch(1)
        for widget in (self._before, self._place, self._next, self._copy, self._save):
            bar.addWidget(widget)
        bar.addWidget(self._fit_button)
        bar.addWidget(self._full_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(holder, 1)
        layout.addLayout(bar)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._ask()


def within(size: tuple[int, int], most: int, zoom: float = 1.0) -> QSize:
    """The size at this zoom, at most as it is, with at most so many pixels in all."""
    width, height = size
    scale = min(1.0, zoom, math.sqrt(most / max(1, width * height)))
    return QSize(max(1, math.ceil(width * scale)), max(1, math.ceil(height * scale)))
