"""Thumbnails in a row that scrolls sideways, made a few at a time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from functools import partial

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
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QHBoxLayout,
    QSizePolicy,
    QWidget,
)

from desktop import theme
from desktop.i18n import tr
from desktop.numbers import count_of, picture_caption
from desktop.pictures.draft import DraftPicture
from desktop.store.tables.records import Picture
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import ScrollArea, column, row
from desktop.widgets.pacing import pace
from desktop.widgets.plain import Label, set_tip

MADE_AT_ONCE = 4
GAP_PX = 4

Make = Callable[[], "PictureThumbnail"]
# Large enough to recognise a picture, small enough for four in the narrowest composer.
LARGEST = QSize(168, 126)
SMALLEST = QSize(64, 64)
CORNER = 9.0
# Twice the largest thumbnail that the engine makes.
LARGEST_THUMBNAIL = 2048


class PictureStrip(ScrollArea):
    # The user opens the picture with this digest.
    open_asked = Signal(str)
    # The user removes the draft picture with this number.
    remove_asked = Signal(int)
    filled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._content = QWidget()
        # Factories of all thumbnails, in order, and those made so far.
        self._wanted: dict[Hashable, Make] = {}
        self._made: dict[Hashable, PictureThumbnail] = {}
        self._row = QHBoxLayout(self._content)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(8)
        self._row.addStretch(1)
        self.setWidget(self._content)
        self._count = Label(parent=self, name="pictureCount", style="muted small")
        self._count.hide()
        self._newest = 0
        # Scroll to the newest picture until the user scrolls.
        self._to_end = False
        bar = self.horizontalScrollBar()
        bar.rangeChanged.connect(self._on_range)
        bar.actionTriggered.connect(self._stay)
        theme.signals().changed.connect(self._on_theme)
        self.hide()

    def show_pictures(self, pictures: Sequence[Picture]) -> None:
        self._to_end = False
        self._show({at: partial(self._sent, each) for at, each in enumerate(pictures)}, anew=True)

    def show_draft(self, pictures: Sequence[DraftPicture]) -> None:
        newest = max((each.number for each in pictures), default=0)
        self._to_end = newest > self._newest or (self._to_end and newest == self._newest)
        self._newest = newest
        # Rebuild only thumbnails whose description has arrived.
        self._show(
            {(each.number, id(each.picture)): partial(self._drafted, each) for each in pictures}
        )

    def thumbnails(self) -> list[PictureThumbnail]:
        return [self._made[key] for key in self._wanted if key in self._made]

    def _on_theme(self) -> None:
        # After the captions have taken their new text size.
        pace().go_on(self._fill)

    def _show(self, wanted: dict[Hashable, Make], anew: bool = False) -> None:
        self._wanted = wanted
        for key, old in list(self._made.items()):
            if anew or key not in wanted:
                del self._made[key]
                self._row.removeWidget(old)
                old.hide()
                old.setParent(None)
                old.deleteLater()
        self.setVisible(bool(wanted))
        if self._fill():
            pace().go_on(self._fill)

    def _fill(self) -> bool:
        """Returns whether any are left."""
        missing = [key for key in self._wanted if key not in self._made]
        for key in missing[:MADE_AT_ONCE]:
            thumbnail = self._made[key] = self._wanted[key]()
            self._row.insertWidget(self.thumbnails().index(thumbnail), thumbnail)
        self._fit()
        self.filled.emit()
        return len(missing) > MADE_AT_ONCE

    def _fit(self) -> None:
        """The count is shown if not all pictures are."""
        counts = self.horizontalScrollBar().maximum() > 0
        above = self._count.sizeHint().height() + GAP_PX if counts else 0
        self._count.setText(count_of(len(self._wanted), "picture"))
        self._count.adjustSize()
        self._count.setVisible(counts)
        self.setViewportMargins(0, above, 0, 0)
        if self._made:
            height = max(each.sizeHint().height() for each in self._made.values())
            self.setFixedHeight(above + height + self.horizontalScrollBar().sizeHint().height())

    def _on_range(self, _first: int, last: int) -> None:
        if self._to_end:
            self.horizontalScrollBar().setValue(last)
        if (last > 0) == self._count.isHidden():
            self._fit()
            self.filled.emit()

    def _stay(self) -> None:
        self._to_end = False

    def wheelEvent(self, event: QWheelEvent) -> None:
        """At its ends the page scrolls."""
        turned = event.pixelDelta() if not event.pixelDelta().isNull() else event.angleDelta()
        bar, before = self.horizontalScrollBar(), self.horizontalScrollBar().value()
        bar.setValue(before - (turned.y() or turned.x()))
        moved = bar.value() != before
        self._to_end = self._to_end and not moved
        event.setAccepted(moved)

    def _sent(self, picture: Picture) -> PictureThumbnail:
        thumbnail = PictureThumbnail(picture.thumbnail, _caption_of(picture), False)
        set_tip(thumbnail, picture.name)
        thumbnail.opened.connect(lambda: self.open_asked.emit(picture.digest))
        return thumbnail

    def _drafted(self, draft: DraftPicture) -> PictureThumbnail:
        known = draft.picture
        png = known.thumbnail if known else None
        caption = _caption_of(known) if known else tr("Checking…")
        thumbnail = PictureThumbnail(png, caption, True)
        set_tip(thumbnail, draft.name)
        thumbnail.removed.connect(lambda: self.remove_asked.emit(draft.number))
        if known is not None:
            thumbnail.opened.connect(lambda: self.open_asked.emit(known.digest))
        return thumbnail


def _caption_of(picture: Picture) -> str:
    return picture_caption(picture.size, picture.resized, picture.tokens)


class PictureThumbnail(QWidget):
    opened = Signal()
    removed = Signal()

    def __init__(
        self, png: bytes | None, caption: str, removable: bool, parent: QWidget | None = None
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
    """Null if these bytes aren't one."""
    is_png = png.startswith(b"\x89PNG\r\n\x1a\n") and png[12:16] == b"IHDR" and len(png) > 24
    # Damaged data must not cost a decoder's time and memory.
    if not is_png or max(struct.unpack(">II", png[16:24])) > LARGEST_THUMBNAIL:
        return QImage()
    image = QImage()
    image.loadFromData(png, "PNG")
    return image


class _PictureFace(QAbstractButton):
    def __init__(self, png: bytes | None, parent: QWidget) -> None:
        """`png` is None while the picture is being checked."""
        super().__init__(parent)
        self._waits = png is None
        self._pixmap = QPixmap.fromImage(read_thumbnail(png or b""))
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
            if not self._waits:
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
