"""*Local server*: the switch, address and key, texts for programs, and their requests."""

from __future__ import annotations

import re
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QSpinBox,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from core.server.messages import RequestSeen
from desktop import theme
from desktop.engine.error_words import disk_trouble_words
from desktop.i18n import tr
from desktop.number_format import number
from desktop.numbers import format_count
from desktop.server.connect_box import ConnectBox, Connection, snippets
from desktop.server.server import ServerController, Stage
from desktop.settings.controls import Switch
from desktop.widgets.dialogs import Dialog
from desktop.widgets.icon_button import CopyButton
from desktop.widgets.layouts import Frame, column, row, scrolled
from desktop.widgets.plain import Button, Label, named, set_tip, text_box
from desktop.widgets.plain_text import shortened

WIDTH, HEIGHT = 860, 760
LOWEST_PORT, HIGHEST_PORT = 1_024, 65_535
LONGEST_SLEEP_MIN = 1_440
LEAST_HEIGHT = 150
CONTENT_HEIGHT = 220
LONGEST_NAME = 60
_NUMBERS = (3, 4, 5, 6)
# Qt takes 10 s to lay out a line of 262,144 letters, and milliseconds for many of these.
_LONG_LINE = re.compile(r"(.{2000})(?=.)")
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class LocalServerDialog(Dialog):
    def __init__(self, server: ServerController, parent: QWidget) -> None:
        super().__init__("localServerDialog", tr("Local server"), parent)
        self._server = server
        self._access = AccessBox(server)
        self._connect = ConnectBox()
        self._requests = RequestList(server)
        self._content = RequestContent(server, self._requests)
        content = QWidget()
        column(
            self._access,
            Label(tr("Connect a program"), style="heading"),
            self._connect,
            Label(tr("Requests"), style="heading"),
            (self._requests, 1),
            self._content,
            of=content,
            margins=(0, 0, 10, 0),
            spacing=10,
        )
        close = self.button("localServerClose", tr("Close"), self.close)
        scroll = scrolled(content, "localServerScroll")
        column((scroll, 1), row(None, close), of=self, margins=(16, 14, 16, 14), spacing=10)
        # A key is shown once.
        self.finished.connect(server.hide_key)
        server.changed.connect(self._show)
        server.engine.changed.connect(self._show)
        self.fit(WIDTH, HEIGHT)
        self._show()

    def _show(self) -> None:
        server = self._server
        self._access.show_status()
        key = server.new_key or tr("YOUR-KEY")
        to = Connection.of(server.address, key, server.engine.model)
        self._connect.show_snippets(snippets(to))


