"""A structured reply as a table or a tree."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor, QShowEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractItemView, QTreeView, QWidget

from desktop import theme
from desktop.chat.data.reading import Item, Reading
from desktop.i18n import tr

Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
NOWHERE = QModelIndex()


class DataItems(QAbstractItemModel):
    """Qt's model of one reply: a tree of names and values, or the rows of a table. Immutable."""

    def __init__(self, reading: Reading, parent: QObject | None = None) -> None:
        super().__init__(parent)
        assert reading.root is not None
        self.root = reading.root
        self._reading = reading
        self.is_table = bool(reading.columns)
        self._columns = reading.columns or (tr("Name"), tr("Value"))

    def place_of(self, item: Item) -> QModelIndex:
        return self.createIndex(item.place, 0, item)

    def item_at(self, index: Index) -> Item:
        """The item of an index; of none, the root."""
        item = index.internalPointer() if index.isValid() else self.root
        assert isinstance(item, Item)
        return item

    def rowCount(self, parent: Index = NOWHERE) -> int:
        if parent.isValid() and (self.is_table or parent.column() > 0):
            return 0
        return len(self.item_at(parent).below)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return len(self._columns)

    def index(self, row: int, column: int, parent: Index = NOWHERE) -> QModelIndex:
        if not self.hasIndex(row, column, parent):
            return QModelIndex()
        return self.createIndex(row, column, self.item_at(parent).below[row])

    # Without an index Qt's `parent` is that of an object, which nobody asks this one for.
    def parent(self, index: Index = NOWHERE) -> QModelIndex:  # type: ignore[override]
        above = self.item_at(index).above
        if above is None or above is self.root:
            return QModelIndex()
        return self.place_of(above)

    def data(self, index: Index, role: int = Role.DisplayRole) -> object:
        item = self.item_at(index)
        if role == Role.DisplayRole:
            return self._words(item, index.column())
        if role == Role.ForegroundRole:
            return _colour(item if not item.token else self._cell(item, index.column()))
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> object:
        if role == Role.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return self._columns[section]
        return None

    def _cell(self, item: Item, column: int) -> Item | None:
        if not self.is_table:
            return item if column == 1 else None
        return self._reading.cells[item.place][column] if item.token else None

    def _words(self, item: Item, column: int) -> str:
        if not item.token or not self.is_table:
            return (item.name, item.value)[column] if column < 2 else ""
        cell = self._cell(item, column)
        return cell.text if cell is not None else ""


def _colour(cell: Item | None) -> QColor | None:
    """Colours tell the number 5 from the text "5"."""
    if cell is None or cell.token == '"':
        return None
    table = theme.colours()
    if cell.is_list or not cell.token:
        return QColor(table.muted)
    return QColor(table.syntax_number if cell.is_number else table.syntax_keyword)


MOST_ROWS_SEEN = 16
# A tree is opened as far as so many rows go.
OPENED_ROWS = 24
# Columns are as wide as what is in so many rows.
MEASURED_ROWS = 50
WIDEST_COLUMN, NARROWEST_COLUMN = 320, 60
# Rows further down may be a little longer.
SLACK = 12


class DataView(QTreeView):
    """Grows with its rows up to a limit; the wheel scrolls the page if nothing in it scrolls."""

    def __init__(self, items: DataItems, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("replyData")
        spoken = tr("The reply as a table") if items.is_table else tr("The reply as a tree")
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
            # A row that says how many more there are spans all columns.
            self.setFirstColumnSpanned(item.place, QModelIndex(), not item.token)
        self._open()
        for changed in (self.expanded, self.collapsed):
            changed.connect(self._fit)
        self.header().geometriesChanged.connect(self._fit)
        self.horizontalScrollBar().rangeChanged.connect(self._fit)
        theme.signals().changed.connect(self._line_up)
        self._line_up()

    def _open(self) -> None:
        """Expand from the top, level by level, while few rows are shown."""
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
        rows, index = 0, self._items.index(0, 0)
        while index.isValid() and rows < MOST_ROWS_SEEN:
            rows, index = rows + 1, self.indexBelow(index)
        return rows

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # The style sheet, which sets the height of rows, is applied only now.
        self.doItemsLayout()
        self._line_up()

    def wheelEvent(self, event: QWheelEvent) -> None:
        sideways = event.angleDelta().x() and not event.angleDelta().y()
        if sideways or self.verticalScrollBar().maximum() > 0:
            super().wheelEvent(event)
        else:
            event.ignore()
