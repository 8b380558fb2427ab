"""The requests of programs: who asks, how far it is, what was reused and read; no content."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem

from core.server.messages import RequestSeen
from desktop import theme
from desktop.i18n import tr
from desktop.number_format import number
from desktop.numbers import format_count
from desktop.server.server import ServerController
from desktop.widgets.plain_text import shortened

LEAST_HEIGHT = 150
LONGEST_NAME = 60
_NUMBERS = (3, 4, 5, 6)
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class RequestList(QTreeWidget):
    """The latest request comes first."""

    def __init__(self, server: ServerController) -> None:
        super().__init__()
        self.setObjectName("serverRequests")
        self.setAccessibleName(tr("Requests of programs"))
        self._server = server
        self._items: dict[int, QTreeWidgetItem] = {}
        self.setHeaderLabels([
            tr("Program"), tr("Request"), tr("State"),
            tr("Reused"), tr("Read"), tr("Written"), tr("Tokens/s"),
        ])  # fmt: skip
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setMinimumHeight(theme.px(LEAST_HEIGHT))
        self.header().setObjectName("serverRequestsHeader")
        self.header().setAccessibleName(tr("What the columns show"))
        self.header().setSectionsMovable(False)
        self.header().setStretchLastSection(False)
        for column in range(self.columnCount()):
            self.header().setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in _NUMBERS:
            self.headerItem().setTextAlignment(column, _RIGHT)
        server.listed.connect(self._show)
        self._show()

    def _show(self) -> None:
        shown = self._server.requests
        for gone in [each for each in self._items if each not in shown]:
            self.takeTopLevelItem(self.indexOfTopLevelItem(self._items.pop(gone)))
        for at, seen in shown.items():
            if at not in self._items:
                self._items[at] = QTreeWidgetItem()
                for column in _NUMBERS:
                    self._items[at].setTextAlignment(column, _RIGHT)
                self.insertTopLevelItem(0, self._items[at])
            for column, words in enumerate(cells(seen)):
                self._items[at].setText(column, words)


def cells(seen: RequestSeen) -> tuple[str, ...]:
    counted = seen.reused or seen.read
    return (
        shortened(seen.client, LONGEST_NAME) or tr("a program without a name"),
        shortened(seen.path, LONGEST_NAME),
        ", ".join((state_words(seen), *volatile_words(seen))),
        format_count(seen.reused) if counted else "",
        format_count(seen.read) if counted else "",
        format_count(seen.written) if seen.written else "",
        number(seen.tokens_per_s, 1) if seen.tokens_per_s else "",
    )


def volatile_words(seen: RequestSeen) -> tuple[str, ...]:
    if not seen.volatile:
        return ()
    return (tr("kept steady: {lines}").format(lines=", ".join(seen.volatile)),)


def state_words(seen: RequestSeen) -> str:
    if seen.state == "refused":
        known = {
            401: tr("Refused: wrong key"),
            403: tr("Refused: a web page or a foreign name"),
            404: tr("Refused: no such address"),
            429: tr("Refused: too many wait"),
            503: tr("Ended: no model"),
        }
        other = tr("Refused ({status})").format(status=seen.status)
        return known.get(seen.status, other)
    return {
        "waiting": tr("Waiting"),
        "reading": tr("Reading"),
        "writing": tr("Writing"),
        "done": tr("Done"),
        "gone": tr("Left by the program"),
    }[seen.state]