class AccessBox(Frame):
    def __init__(self, server: ServerController) -> None:
        super().__init__("serverAccess")
        self._server = server
        # By the names of their settings.
        self._controls: dict[str, Switch | QSpinBox] = {}
        on = self._switch("on", "serverOn", tr("Let programs on this computer use the model"))
        lan = self._switch(
            "lan", "serverLan", tr("Also let other computers in this network use it")
        )
        steady = self._switch(
            "steady",
            "serverSteady",
            tr("Ignore changes in lines that differ with each request, such as dates"),
        )
        loads = self._switch(
            "loads",
            "serverLoads",
            tr("Load another model of this computer when a program asks for it by name"),
        )
        self._state = Label(name="serverState", style="muted small", wraps=True)
        self._disk_trouble = _warning("serverDiskTrouble", "")
        self._warning = _warning(
            "serverLanWarning",
            tr(
                "Other computers reach this one at its address in the network. Anyone who "
                "has the key can use the model. Nothing is encrypted: others in the network "
                "can read requests and replies."
            ),
        )
        self._loads_warning = _warning(
            "serverLoadsWarning", tr("Programs then also decide which model this window uses.")
        )
        column(
            on,
            self._state,
            self._disk_trouble,
            self._form(server),
            lan,
            self._warning,
            steady,
            loads,
            self._loads_warning,
            of=self,
            margins=(12, 10, 12, 10),
            spacing=8,
        )

    def _form(self, server: ServerController) -> QGridLayout:
        self._address = Label(name="serverAddress", selectable=True)
        self._copy_address = named(CopyButton(tr("Copy the address")), "serverCopyAddress")
        self._copy_address.clicked.connect(lambda: self._copy_address.copy_text(self._url))
        port = self._number("port", "serverPort", tr("Port"), LOWEST_PORT, HIGHEST_PORT)
        self._key = Label(name="serverKey", selectable=True, wraps=True)
        self._copy_key = named(CopyButton(tr("Copy the key")), "serverCopyKey")
        self._copy_key.clicked.connect(lambda: self._copy_key.copy_text(server.new_key))
        self._renew = Button(tr("New key"), name="serverRenewKey")
        self._renew.setAutoDefault(False)
        self._renew.clicked.connect(server.renew_key)
        sleep = self._number("sleep_min", "serverSleep", tr("Sleep after"), 0, LONGEST_SLEEP_MIN)
        sleep.setSpecialValueText(tr("never"))
        sleep.setSuffix(tr(" minutes"))
        set_tip(
            sleep,
            tr(
                "Unloads the model after this many minutes without requests, from this "
                "window or from programs. The next request loads it again, and contexts "
                "saved on disk are reused."
            ),
        )
        pages = tr("Web pages")
        self._pages = named(QLineEdit(), "serverOrigins", pages)
        self._pages.setPlaceholderText(tr("none, or addresses such as https://page.example"))
        self._pages.editingFinished.connect(self._allow_pages)
        set_tip(
            self._pages,
            tr("Pages at these addresses may ask the model from a browser, if they have the key."),
        )
        form = QGridLayout()
        form.setColumnStretch(1, 1)
        parts = (
            (tr("Address"), row(self._address, self._copy_address, None)),
            (tr("Port"), row(port, None)),
            (tr("Key"), row((self._key, 1), self._copy_key, self._renew)),
            (tr("Sleep after"), row(sleep, None)),
            (pages, row((self._pages, 1))),
        )
        for line, (words, controls) in enumerate(parts):
            form.addWidget(Label(words, style="label"), line, 0)
            form.addLayout(controls, line, 1)
        return form

    def _switch(self, setting: str, name: str, words: str) -> QHBoxLayout:
        control = self._controls[setting] = named(Switch(), name, words)
        control.toggled.connect(partial(self._server.change, setting))
        return row(control, (Label(words, wraps=True, selectable=False), 1))

    def _number(self, setting: str, name: str, words: str, least: int, most: int) -> QSpinBox:
        control = self._controls[setting] = named(QSpinBox(), name, words)
        control.setRange(least, most)
        control.setGroupSeparatorShown(False)
        control.setKeyboardTracking(False)
        control.lineEdit().setTextMargins(7, 0, 0, 0)
        control.valueChanged.connect(partial(self._server.change, setting))
        return control

    @property
    def _url(self) -> str:
        return f"{self._server.address}/v1"

    def _allow_pages(self) -> None:
        self._server.allow_pages(self._pages.text())
        self._show_pages()

    def _show_pages(self) -> None:
        self._pages.setText(" ".join(self._server.settings.origins))

    def show_status(self) -> None:
        server, settings = self._server, self._server.settings
        for setting, control in self._controls.items():
            value = getattr(settings, setting)
            control.blockSignals(True)
            if isinstance(control, Switch):
                control.setChecked(value)
                control.update()
            else:
                control.setValue(value)
            control.blockSignals(False)
        if not self._pages.hasFocus():
            self._show_pages()
        self._state.setText(server.status.words())
        failed = server.status.stage is Stage.FAILED
        self._state.setProperty("class", "error small" if failed else "muted small")
        theme.restyle(self._state)
        trouble = server.disk_trouble
        self._disk_trouble.setText(disk_trouble_words(trouble) if trouble else "")
        self._disk_trouble.setVisible(bool(trouble))
        self._address.setText(self._url)
        words = tr(
            "There is a key. Only its digest is stored, so it can't be shown again; a new key "
            "replaces it."
        )
        none = tr("Made when you first switch the server on.")
        self._key.setText(server.new_key or (words if settings.key else none))
        self._copy_key.setVisible(bool(server.new_key))
        self._renew.setVisible(bool(settings.key))
        self._warning.setVisible(settings.lan)
        self._loads_warning.setVisible(settings.loads)


def _warning(name: str, words: str) -> Label:
    return Label(words, name=name, style="warning small", wraps=True)


