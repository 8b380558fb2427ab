"""The window in which all chats are searched: a field, filters, and what was found."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QModelIndex, QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QComboBox, QDialog, QListView, QWidget

from desktop import theme
from desktop.i18n import tr
from desktop.numbers import count_of, format_count
from desktop.search.folding import terms_of
from desktop.search.hit_list import HIT_ROLE, HitDelegate, HitList
from desktop.search.index import Query
from desktop.search.search import MOST_HITS, SearchController
from desktop.store.tables.messages import storable
from desktop.widgets.dialogs import come_up
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, Label
from desktop.widgets.search_field import SearchField

WIDTH, HEIGHT = 720, 560
# A pause in typing, so that not every letter is searched for.
TYPED_MS = 120
DAY_S = 86_400.0
BOX_LETTERS = 12
NO_CHAT = -1


class SearchDialog(QDialog):
    # Hit: show this message.
    open_asked = Signal(object)

    def __init__(
        self, search: SearchController, shown_chat: Callable[[], int | None], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setObjectName("searchDialog")
        self.setWindowTitle(tr("Search all chats"))
        self._search, self._shown_chat = search, shown_chat
        self.field = SearchField("searchText", tr("Search all messages"))
        self._when = _box("searchWhen", tr("When it was written"))
        for words, days in (
            (tr("Any time"), 0),
            (tr("Last 7 days"), 7),
            (tr("Last 30 days"), 30),
            (tr("Last year"), 365),
        ):
            self._when.addItem(words, days)
        self._model = _box("searchModel", tr("The model that wrote it"))
        self._model.addItem(tr("Any model"), "")
        self._chat = _box("searchChat", tr("The chat it is in"))
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
        """Show the window, and search for what is typed or given."""
        if words:
            self.field.setText(words)
        come_up(self, self.field)
        self.field.selectAll()
        self._search.begin()
        self._ask()

    def _build(self) -> None:
        self.list.setObjectName("searchHits")
        self.list.setAccessibleName(tr("What was found"))
        self.list.setModel(self.hits)
        self.list.setItemDelegate(HitDelegate(self.list))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # With rows of one height, Qt asks only for the visible ones.
        self.list.setUniformItemSizes(True)
        close = Button(tr("Close"), name="searchClose")
        close.clicked.connect(self.close)
        close.setAutoDefault(False)
        filters = row(self._when, self._model, self._chat, self._pictures, None, spacing=8)
        bottom = row((self._said, 1), close)
        parts = (self.field, filters, (self.list, 1), bottom)
        column(*parts, of=self, margins=(16, 14, 16, 14), spacing=10)
        # A part of the screen is the title's.
        screen = self.screen().availableSize() - QSize(0, theme.px(40))
        self.resize(QSize(theme.px(WIDTH), theme.px(HEIGHT)).boundedTo(screen))

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


def _box(name: str, spoken: str) -> QComboBox:
    box = QComboBox()
    box.setObjectName(name)
    box.setAccessibleName(spoken)
    # A model's name can be long.
    policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
    box.setSizeAdjustPolicy(policy)
    box.setMinimumContentsLength(BOX_LETTERS)
    return box
