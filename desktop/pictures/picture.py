"""A thumbnail with its caption, in the composer or in a message."""

from __future__ import annotations

import struct

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QImage,
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPixmap,
)
from PySide6.QtWidgets import QAbstractButton, QWidget

from desktop import theme
from desktop.i18n import tr
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Label, set_tip

# Large enough to recognise a picture, small enough for four in the narrowest composer.
LARGEST = QSize(168, 126)
SMALLEST = QSize(64, 64)
CORNER = 9.0
# Twice the largest thumbnail that the engine makes.
LARGEST_THUMBNAIL = 2048


class PictureThumbnail(QWidget):
    opened = Signal()
    removed = Signal()

    def __init__(
        self, png: bytes, caption: str, removable: bool, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._removable = removable
        self._face = _PictureFace(png, self)
        self._face.clicked.connect(self.opened)
        self._caption = Label(parent=self, name="pictureCaption", wraps=True)
        self._caption.setFixedWidth(LARGEST.width())
        # The room at the end aligns pictures of a row at the top.
        column(row(self._face, None), self._caption, None, of=self, spacing=4)
        self.setFocusProxy(self._face)
        self._words = ""
        self.set_caption(caption)
        theme.signals().changed.connect(self._on_theme)
        if removable:
            self._add_remove_button()

    def set_caption(self, caption: str) -> None:
        self._words = caption
        self._caption.setText(caption)
        self._caption.setVisible(bool(caption))
        # Few layouts ask a wrapped label for its height at its width.
        self._caption.ensurePolished()
        self._caption.setFixedHeight(max(0, self._caption.heightForWidth(LARGEST.width())))
        name = tr("Picture, {caption}").format(caption=caption) if caption else tr("Picture")
        self._face.setAccessibleName(name)

    def _on_theme(self) -> None:
        # The text size may have changed.
        self.set_caption(self._words)

    def caption(self) -> str:
        return self._words

    def _add_remove_button(self) -> None:
        button = IconButton(
            "close", tr("Remove this picture"), self._face, pixels=12, name="pictureRemove"
        )
        button.setFixedSize(20, 20)
        button.move(self._face.width() - 24, 4)
        button.clicked.connect(self.removed)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)
        if self._removable and event.key() in keys:
            self.removed.emit()
        else:
            super().keyPressEvent(event)


def read_thumbnail(png: bytes) -> QImage:
    """A null image if these bytes aren't one."""
    is_png = png.startswith(b"\x89PNG\r\n\x1a\n") and png[12:16] == b"IHDR" and len(png) > 24
    # Damaged data must not cost a decoder's time and memory.
    if not is_png or max(struct.unpack(">II", png[16:24])) > LARGEST_THUMBNAIL:
        return QImage()
    image = QImage()
    image.loadFromData(png, "PNG")
    return image


class _PictureFace(QAbstractButton):
    def __init__(self, png: bytes, parent: QWidget) -> None:
        super().__init__(parent)
        self._pixmap = QPixmap.fromImage(read_thumbnail(png))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        set_tip(self, tr("Show this picture large"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        size = self._pixmap.size() if not self._pixmap.isNull() else LARGEST
        fitted = size.scaled(LARGEST, Qt.AspectRatioMode.KeepAspectRatio)
        # Never enlarged, and never too small to press.
        self.setFixedSize(fitted.boundedTo(size).expandedTo(SMALLEST))

    def paintEvent(self, event: QPaintEvent) -> None:
        table = theme.colours()
        frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        outline = QPainterPath()
        outline.addRoundedRect(frame, CORNER, CORNER)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.fillPath(outline, QColor(table.code_background))
        painter.save()
        painter.setClipPath(outline)
        self._paint_picture(painter)
        painter.restore()
        noticed = self.hasFocus() or self.underMouse()
        painter.setPen(QPen(QColor(table.accent if noticed else table.border), 2 if noticed else 1))
        painter.drawPath(outline)

    def _paint_picture(self, painter: QPainter) -> None:
        if self._pixmap.isNull():
            painter.setPen(QColor(theme.colours().muted))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, tr("No preview"))
            return
        size = self._pixmap.size()
        fitted = size.scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio).boundedTo(size)
        target = QRectF(
            (self.width() - fitted.width()) / 2,
            (self.height() - fitted.height()) / 2,
            fitted.width(),
            fitted.height(),
        )
        painter.drawPixmap(target, self._pixmap, QRectF(self._pixmap.rect()))