class RequestList(QTreeWidget):
    def __init__(self, server: ServerController) -> None:
        super().__init__()
        named(self, "serverRequests", tr("Requests of programs"))
        self._server = server
        self._items: dict[int, QTreeWidgetItem] = {}
        self.setHeaderLabels([
            tr("Program"), tr("Request"), tr("State"),
            tr("Reused"), tr("Read"), tr("Written"), tr("Tokens/s"),
        ])  # fmt: skip
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setMinimumHeight(theme.px(LEAST_HEIGHT))
        named(self.header(), "serverRequestsHeader", tr("What the columns show"))
        self.header().setSectionsMovable(False)
        self.header().setStretchLastSection(False)
        for place in range(self.columnCount()):
            self.header().setSectionResizeMode(place, QHeaderView.ResizeMode.ResizeToContents)
        self.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for place in _NUMBERS:
            self.headerItem().setTextAlignment(place, _RIGHT)
        server.listed.connect(self._show)
        self._show()

    @property
    def selected(self) -> int | None:
        chosen = self.selectedItems()
        return next((at for at, item in self._items.items() if item in chosen), None)

    def _show(self) -> None:
        shown = self._server.requests
        for gone in [each for each in self._items if each not in shown]:
            self.takeTopLevelItem(self.indexOfTopLevelItem(self._items.pop(gone)))
        for at, seen in shown.items():
            if at not in self._items:
                self._items[at] = QTreeWidgetItem()
                for place in _NUMBERS:
                    self._items[at].setTextAlignment(place, _RIGHT)
                self.insertTopLevelItem(0, self._items[at])
            for place, words in enumerate(cells(seen)):
                self._items[at].setText(place, words)


class RequestContent(QWidget):
    def __init__(self, server: ServerController, requests: RequestList) -> None:
        super().__init__()
        self._server, self._requests, self._shown = server, requests, ""
        words = tr("Show prompts and replies here")
        self._on = named(Switch(), "serverContentOn", words)
        self._on.setChecked(server.keeps_content)
        self._on.toggled.connect(server.keep_content)
        self._note = Label(
            tr(
                "The texts of the latest 20 requests are kept in memory until you switch this off "
                "or the server stops. They are saved nowhere."
            ),
            style="muted small",
            wraps=True,
        )
        self._text = text_box("serverContent", tr("Prompt and reply"))
        self._text.setUndoRedoEnabled(False)
        self._text.setFixedHeight(theme.px(CONTENT_HEIGHT))
        said = Label(words, wraps=True, selectable=False)
        column(row(self._on, (said, 1)), self._note, self._text, of=self, spacing=8)
        requests.itemSelectionChanged.connect(self._show)
        server.listed.connect(self._show)
        self._show()

    def _show(self) -> None:
        server, chosen = self._server, self._requests.selected
        self._note.setVisible(server.keeps_content)
        self._text.setVisible(server.keeps_content)
        text = server.contents.get(chosen, "") if chosen is not None else ""
        # Showing it again would scroll to its beginning.
        if text != self._shown:
            self._shown = text
            self._text.setPlainText(_LONG_LINE.sub(r"\1\n", text))
        none = tr(
            "Nothing was kept of this request: it is still running, was refused or is too old."
        )
        hint = tr("Select a request to see its text.")
        self._text.setPlaceholderText(hint if chosen is None else none)


def cells(seen: RequestSeen) -> tuple[str, ...]:
    counted, state = seen.reused or seen.read, state_words(seen)
    if seen.volatile:
        state += ", " + tr("changes ignored: {lines}").format(lines=", ".join(seen.volatile))
    return (
        shortened(seen.client, LONGEST_NAME) or tr("a program without a name"),
        shortened(seen.path, LONGEST_NAME),
        state,
        format_count(seen.reused) if counted else "",
        format_count(seen.read) if counted else "",
        format_count(seen.written) if seen.written else "",
        number(seen.tokens_per_s, 1) if seen.tokens_per_s else "",
    )


def state_words(seen: RequestSeen) -> str:
    if seen.state == "refused":
        known = {
            401: tr("Refused: wrong key"),
            403: tr("Refused: from a web page, or under another host name"),
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
        "gone": tr("Cancelled by the program"),
    }[seen.state]
