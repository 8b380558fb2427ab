"""A part of the screen, chosen with the mouse, as a picture."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from PySide6.QtCore import QMarginsF, QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QCloseEvent,
    QColor,
    QGuiApplication,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QScreen,
)
from PySide6.QtWidgets import QWidget

from core.api.errors import WaymarkError
from desktop import theme
from desktop.i18n import tr

# Systems fade windows out.
HIDING_S = 0.3
# A click without a drag is no choice.
SHORTEST_EDGE = 4
SHADE = QColor(0, 0, 0, 120)
MARGIN = 12


class ScreenUnreadableError(WaymarkError, title="There is no picture of the screen"): ...


def can_read_screen() -> bool:
    """Not under Wayland, where programs see only their own windows, also through X11."""
    wayland = sys.platform == "linux" and bool(os.environ.get("WAYLAND_DISPLAY"))
    return not wayland and "wayland" not in QGuiApplication.platformName()


async def choose_screen_part(window: QWidget) -> QImage:
    """Hides the window; a null image if the user cancels. Raises ScreenUnreadableError."""
    popups = (Qt.WindowType.Popup, Qt.WindowType.ToolTip)
    hidden = [
        each
        for each in (window, *window.findChildren(QWidget))
        if each.isWindow() and each.isVisible() and each.windowType() not in popups
    ]
    covers: list[ScreenCover] = []
    chosen: asyncio.Future[QImage] = asyncio.get_running_loop().create_future()
    try:
        for each in hidden:
            each.hide()
        await asyncio.sleep(HIDING_S)
        for screen in QGuiApplication.screens():
            shot = picture_of(screen)
            if not shot.isNull():
                covers.append(ScreenCover(shot, screen.geometry(), chosen))
        if not covers:
            raise ScreenUnreadableError(tr("The system doesn't let Waymark see it."))
        for cover in covers:
            cover.show()
            cover.activateWindow()
        return await chosen
    finally:
        for cover in covers:
            cover.hide()
            cover.deleteLater()
        for each in hidden:
            each.show()
        window.activateWindow()


def picture_of(screen: QScreen) -> QPixmap:
    """In the screen's pixels; null if the system gives none."""
    return screen.grabWindow(0)


class ScreenCover(QWidget):
    """`chosen` gets the dragged rectangle, with Enter all of it, and a null image for Esc or
    another button."""

    def __init__(self, shot: QPixmap, place: QRect, chosen: asyncio.Future[QImage]) -> None:
        flags = Qt.WindowType.FramelessWindowHint | Qt.WindowType.WindowStaysOnTopHint
        super().__init__(None, flags)
        self.setObjectName("screenCover")
        self._words = tr("Drag over the part to add. Enter adds all of it, Esc nothing.")
        self.setWindowTitle(tr("Add a part of the screen"))
        self.setAccessibleName(self._words)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self._shot, self._place, self._chosen = shot, place, chosen
        self._screen = QRectF(QPoint(), place.size())
        # Pixels for each step of the pointer, whatever the system says.
        shot.setDevicePixelRatio(shot.width() / place.width())
        self._start = self._end = QPointF()
        self.setGeometry(place)

    @property
    def _part(self) -> QRectF:
        """Relative to the screen's corner."""
        return QRectF(self._start, self._end).normalized().intersected(self._screen)

    def _finish(self, part: QRectF | None = None) -> None:
        image = QImage()
        if part is not None:
            ratio = self._shot.devicePixelRatio()
            pixels = QRectF(part.topLeft() * ratio, part.size() * ratio).toAlignedRect()
            image = self._shot.copy(pixels).toImage()
        image.setDevicePixelRatio(1)
        # Another screen may have been first.
        with suppress(asyncio.InvalidStateError):
            self._chosen.set_result(image)

    def _place_of(self, event: QMouseEvent) -> QPointF:
        return event.globalPosition() - self._place.topLeft()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            self._finish()
        self._start = self._end = self._place_of(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._end = self._place_of(event)
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._end = self._place_of(event)
        if min(self._part.width(), self._part.height()) >= SHORTEST_EDGE:
            self._finish(self._part)
        self._start = self._end
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self._finish()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._finish(self._screen)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._finish()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        # A system may have placed the window beside its panels.
        painter.translate(self._place.topLeft() - self.mapToGlobal(QPoint()))
        painter.drawPixmap(0, 0, self._shot)
        painter.fillRect(self._screen, SHADE)
        if self._part.isEmpty():
            self._paint_words(painter)
            return
        painter.save()
        painter.setClipRect(self._part)
        painter.drawPixmap(0, 0, self._shot)
        painter.restore()
        painter.setPen(QPen(QColor(theme.colours().accent), 2))
        painter.drawRect(self._part)

    def _paint_words(self, painter: QPainter) -> None:
        centre = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
        place = painter.boundingRect(self._screen, centre, self._words)
        frame = place.marginsAdded(QMarginsF(MARGIN, MARGIN, MARGIN, MARGIN))
        painter.fillRect(frame, QColor(theme.colours().window))
        painter.setPen(QColor(theme.colours().text))
        painter.drawText(place, centre, self._words)
