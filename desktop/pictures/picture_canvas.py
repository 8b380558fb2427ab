"""The area a large picture is drawn in: zoom by wheel and keys, pan by dragging.

Knows nothing of files; it is told how large the picture is, and given pixels, of which there may be
fewer than the picture has.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QPainter, QPixmap, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QFrame,
    QGraphicsPixmapItem,
    QGraphicsScene,
    QGraphicsView,
    QWidget,
)

# One notch of a wheel is 120 units; eight notches double five times over.
ZOOM_PER_UNIT = 1.0015
LARGEST_ZOOM = 32.0
SMALLEST_ZOOM = 0.02


class PictureCanvas(QGraphicsView):
    """Draws a picture fitted or at any zoom; `zoomed` carries the present zoom in percent."""

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
        self.setAccessibleName("Picture")
        self.fit()

    def set_size(self, size: QSize) -> None:
        """Draw another picture, of this size, fitted."""
        scene = self.scene()
        assert scene is not None
        scene.setSceneRect(0, 0, size.width(), size.height())
        self.fit()

    def set_image(self, image: QImage) -> None:
        """Draw these pixels, which are all of the picture, whatever their number."""
        self._pixels.setPixmap(QPixmap.fromImage(image))
        if not image.isNull():
            self._pixels.setScale(self.sceneRect().width() / image.width())

    def fit(self) -> None:
        """Show the whole picture, no larger than it is; stays so when the window is resized."""
        self._fitted = True
        area, picture = self.viewport().rect(), self.sceneRect()
        if picture.isEmpty() or area.isEmpty():
            return
        # A device pixel, not Qt's, is what one to one means.
        largest = 1 / self.devicePixelRatioF()
        scale = min(area.width() / picture.width(), area.height() / picture.height(), largest)
        self._set_scale(scale)

    def show_one_to_one(self) -> None:
        """One pixel of the picture is one pixel of the screen."""
        self._fitted = False
        self._set_scale(1 / self.devicePixelRatioF())

    def zoom(self) -> float:
        """Screen pixels per picture pixel."""
        return self.transform().m11() * self.devicePixelRatioF()

    def is_fitted(self) -> bool:
        """Whether the picture follows the window's size."""
        return self._fitted

    def zoom_by(self, factor: float) -> None:
        """Draw larger or smaller."""
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
