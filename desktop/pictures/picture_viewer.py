"""A picture at full size: zoom, pan, copy, save.

The thumbnail is shown until the visible pixels arrive; zooming in asks for more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QImage,
    QKeyEvent,
    QPainter,
    QPixmap,
    QResizeEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QGraphicsPixmapItem,
    QGraphicsScene,
    QGraphicsView,
    QStackedLayout,
    QWidget,
)

from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.pictures.picture_strip import read_thumbnail
from desktop.store.tables.records import Picture
from desktop.widgets.dialogs import Dialog
from desktop.widgets.icon_button import CopyButton, IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Label, named

WIDTH, HEIGHT = 900, 700
# More would take too long through the pipe from the engine's process.
MOST_PIXELS = 6_000_000
# Pixels are requested once zooming has paused.
REST_MS = 150
# Requested beyond what is visible, so that not every step of the wheel requests again.
SPARE = 1.25
# One notch of a wheel is 120 units; eight notches double five times over.
ZOOM_PER_UNIT = 1.0015
LARGEST_ZOOM = 32.0
SMALLEST_ZOOM = 0.02


class PictureViewer(Dialog):
    # Width and height of the pixels wanted by `show_pixels`.
    pixels_wanted = Signal(int, int)
    # The Picture.
    copy_asked = Signal(object)
    # The Picture.
    save_asked = Signal(object)

    def __init__(
        self,
        picture: Picture,
        parent: QWidget | None = None,
        pictures: Sequence[Picture] = (),
    ) -> None:
        super().__init__("pictureViewer", tr("Picture"), parent, once=True)
        self.picture = picture
        self._pictures = list(pictures) or [picture]
        self.fit(WIDTH, HEIGHT)
        self._whole = QSize(*picture.size)
        # Sizes of the pixels shown, empty until they arrive, and requested.
        self.shown = self._asked = QSize()
        self.canvas = PictureCanvas(self._whole, self)
        self.canvas.set_image(read_thumbnail(picture.thumbnail))
        self._words = Label(parent=self, name="pictureError", style="error", wraps=True)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._size = Label(parent=self, name="pictureSize", style="muted small")
        self._place = Label(parent=self, name="picturePlace", style="muted small")
        self._before = IconButton(
            "chevron_left", tr("Previous picture (Left)"), self, name="pictureBefore"
        )
        self._next = IconButton(
            "chevron_right", tr("Next picture (Right)"), self, name="pictureNext"
        )
        self._copy = named(CopyButton(tr("Copy the picture (Ctrl+C)")), "pictureCopy")
        self._save = IconButton(
            "save", tr("Save the picture as a file (Ctrl+S)"), self, name="pictureSave"
        )
        self._fit_button = IconButton("fit", tr("Fit the picture into the window (F)"), self)
        self._full_button = IconButton("actual_size", tr("Show at actual size (1)"), self)
        for button, key, act in (
            (self._before, "Left", lambda: self._turn(-1)),
            (self._next, "Right", lambda: self._turn(1)),
            (self._copy, "Ctrl+C", lambda: self.copy_asked.emit(self.picture)),
            (self._save, "Ctrl+S", lambda: self.save_asked.emit(self.picture)),
            (self._fit_button, "F", self.canvas.fit),
            (self._full_button, "1", self.canvas.show_one_to_one),
        ):
            button.setShortcut(key)
            button.clicked.connect(act)
        self.canvas.zoomed.connect(self._on_zoomed)
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._ask)
        self._lay_out()
        self._show_place()
        self.canvas.setFocus()

    def error(self) -> str:
        return self._words.text()

    def say_copied(self) -> None:
        self._copy.say_copied()

    def _turn(self, step: int) -> None:
        place = self._pictures.index(self.picture) + step
        if not 0 <= place < len(self._pictures):
            return
        self.picture = self._pictures[place]
        self._whole, self.shown, self._asked = QSize(*self.picture.size), QSize(), QSize()
        self._words.setText("")
        self._stack.setCurrentWidget(self.canvas)
        for button in (self._fit_button, self._full_button):
            button.setEnabled(True)
        self.canvas.set_size(self._whole)
        self.canvas.set_image(read_thumbnail(self.picture.thumbnail))
        self._show_place()
        self._say_size()
        self._ask()

    def _show_place(self) -> None:
        place, count = self._pictures.index(self.picture), len(self._pictures)
        self._place.setText(tr("{place} of {count}").format(place=place + 1, count=count))
        self._before.setEnabled(place > 0)
        self._next.setEnabled(place < count - 1)
        for widget in (self._place, self._before, self._next):
            widget.setVisible(count > 1)

    def show_pixels(self, image: QImage) -> None:
        # An earlier request may be answered later.
        if image.width() >= self.shown.width():
            self.canvas.set_image(image)
            self.shown = image.size()
            self._say_size()

    def show_error(self, why: str) -> None:
        if not self.shown.isEmpty():
            # The next zoom requests again.
            self._asked = self.shown
            return
        self._words.setText(why)
        self._stack.setCurrentWidget(self._words)
        for button in (self._fit_button, self._full_button):
            button.setEnabled(False)

    def _wanted(self) -> QSize:
        """Slightly more than is visible, at most the picture's size."""
        return within(self.picture.size, MOST_PIXELS, SPARE * self.canvas.zoom())

    def _ask(self) -> None:
        wanted = self._wanted()
        enough = max(self._asked.width(), self.shown.width())
        if not self.error() and wanted.width() > enough:
            self._asked = wanted
            self.pixels_wanted.emit(wanted.width(), wanted.height())

    def _on_zoomed(self, _percent: int) -> None:
        self._say_size()
        if self.isVisible() and self.canvas.zoom() * self._whole.width() > self._asked.width():
            self._rest.start()

    def _say_size(self) -> None:
        whole = self._whole
        drawn = self.canvas.zoom() * whole.width()
        # A difference of one pixel is rounding.
        if 0 < self.shown.width() < min(drawn, whole.width()) - 1:
            words = tr("{width} x {height} pixels, shown reduced, {zoom} %")
        else:
            words = tr("{width} x {height} pixels, {zoom} %")
        width, height = format_count(whole.width()), format_count(whole.height())
        zoom = round(100 * self.canvas.zoom())
        self._size.setText(words.format(width=width, height=height, zoom=zoom))

    def _lay_out(self) -> None:
        holder = QWidget(self)
        self._stack = QStackedLayout(holder)
        self._stack.addWidget(self.canvas)
        self._stack.addWidget(self._words)
        turn, use = (self._before, self._place, self._next), (self._copy, self._save)
        zoom = (self._fit_button, self._full_button)
        bar = row(self._size, None, *turn, *use, *zoom, margins=(12, 6, 8, 6))
        column((holder, 1), bar, of=self, spacing=0)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._ask()


