"""*Get a model*: search the hub or paste a name, see what fits, download it, load it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QComboBox, QListWidget, QListWidgetItem, QWidget

from core.api.errors import ErrorInfo, WaymarkError
from core.downloads.choices import choices, runs, suggested
from core.downloads.messages import Plan, Repository
from core.downloads.names import repository_name
from desktop import theme
from desktop.engine.error_words import error_text
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.models.download_boxes import ConnectionBox, DownloadList
from desktop.models.downloads import DownloadsController, catalogue
from desktop.models.fits import describe_fit, estimate, memory, needs, room, suited_models
from desktop.models.library import LibraryController
from desktop.numbers import format_bytes, format_count, short_count
from desktop.widgets import dialogs
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import Frame, column, row, scrolled
from desktop.widgets.plain import Button, ElidedLabel, Label, named
from desktop.widgets.search_field import SearchField

WIDTH, HEIGHT, ITEM_HEIGHT = 860, 640, 58
# More would not fit on a small screen.
FILES_NAMED = 4

T = TypeVar("T")


class GetModelDialog(Dialog):
    # The path of a downloaded model.
    load_asked = Signal(str)

    def __init__(
        self,
        downloads: DownloadsController,
        library: LibraryController,
        tasks: Tasks,
        parent: QWidget,
    ) -> None:
        super().__init__("getModelDialog", tr("Get a model"), parent)
        self._downloads, self._library, self._tasks = downloads, library, tasks
        self._speeds = library.device.speeds
        # Answers to older questions are ignored.
        self._questions = 0
        self.search = SearchField("modelSearch", tr("Search Hugging Face, or paste Org/Name"))
        self.search.found.connect(self.ask)
        self.search.left.connect(self.close)
        find = self.button("modelSearchStart", tr("Search"), self.ask)
        self._settings = Button(tr("Connection"), name="networkToggle")
        self._settings.setCheckable(True)
        self._said = Label(name="modelSearchWords", style="muted small", wraps=True)
        self._found = named(QListWidget(), "modelResults", tr("Models"))
        for chosen in (self._found.itemClicked, self._found.itemActivated):
            chosen.connect(lambda item: self._look(str(item.data(Qt.ItemDataRole.UserRole))))
        self._details = ModelDetails()
        self._details.download_asked.connect(downloads.begin)
        self._connection = ConnectionBox(downloads)
        self._connection.hide()
        self._connection.folder_asked.connect(self._choose_folder)
        downloads.refused.connect(self._say_error)
        self._list = DownloadList(downloads, self)
        self._list.load_asked.connect(self._load)
        self._build(find)
        self._shows_catalogue = False
        self._show_catalogue()
        library.changed.connect(self._on_library)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._library.device.speeds:
            self._library.survey()

    def _on_library(self) -> None:
        speeds = self._library.device.speeds
        if self._shows_catalogue and speeds != self._speeds:
            self._list_catalogue()

    def _build(self, find: Button) -> None:
        close = self.button("getModelClose", tr("Close"), self.close)
        self._settings.setAutoDefault(False)
        self._scroll = scrolled(self._list, "downloadScroll")
        models = QWidget()
        row((self._found, 3), (self._details, 2), of=models, margins=(0, 0, 0, 0), spacing=12)
        # In the place of the models: a small screen hasn't room for both.
        self._settings.toggled.connect(self._connection.setVisible)
        self._settings.toggled.connect(models.setHidden)
        parts = column(
            row((self.search, 1), find, self._settings),
            self._said,
            of=self,
            margins=(16, 14, 16, 14),
            spacing=10,
        )
        parts.addWidget(self._connection, 3)
        parts.addWidget(models, 3)
        parts.addWidget(self._scroll, 2)
        parts.addLayout(row(None, close))
        # Once the rows of new downloads are shown.
        queued = Qt.ConnectionType.QueuedConnection
        self._downloads.changed.connect(self._fit_downloads, queued)
        self._fit_downloads()
        self.fit(WIDTH, HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_downloads()

    def _fit_downloads(self) -> None:
        self._scroll.setVisible(bool(self._downloads.shown))
        width = self._scroll.viewport().width()
        self._scroll.setMaximumHeight(max(0, self._list.heightForWidth(width)))

    def ask(self) -> None:
        self._settings.setChecked(False)
        text = self.search.text().strip()
        if not text:
            self._show_catalogue()
        elif name := repository_name(text):
            self._look(name)
        else:
            ask = partial(self._downloads.search, text)
            self._start(ask, self._show_found, tr("Searching…"))

    def _start(
        self, ask: Callable[[], Awaitable[T]], show: Callable[[T], None], words: str
    ) -> None:
        self._questions += 1
        number = self._questions
        self._say(words)

        async def answer() -> None:
            try:
                found = await ask()
                if number == self._questions:
                    show(found)
            except WaymarkError as error:
                if number == self._questions:
                    self._say_error(error.info())

        self._tasks.spawn(answer(), tr("Asking the model server"))

    def _show_found(self, found: Sequence[Repository]) -> None:
        self._shows_catalogue = False
        self._details.hide_model(bool(found))
        self._fill(found)
        words = tr("{count} models that Waymark runs, the most downloaded first.")
        none = tr("No model that Waymark runs has these words in its name.")
        self._say(words.format(count=format_count(len(found))) if found else none)

    def _look(self, name: str) -> None:
        ask = partial(self._downloads.look, name)
        self._start(ask, self._show_model, tr("Opening {name}…").format(name=name))

    def _show_model(self, found: Repository) -> None:
        plans = choices(found)
        self._details.show_model(found, plans)
        self._say("" if plans else tr("Nothing in this repository is in a format Waymark reads."))

    def _show_catalogue(self) -> None:
        self._questions += 1
        self._details.hide_model()
        self._list_catalogue()
        self._say(
            tr(
                "Some models to begin with, those for this computer first. The list goes by "
                "what their makers publish; we haven't tried them. Waymark connects when "
                "you search, click a model or download."
            )
        )

    def _list_catalogue(self) -> None:
        available, self._speeds = self._library.available(), self._library.device.speeds
        best = suited_models(catalogue(), available, self._speeds)
        self._fill([*best, *(each for each in catalogue() if each not in best)])
        self._shows_catalogue = True
        for at, each in enumerate(best):
            title = tr("{model}, for this computer").format(model=each.name)
            facts = estimate(each, available, self._speeds).words(each)
            self._found.item(at).setText(f"{title}\n{facts}")

    def _fill(self, found: Sequence[Repository]) -> None:
        available, speeds = self._library.available(), self._library.device.speeds
        at = self._found.currentItem()
        chosen = at.data(Qt.ItemDataRole.UserRole) if at is not None else None
        self._found.clear()
        for each in found:
            more = estimate(each, available, speeds).words(each)
            item = QListWidgetItem(f"{each.name}\n{more}")
            item.setData(Qt.ItemDataRole.UserRole, each.name)
            item.setSizeHint(QSize(0, theme.px(ITEM_HEIGHT)))
            self._found.addItem(item)
            if each.name == chosen:
                self._found.setCurrentItem(item)

    def _say(self, words: str, wrong: bool = False) -> None:
        self._said.say(words, "error small" if wrong else "muted small")

    def _say_error(self, info: ErrorInfo) -> None:
        self._say(error_text(info), wrong=True)

    def _load(self, path: str) -> None:
        self.load_asked.emit(path)
        self.close()

    def _choose_folder(self) -> None:
        self._tasks.spawn(self._set_folder(), tr("Choosing a folder"))

    async def _set_folder(self) -> None:
        title = tr("Choose a folder for models")
        folder = await dialogs.choose_folder(self, title, str(self._downloads.folder))
        if folder:
            self._connection.set_folder(folder)


class ModelDetails(Frame):
    # Plan: the user pressed Download.
    download_asked = Signal(object)

    def __init__(self) -> None:
        super().__init__("modelDetails")
        self._plans: Sequence[Plan] = ()
        self._parameters = 0
        self._name = ElidedLabel(name="modelDetailsName", style="heading")
        self._facts = Label(name="modelDetailsFacts", style="muted", wraps=True)
        self._choice = named(QComboBox(), "modelDetailsChoice", tr("What to download"))
        self._choice.currentIndexChanged.connect(self._show_choice)
        self._fit = Label(name="modelDetailsFit", wraps=True)
        self._files = Label(name="modelDetailsFiles", style="muted small", wraps=True)
        self._download = Button(tr("Download"), name="modelDownload", style="primary")
        self._download.setAutoDefault(False)
        self._download.clicked.connect(self._on_download)
        parts = (self._name, self._facts, self._choice, self._fit, self._files, None)
        column(*parts, row(None, self._download), of=self, margins=(14, 12, 14, 12), spacing=8)
        self.hide_model()

    def hide_model(self, found: bool = True) -> None:
        self._plans = ()
        self._facts.setText(tr("Click a model to see its files") if found else "")
        self._facts.show()
        for each in (self._name, self._choice, self._fit, self._files, self._download):
            each.hide()

    def show_model(self, found: Repository, plans: Sequence[Plan]) -> None:
        self._plans, self._parameters = plans, found.parameters
        self._name.set_words(found.name)
        count = tr("{count} parameters").format(count=short_count(found.parameters))
        facts = [
            count if found.parameters else "",
            tr("licence: {name}").format(name=found.licence or tr("not named")),
            "" if runs(found.family) else tr("a kind of model that Waymark doesn't run"),
            tr("gated: accept its licence on its page and enter an access token under Connection")
            if found.gated
            else "",
        ]
        self._facts.setText("; ".join(fact for fact in facts if fact) + ".")
        self._choice.clear()
        for plan in plans:
            self._choice.addItem(f"{plan.choice}, {format_bytes(plan.size)}")
        if plans:
            self._choice.setCurrentIndex(suggested(plans, found.parameters, room(memory())))
        self._name.show()
        for each in (self._choice, self._fit, self._files, self._download):
            each.setVisible(bool(plans))
        self._download.setEnabled(runs(found.family))

    def _show_choice(self, index: int) -> None:
        if not 0 <= index < len(self._plans):
            return
        plan = self._plans[index]
        gguf = plan.size if plan.opens else 0
        self._fit.setText(describe_fit(needs(self._parameters, gguf), memory()))
        names = ", ".join(sorted(file.path for file in plan.files)[:FILES_NAMED])
        more = len(plan.files) - FILES_NAMED
        rest = tr(" and {count} more").format(count=format_count(more)) if more > 0 else ""
        self._files.setText(names + rest)

    def _on_download(self) -> None:
        index = self._choice.currentIndex()
        if 0 <= index < len(self._plans):
            self.download_asked.emit(self._plans[index])
