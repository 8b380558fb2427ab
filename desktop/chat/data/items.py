"""A reply's data as Qt's views take it: a tree of names and values, or the rows of a table."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor

from desktop import theme
from desktop.chat.data.reading import Item, Reading
from desktop.words.formats import NAME, VALUE

Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
NOWHERE = QModelIndex()


class DataItems(QAbstractItemModel):
    """What was read of one reply; it never changes."""

    def __init__(self, reading: Reading, parent: QObject | None = None) -> None:
        super().__init__(parent)
        assert reading.root is not None
        self.root = reading.root
        self._reading = reading
        self.is_table = bool(reading.columns)
        self._columns = reading.columns or (NAME, VALUE)

    def place_of(self, item: Item) -> QModelIndex:
        """Where an item stands."""
        return self.createIndex(item.place, 0, item)

    def item_at(self, index: Index) -> Item:
        """What stands at a place, the root at none."""
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
        """The value that stands in a column."""
        if not self.is_table:
            return item if column == 1 else None
        return self._reading.cells[item.place][column] if item.token else None

    def _words(self, item: Item, column: int) -> str:
        if not item.token or not self.is_table:
            return (item.name, item.value)[column] if column < 2 else ""
        cell = self._cell(item, column)
        return cell.text if cell is not None else ""


def _colour(cell: Item | None) -> QColor | None:
    """Tells the number 5 from the text "5", which look the same in a table."""
    if cell is None or cell.token == '"':
        return None
    table = theme.colours()
    if cell.is_list or not cell.token:
        return QColor(table.muted)
    return QColor(table.syntax_number if cell.is_number else table.syntax_keyword)