class PictureCanvas(QGraphicsView):
    # The zoom in percent.
    zoomed = Signal(int)

    def __init__(self, size: QSize, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fitted = True
        self._pixels = QGraphicsPixmapItem()
        self._pixels.setTransformationMode(Qt.TransformationMode.SmoothTransformation)
        scene = QGraphicsScene(QRectF(0, 0, size.width(), size.height()), self)
        scene.addItem(self._pixels)
        self.setScene(scene)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.AnchorUnderMouse)
        self.setAccessibleName(tr("Picture"))
        self.fit()

    def set_size(self, size: QSize) -> None:
        scene = self.scene()
        assert scene is not None
        scene.setSceneRect(0, 0, size.width(), size.height())
        self.fit()

    def set_image(self, image: QImage) -> None:
        """The picture may have more pixels."""
        self._pixels.setPixmap(QPixmap.fromImage(image))
        if not image.isNull():
            self._pixels.setScale(self.sceneRect().width() / image.width())

    def fit(self) -> None:
        """Also after each resize of the window; never enlarges."""
        self._fitted = True
        area, picture = self.viewport().rect(), self.sceneRect()
        if picture.isEmpty() or area.isEmpty():
            return
        # One to one means device pixels.
        largest = 1 / self.devicePixelRatioF()
        scale = min(area.width() / picture.width(), area.height() / picture.height(), largest)
        self._set_scale(scale)

    def show_one_to_one(self) -> None:
        self._fitted = False
        self._set_scale(1 / self.devicePixelRatioF())

    def zoom(self) -> float:
        return self.transform().m11() * self.devicePixelRatioF()

    def zoom_by(self, factor: float) -> None:
        self._fitted = False
        zoom = min(LARGEST_ZOOM, max(SMALLEST_ZOOM, self.zoom() * factor))
        self._set_scale(zoom / self.devicePixelRatioF())

    def _set_scale(self, scale: float) -> None:
        self.resetTransform()
        self.scale(scale, scale)
        self.zoomed.emit(round(self.zoom() * 100))

    def wheelEvent(self, event: QWheelEvent) -> None:
        self.zoom_by(ZOOM_PER_UNIT ** event.angleDelta().y())
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_by(1.25)
        elif event.key() == Qt.Key.Key_Minus:
            self.zoom_by(0.8)
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._fitted:
            self.fit()


def within(size: tuple[int, int], most: int, zoom: float = 1.0) -> QSize:
    """At most the size itself and `most` pixels."""
    width, height = size
    scale = min(1.0, zoom, math.sqrt(most / max(1, width * height)))
    return QSize(max(1, math.ceil(width * scale)), max(1, math.ceil(height * scale)))
