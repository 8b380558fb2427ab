"""The data of a reply as a table or a tree: as high as its rows up to a limit, then it scrolls.

The wheel belongs to the page while nothing in here is to be scrolled.
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QShowEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractItemView, QTreeView, QWidget

from desktop import theme
from desktop.chat.data.items import DataItems
from desktop.chat.data.reading import Item
from desktop.words.formats import TABLE_SPOKEN, TREE_SPOKEN

MOST_ROWS_SEEN = 16
# A tree is opened as far as so many rows go.
OPENED_ROWS = 24
# Columns are as wide as what is in so many rows.
MEASURED_ROWS = 50
WIDEST_COLUMN, NARROWEST_COLUMN = 320, 60
# Rows further down may be a little longer.
SLACK = 12


class DataView(QTreeView):
    """Shows data that never changes."""

    def __init__(self, items: DataItems, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("replyData")
        spoken = TABLE_SPOKEN if items.is_table else TREE_SPOKEN
        self.setAccessibleName(spoken)
        self.header().setAccessibleName(spoken)
        self._items = items
        self.setUniformRowHeights(True)
        nested = any(item.is_list for item in items.root.below)
        self.setRootIsDecorated(nested and not items.is_table)
        self.setAllColumnsShowFocus(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectItems)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.header().setSectionsMovable(False)
        self.header().setResizeContentsPrecision(MEASURED_ROWS)
        self.header().setStretchLastSection(True)
        self.header().setDefaultAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        self.setModel(items)
        for item in items.root.below[-1:]:
            # The words that stand for further rows go over all columns.
            self.setFirstColumnSpanned(item.place, QModelIndex(), not item.token)
        self._open()
        for changed in (self.expanded, self.collapsed):
            changed.connect(self._fit)
        self.header().geometriesChanged.connect(self._fit)
        self.horizontalScrollBar().rangeChanged.connect(self._fit)
        theme.signals().changed.connect(self._line_up)
        self._line_up()

    def _open(self) -> None:
        """Open what is nearest to the top, as long as all rows are still seen at a glance."""
        if self._items.is_table:
            return
        rows, level = len(self._items.root.below), self._items.root.below
        while level:
            below: list[Item] = []
            for item in level:
                if item.below and rows + len(item.below) <= OPENED_ROWS:
                    rows += len(item.below)
                    self.expand(self._items.place_of(item))
                    below += item.below
            level = below

    def _line_up(self) -> None:
        """Columns as wide as what is in them, within limits; the last one takes what is left."""
        for column in range(self._items.columnCount() - 1):
            wanted = max(self.sizeHintForColumn(column), self.header().sectionSizeHint(column))
            width = max(theme.px(NARROWEST_COLUMN), min(theme.px(WIDEST_COLUMN), wanted + SLACK))
            self.setColumnWidth(column, width)
        self._fit()

    def _fit(self) -> None:
        rows = self._rows_to_see()
        height = self.sizeHintForIndex(self._items.index(0, 0)).height()
        bar = self.horizontalScrollBar()
        room = bar.sizeHint().height() if bar.maximum() > 0 else 0
        self.setFixedHeight(
            rows * height + self.header().sizeHint().height() + 2 * self.frameWidth() + room
        )

    def _rows_to_see(self) -> int:
        """How many rows there are as it is unfolded now, up to the limit."""
        rows, index = 0, self._items.index(0, 0)
        while index.isValid() and rows < MOST_ROWS_SEEN:
            rows, index = rows + 1, self.indexBelow(index)
        return rows

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # The style sheet, which says how high a row is, is in force from here on.
        self.doItemsLayout()
        self._line_up()

    def wheelEvent(self, event: QWheelEvent) -> None:
        sideways = event.angleDelta().x() and not event.angleDelta().y()
        if sideways or self.verticalScrollBar().maximum() > 0:
            super().wheelEvent(event)
        else:
            event.ignore()
