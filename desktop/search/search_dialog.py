"""The search over all chats."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from PySide6.QtCore import (
    QModelIndex,
    QPointF,
    QRect,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QTextCharFormat, QTextLayout
from PySide6.QtWidgets import (
    QComboBox,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from desktop import theme
from desktop.i18n import tr
from desktop.numbers import BETWEEN, count_of, format_count
from desktop.search.folding import terms_of
from desktop.search.index import Hit, Query
from desktop.search.search import MOST_HITS, SearchController
from desktop.store.tables.fields import storable
from desktop.widgets.dialogs import Dialog, come_up
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, ElidedBox, Label, fit_box, named
from desktop.widgets.plain_text import shortened, utf16_length
from desktop.widgets.search_field import SearchField
from desktop.widgets.two_lines import AnyIndex, ListModel, set_up

WIDTH, HEIGHT = 720, 560
# A pause in typing, so that not every letter is searched for.
TYPED_MS = 120
DAY_S = 86_400.0
BOX_LETTERS = 12
NO_CHAT = -1
HIT_ROLE = Qt.ItemDataRole.UserRole
LONGEST_TITLE = 120
LINES = 2
SIDE_PX, ENDS_PX, GAP_PX = 12, 8, 3


class SearchDialog(Dialog):
    # Hit: show this message.
    open_asked = Signal(object)

    def __init__(
        self, search: SearchController, shown_chat: Callable[[], int | None], parent: QWidget
    ) -> None:
        super().__init__("searchDialog", tr("Search all chats"), parent)
        self._search, self._shown_chat = search, shown_chat
        self.field = SearchField("searchText", tr("Search all messages"))
        self._when = fit_box(
            named(QComboBox(), "searchWhen", tr("When it was written")), BOX_LETTERS
        )
        for words, days in (
            (tr("Any time"), 0),
            (tr("Last 7 days"), 7),
            (tr("Last 30 days"), 30),
            (tr("Last year"), 365),
        ):
            self._when.addItem(words, days)
        self._model = fit_box(
            named(ElidedBox(), "searchModel", tr("The model that wrote it")), BOX_LETTERS
        )
        self._model.addItem(tr("Any model"), "")
        self._chat = fit_box(named(QComboBox(), "searchChat", tr("The chat it is in")), BOX_LETTERS)
        self._chat.addItem(tr("All chats"), False)
        self._chat.addItem(tr("This chat"), True)
        self._pictures = Button(tr("With pictures"), name="searchPictures")
        self._pictures.setCheckable(True)
        self._pictures.setAutoDefault(False)
        self._said = Label(name="searchWords", style="muted small")
        self.hits = HitList()
        self.list = QListView()
        self._later = QTimer(self, singleShot=True, interval=TYPED_MS)
        self._build()
        self._connect()

    def begin(self, words: str = "") -> None:
        if words:
            self.field.setText(words)
        come_up(self, self.field)
        self.field.selectAll()
        self._search.begin()
        self._ask()

    def _build(self) -> None:
        named(self.list, "searchHits", tr("What was found"))
        set_up(self.list, self.hits, HitDelegate(self.list))
        close = self.button("searchClose", tr("Close"), self.close)
        filters = row(self._when, self._model, self._chat, self._pictures, None, spacing=8)
        bottom = row((self._said, 1), close)
        parts = (self.field, filters, (self.list, 1), bottom)
        column(*parts, of=self, margins=(16, 14, 16, 14), spacing=10)
        self.fit(WIDTH, HEIGHT)

    def _connect(self) -> None:
        self.field.textChanged.connect(self._later.start)
        self.field.found.connect(self._go_to_found)
        self.field.left.connect(self.close)
        self._later.timeout.connect(self._ask)
        for box in (self._when, self._model, self._chat):
            box.currentIndexChanged.connect(self._ask)
        self._pictures.toggled.connect(self._ask)
        # A click on a system that opens by one click is both.
        for chosen in (self.list.clicked, self.list.activated):
            chosen.connect(self._open)
        self._search.changed.connect(self._show)
        self._show()

    def _ask(self) -> None:
        self._later.stop()
        days = int(self._when.currentData() or 0)
        query = Query(
            terms_of(storable(self.field.text())),
            # A new chat has no messages to find.
            chat=(self._shown_chat() or NO_CHAT) if self._chat.currentData() else None,
            model=str(self._model.currentData() or ""),
            since=time.time() - days * DAY_S if days else 0.0,
            pictures=self._pictures.isChecked(),
        )
        filtered = query.chat or query.model or query.pictures
        self._search.look_for(query if query.terms or filtered else None)

    def _show(self) -> None:
        search = self._search
        self.hits.show(search.hits)
        if [self._model.itemData(at) for at in range(1, self._model.count())] != search.models:
            self._offer_models()
        self._said.setText(self._words())

    def _offer_models(self) -> None:
        chosen = self._model.currentData()
        self._model.blockSignals(True)
        while self._model.count() > 1:
            self._model.removeItem(1)
        for name in self._search.models:
            self._model.addItem(name, name)
        self._model.setCurrentIndex(max(0, self._model.findData(chosen)))
        self._model.blockSignals(False)

    def _words(self) -> str:
        search = self._search
        if search.error:
            return search.error
        asked = bool(self.field.text().strip() or search.hits)
        found = count_of(len(search.hits), "match")
        if len(search.hits) >= MOST_HITS:
            found = tr("The newest {count} matches").format(count=format_count(MOST_HITS))
        elif not search.hits:
            found = tr("Searching…") if search.is_searching else tr("Nothing was found.")
        parts = [found if asked else ""]
        if search.missing:
            left = tr("{count} older messages are still being indexed.")
            parts.append(left.format(count=format_count(search.missing)))
        return " ".join(part for part in parts if part)

    def _go_to_found(self) -> None:
        if self.hits.rowCount():
            self.list.setFocus()
            if not self.list.currentIndex().isValid():
                self.list.setCurrentIndex(self.hits.index(0))

    def _open(self, index: QModelIndex) -> None:
        hit = index.data(HIT_ROLE)
        if hit is not None and self.isVisible():
            self.hide()
            self.open_asked.emit(hit)


class HitList(ListModel[Hit]):
    def show(self, hits: Sequence[Hit]) -> None:
        """Rows that stay keep their selection."""
        before = len(self.shown)
        if list(hits[:before]) != self.shown:
            self.reset(hits)
        elif len(hits) > before:
            self.beginInsertRows(QModelIndex(), before, len(hits) - 1)
            self.shown = list(hits)
            self.endInsertRows()

    def data_of(self, hit: Hit, role: int) -> Any:
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return f"{hit.title}, {_facts(hit)}: {''.join(hit.extract)}"
            case _:
                return hit if role == HIT_ROLE else None


class HitDelegate(QStyledItemDelegate):
    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        line = QFontMetrics(option.font).height()
        return QSize(200, (1 + LINES) * line + GAP_PX + 2 * ENDS_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        hit = index.data(HIT_ROLE)
        frame = QStyleOptionViewItem(option)
        self.initStyleOption(frame, index)
        frame.text = ""
        frame.widget.style().drawControl(
            QStyle.ControlElement.CE_ItemViewItem, frame, painter, frame.widget
        )
        place = option.rect.adjusted(SIDE_PX, ENDS_PX, -SIDE_PX, -ENDS_PX)
        painter.save()
        painter.setClipRect(place)
        self._paint_head(painter, option.font, place, hit)
        top = place.top() + QFontMetrics(option.font).height() + GAP_PX
        self._paint_extract(painter, option.font, QPointF(place.left(), top), place.width(), hit)
        painter.restore()

    def _paint_head(self, painter: QPainter, font: QFont, place: QRect, hit: Hit) -> None:
        table, metrics = theme.colours(), QFontMetrics(font)
        facts = metrics.elidedText(
            _facts(hit), Qt.TextElideMode.ElideRight, max(1, place.width() * 2 // 3)
        )
        painter.setFont(font)
        painter.setPen(QColor(table.muted))
        top_right = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight
        painter.drawText(place, top_right, facts)
        bold = QFont(font)
        bold.setWeight(QFont.Weight.DemiBold)
        room = place.width() - metrics.horizontalAdvance(facts) - SIDE_PX
        title = QFontMetrics(bold).elidedText(
            shortened(hit.title, LONGEST_TITLE), Qt.TextElideMode.ElideRight, room
        )
        painter.setFont(bold)
        painter.setPen(QColor(table.text))
        painter.drawText(place, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft, title)

    def _paint_extract(
        self, painter: QPainter, font: QFont, place: QPointF, width: int, hit: Hit
    ) -> None:
        table = theme.colours()
        before, match, after = hit.extract
        layout = QTextLayout(f"{before}{match}{after}", font)
        mark = QTextLayout.FormatRange()
        # QTextLayout counts in UTF-16.
        mark.start, mark.length = utf16_length(before), utf16_length(match)
        mark.format = QTextCharFormat()
        mark.format.setBackground(QColor(table.accent_soft))
        mark.format.setFontWeight(QFont.Weight.DemiBold)
        layout.setFormats([mark])
        layout.beginLayout()
        for number in range(LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(width)
            line.setPosition(QPointF(0, number * QFontMetrics(font).height()))
        layout.endLayout()
        painter.setPen(QColor(table.text))
        layout.draw(painter, place)


def _facts(hit: Hit) -> str:
    day = datetime.fromtimestamp(hit.created)
    if not hit.message:
        who = tr("title")
    elif hit.is_reply:
        who = hit.model or tr("reply")
    else:
        who = tr("document") if hit.in_document else tr("you")
    return f"{who}{BETWEEN}{day.day} {day:%b %Y}"
