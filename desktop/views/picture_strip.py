"""A row of thumbnails that scrolls sideways: those of a draft, removable, or of a message."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QSizePolicy, QWidget

from core.api.events import ImageDescribed
from desktop import theme
from desktop.item_models.draft import DraftPicture
from desktop.item_models.wording import picture_caption
from desktop.store.records import Picture
from desktop.views.given_data import png_bytes
from desktop.views.plain import set_tip
from desktop.views.widgets.picture import PictureThumbnail


class PictureStrip(QScrollArea):
    """Thumbnails in order.

    Signals:
        open_asked(str): the picture with this digest was clicked.
        remove_asked(int): take the draft picture of this number out.
    """

    open_asked = Signal(str)
    remove_asked = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._content = QWidget()
        self._drafts: dict[int, tuple[Picture | None, PictureThumbnail]] = {}
        self._row = QHBoxLayout(self._content)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(8)
        self._row.addStretch(1)
        self.setWidget(self._content)
        # A scroll area fills its widget with the window's colour; here the bubble shows through.
        self._content.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        self.hide()

    def show_pictures(self, pictures: Sequence[Picture]) -> None:
        """The pictures of a sent message."""
        self._fill([self._sent(picture) for picture in pictures])

    def show_draft(self, pictures: Sequence[DraftPicture]) -> None:
        """The pictures of a draft, those still being looked at among them."""
        known, self._drafts = self._drafts, {}
        for each in pictures:
            # Of fifty dropped pictures, only the one that was just looked at is made anew.
            kept = known.get(each.number)
            fresh = kept is None or kept[0] is not each.picture
            thumbnail = self._drafted(each) if kept is None or fresh else kept[1]
            self._drafts[each.number] = (each.picture, thumbnail)
        self._fill([thumbnail for _, thumbnail in self._drafts.values()])

    def thumbnails(self) -> list[PictureThumbnail]:
        return self._content.findChildren(PictureThumbnail)

    def _fill(self, thumbnails: Sequence[PictureThumbnail]) -> None:
        for old in self.thumbnails():
            self._row.removeWidget(old)
            if old not in thumbnails:
                old.hide()
                old.setParent(None)
                old.deleteLater()
        for place, thumbnail in enumerate(thumbnails):
            self._row.insertWidget(place, thumbnail)
        self.setVisible(bool(thumbnails))
        if thumbnails:
            height = max(each.sizeHint().height() for each in thumbnails)
            self.setFixedHeight(height + self.horizontalScrollBar().sizeHint().height())

    def _sent(self, picture: Picture) -> PictureThumbnail:
        thumbnail = PictureThumbnail(picture.thumbnail, caption_of(picture), False)
        set_tip(thumbnail, picture.name)
        thumbnail.opened.connect(lambda: self.open_asked.emit(picture.digest))
        return thumbnail

    def _drafted(self, draft: DraftPicture) -> PictureThumbnail:
        known = draft.picture
        png = known.thumbnail if known else blank_png()
        caption = caption_of(known) if known else "Looking at it \N{HORIZONTAL ELLIPSIS}"
        thumbnail = PictureThumbnail(png, caption, True)
        set_tip(thumbnail, draft.name)
        thumbnail.removed.connect(lambda: self.remove_asked.emit(draft.number))
        if known is not None:
            thumbnail.opened.connect(lambda: self.open_asked.emit(known.digest))
        return thumbnail


def caption_of(picture: Picture) -> str:
    """'4000 x 3000 -> 1184 x 864, 999 tokens'."""
    return picture_caption(
        ImageDescribed(
            request=0,
            digest=picture.digest,
            size=picture.size,
            resized=picture.resized,
            tokens=picture.tokens,
            thumbnail=b"",
        )
    )


def blank_png() -> bytes:
    """What stands for a picture until the engine has looked at it."""
    image = QImage(96, 96, QImage.Format.Format_RGB32)
    image.fill(QColor(theme.colours().room))
    return png_bytes(image)
