"""A reply in JSON: its source, and once complete a table or tree."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QShowEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractItemView, QButtonGroup, QTreeView, QVBoxLayout, QWidget

from core.api.reply_format import ReplyFormat
from desktop import theme
from desktop.chat.data.reading import Item, Reading
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.markdown.text_selection import WholeText
from desktop.i18n import tr
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Label, ToolButton, named

DATA, SOURCE = 1, 2


class JsonBody(WholeText):
    """Has the methods of `MarkdownBody`. `read_asked()`: the text is complete."""

    read_asked = Signal()

    def __init__(self, reply_format: ReplyFormat, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._format = reply_format
        self._text = ""
        self._finished = False
        self._chosen = DATA
        self._view: DataView | None = None
        self._source = CodeBlock(self)
        self._source.set_code("", "json", closed=False)
        self._buttons = QButtonGroup(self)
        self._data_button = self._button("showData", DATA, tr("Tree"), tr("The reply as a tree"))
        self._button("showSource", SOURCE, tr("Source"), tr("The reply as it was written"))
        self._buttons.idClicked.connect(self.show_pages)
        self._validity = Label(name="replyValidity", style="muted small", wraps=True)
        self._layout = self._build()
        self._show()

    def append(self, text: str) -> None:
        if text:
            self._set_text(self._text + text, extends=True)

    def set_text(self, text: str) -> None:
        self._set_text(text, extends=False)

    def _set_text(self, text: str, extends: bool) -> None:
        self._text, self._finished = text, False
        self._drop_view()
        self._validity.setText("")
        self._source.set_code(text, "json", closed=False, grows=True, extends=extends)
        self._show()

    def finish(self) -> None:
        if not self._finished and self._text:
            self._finished = True
            self._source.set_code(self._text, "json", extends=True)
            self.read_asked.emit()

    def text(self) -> str:
        return self._text

    def show_reading(self, reading: Reading) -> None:
        self._drop_view()
        self._validity.setText(validity_text(self._format, reading))
        is_valid = not (reading.fault or reading.unchecked)
        theme.set_class(self._validity, "muted small" if is_valid else "warning small")
        if reading.root is not None:
            self._view = DataView(DataItems(reading.root, reading.columns), self)
            self._layout.addWidget(self._view)
            self._data_button.set_words(tr("Table") if reading.columns else tr("Tree"))
            self._data_button.setAccessibleName(self._view.accessibleName())
        self._show()

    def is_json(self) -> bool:
        return self._view is not None

    def pages(self) -> int:
        return self._chosen

    def show_pages(self, page: int) -> None:
        self._chosen = page
        self._show()

    def _show(self) -> None:
        shows_data = self._view is not None and self._chosen == DATA
        if self._view is not None:
            self._view.setVisible(shows_data)
        self._source.setVisible(not shows_data)
        for button in self._buttons.buttons():
            button.setVisible(self._view is not None)
        self._buttons.button(self._chosen).setChecked(True)
        self._validity.setVisible(bool(self._validity.text()))

    def _drop_view(self) -> None:
        if self._view is not None:
            self._layout.removeWidget(self._view)
            self._view.hide()
            self._view.deleteLater()
            self._view = None

    def _button(self, name: str, page: int, said: str, spoken: str) -> ToolButton:
        button = named(ToolButton(self), name)
        button.set_words(said)
        button.setAccessibleName(spoken)
        button.setCheckable(True)
        self._buttons.addButton(button, page)
        return button

    def _build(self) -> QVBoxLayout:
        head = row(*self._buttons.buttons(), spacing=4)
        head.addSpacing(6)
        head.addWidget(self._validity, 1)
        return column(head, self._source, of=self, spacing=6)


def validity_text(reply_format: ReplyFormat, reading: Reading) -> str:
    if reading.unchecked:
        return tr("Not checked: {reason}").format(reason=reading.unchecked)
    if reading.fault:
        return tr("Not valid: {reason}").format(reason=reading.fault)
    return tr("Valid JSON.") if reply_format.kind == "json" else tr("Valid against the schema.")


Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
NOWHERE = QModelIndex()


class DataItems(QAbstractItemModel):
    """A tree, or with `columns` a table."""

    def __init__(self, root: Item, columns: tuple[str, ...]) -> None:
        super().__init__()
        self.root = root
        self.is_table = bool(columns)
        self._columns = columns or (tr("Name"), tr("Value"))

    def place_of(self, item: Item) -> QModelIndex:
        return self.createIndex(item.place, 0, item)

    def item_at(self, index: Index) -> Item:
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
            return NOWHERE
        return self.createIndex(row, column, self.item_at(parent).below[row])

    # Qt also has a `parent` without an index, that of an object, which isn't used here.
    def parent(self, index: Index = NOWHERE) -> QModelIndex:  # type: ignore[override]
        above = self.item_at(index).above
        return NOWHERE if above is None or above is self.root else self.place_of(above)

    def data(self, index: Index, role: int = Role.DisplayRole) -> object:
        item, column = self.item_at(index), index.column()
        if role not in (Role.DisplayRole, Role.ForegroundRole):
            return None
        if self.is_table and item.token:
            cell = item.cell(self._columns[column])
            if role == Role.DisplayRole:
                return cell.text if cell is not None else ""
            return _colour(cell)
        if role == Role.DisplayRole:
            return (item.name, item.value)[column] if column < 2 else ""
        return _colour(item) if column == 1 or not item.token else None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> object:
        if role == Role.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return self._columns[section]
        return None


def _colour(cell: Item | None) -> QColor | None:
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
    """Its height is limited by a number of rows; below it the wheel scrolls the page."""

    def __init__(self, items: DataItems, parent: QWidget) -> None:
        super().__init__(parent)
        items.setParent(self)
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
        """Expand levels while few rows are shown."""
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
        for at in range(self._items.columnCount() - 1):
            wanted = max(self.sizeHintForColumn(at), self.header().sectionSizeHint(at))
            width = max(theme.px(NARROWEST_COLUMN), min(theme.px(WIDEST_COLUMN), wanted + SLACK))
            self.setColumnWidth(at, width)
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
