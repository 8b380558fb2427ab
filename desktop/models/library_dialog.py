"""*Models*: the models on this computer, whether each fits, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QItemSelectionModel, QPoint, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QListView, QMenu, QWidget

from core.api.errors import ErrorInfo, WaymarkError
from desktop import theme
from desktop.engine.engine_status import COMING, Phase
from desktop.engine.error_words import error_text
from desktop.engine.tasks import Tasks, answered
from desktop.i18n import tr
from desktop.models.library import LibraryController, LibraryModel, is_file
from desktop.models.library_details import LibraryDetails
from desktop.models.library_list import LibraryList
from desktop.models.moving import MoveController, MoveRow, Removal, plan_removal, trash
from desktop.numbers import count_of, format_bytes, format_count
from desktop.settings.settings import SettingsController
from desktop.widgets import dialogs
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import column, row, scrolled
from desktop.widgets.notices import Question
from desktop.widgets.plain import Label, action, named
from desktop.widgets.search_field import SearchField
from desktop.widgets.two_lines import AnyIndex, TwoLineDelegate, set_up

WIDTH, HEIGHT = 980, 620


class LibraryView(QListView):
    delete_asked = Signal()

    def dataChanged(self, first: AnyIndex, last: AnyIndex, roles: Sequence[int] = ()) -> None:
        # Qt would put the old name back into the editor.
        if self.state() == QAbstractItemView.State.EditingState:
            self.viewport().update()
        else:
            super().dataChanged(first, last, roles)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Delete:
            self.delete_asked.emit()
        else:
            super().keyPressEvent(event)


class LibraryDialog(Dialog):
    # The path of a model to load.
    load_asked = Signal(str)
    get_asked = Signal()
    compare_asked = Signal()

    def __init__(
        self,
        library: LibraryController,
        moves: MoveController,
        settings: SettingsController,
        tasks: Tasks,
        parent: QWidget,
    ) -> None:
        super().__init__("libraryDialog", tr("Models"), parent)
        self._library, self._settings, self._tasks = library, settings, tasks
        self._moves = moves
        self._removal = Removal()
        self._path = ""
        # Why something failed, until the user does something else.
        self._trouble = ""
        self.search = SearchField("librarySearch", tr("Search models on this computer"))
        self.list = LibraryList(library)
        self.view = LibraryView()
        self.details = LibraryDetails()
        self._said = Label(name="libraryWords", style="muted small", wraps=True)
        self.question = Question(
            self, "deleteModel", tr("Delete a model"), tr("Keep it"), tr("Move to trash")
        )
        self._build()
        self._connect()
        self._refresh()

    def _build(self) -> None:
        view = self.view
        named(view, "libraryList", tr("Models on this computer"))
        set_up(view, self.list, TwoLineDelegate(view))
        view.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self._folders = self.button("libraryFolders", tr("Folders"), self._open_folders)
        self._menu = named(QMenu(self), "libraryFoldersMenu")
        self._add = action(tr("Add a folder…"), self, self._choose_folder, "actionAddModelFolder")
        self._again = action(tr("Look again"), self, self._look_again, "actionLookAgain")
        get = self.button("libraryGet", tr("Get a model…"), self.get_asked)
        compare = self.button("libraryCompare", tr("Compare two models…"), self.compare_asked)
        close = self.button("libraryClose", tr("Close"), self.close)
        parts = column(of=self, margins=(16, 14, 16, 14), spacing=10)
        parts.addLayout(row((self.search, 1), self._folders, get))
        parts.addWidget(self._said)
        details = scrolled(self.details, "libraryDetailsScroll")
        parts.addLayout(row((view, 1), (details, 2), spacing=12), 1)
        parts.addWidget(MoveRow(self._moves))
        parts.addLayout(row(compare, None, close))
        self.fit(WIDTH, HEIGHT)

    def _connect(self) -> None:
        self.search.textChanged.connect(self.list.search)
        self.search.found.connect(self.view.setFocus)
        self.search.left.connect(self.close)
        self.list.rename_asked.connect(self._settings.set_name)
        self.list.modelReset.connect(self._refresh)
        self.list.dataChanged.connect(self._refresh)
        self.view.selectionModel().currentChanged.connect(self._refresh)
        self.view.activated.connect(self._load)
        self.view.delete_asked.connect(self._ask_to_delete)
        details = self.details
        details.load.clicked.connect(self._load)
        details.eject.clicked.connect(self._settings.engine.unload)
        details.rename.clicked.connect(lambda: self.view.edit(self.view.currentIndex()))
        details.reveal.clicked.connect(self._reveal)
        details.relocate.clicked.connect(self._choose_target)
        details.delete.clicked.connect(self._ask_to_delete)
        self.question.confirmed.connect(self._delete)
        self._library.changed.connect(self._refresh)
        self._library.failed.connect(self._say_error)
        self._moves.failed.connect(self._say_error)
        self._moves.changed.connect(self._refresh)
        self._settings.engine.load_failed.connect(self._say_error)
        self._settings.changed.connect(self.list.refresh)
        self._settings.engine.changed.connect(self.list.refresh)

    def current(self) -> LibraryModel | None:
        return self.list.at(self.view.currentIndex())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # Rows that were laid out before the style sheet was applied are too low.
        self.view.doItemsLayout()
        self._library.watch(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self._library.watch(False)
            self.question.withdraw()

    def _refresh(self) -> None:
        self._say_state()
        if self.list.shown and not self.view.currentIndex().isValid():
            rows = [self.list.row_of(path) for path in (self._path, self._settings.kept_path)]
            first = self.list.index(next((row for row in rows if row >= 0), 0))
            flag = QItemSelectionModel.SelectionFlag.ClearAndSelect
            self.view.selectionModel().setCurrentIndex(first, flag)
            self.view.scrollTo(first)
            return
        model = self.current()
        if model is None:
            self.details.show_nothing(self._nothing())
            return
        if model.path != self._path:
            self._path = model.path
            self.question.withdraw()
        available = self.list.available
        verdict = self._library.verdict(model, available)
        status, moving = self._settings.engine.status, bool(self._moves.path)
        loaded = status.model is not None and model.has(status.model.path)
        busy = status.phase in COMING
        coming = busy and model.has(self._settings.loaded.path)
        self.details.show_model(
            model,
            verdict,
            available,
            loaded=loaded,
            coming=coming,
            busy=busy,
            moving=moving,
            moved=model.has(self._moves.path),
        )
        if loaded or coming or moving:
            self.question.withdraw()

    def _nothing(self) -> str:
        if self._library.models:
            return tr("No model has these words in its name")
        if self._library.scanning:
            return tr("Looking for models…")
        return tr("No models in these folders. Get one, or add a folder that has some")

    def _say_state(self) -> None:
        models, status = self._library.models, self._settings.engine.status
        size = sum(each.facts.size for each in models if each.facts is not None)
        # The header that says so too may be behind this window.
        parts = [f"{status.words()}."] if status.phase is Phase.LOADING else []
        if models:
            words = tr("{models}.") if self._library.left else tr("{models}, {size} on disk.")
            count = count_of(len(models), "model")
            parts.append(words.format(models=count, size=format_bytes(size)))
        if self._library.scanning and self._library.left:
            words = tr("Reading {count} of them…")
            parts.append(words.format(count=format_count(self._library.left)))
        elif self._library.scanning:
            parts.append(tr("Looking for models…"))
        elif not models:
            parts.append(
                tr(
                    "Waymark looks into its own folder, folders that you add, and those of LM "
                    "Studio, Ollama and Hugging Face."
                )
            )
        self._said.setText(self._trouble or " ".join(parts))
        theme.set_class(self._said, "error small" if self._trouble else "muted small")

    def _say_error(self, error: ErrorInfo) -> None:
        self._trouble = error_text(error)
        self._say_state()

    def _load(self) -> None:
        model = self.current()
        if model is not None and self.details.load.isEnabled():
            self._trouble = ""
            self.load_asked.emit(model.path)

    def _reveal(self) -> None:
        model = self.current()
        if model is not None:
            path = model.places[0].path
            dialogs.open_folder(path.parent if is_file(path) else path)

    def _open_folders(self) -> None:
        self._menu.clear()
        self._menu.addActions([self._add, self._again])
        self._menu.addSeparator()
        for folder in self._settings.settings.library.folders:
            words = tr("Stop looking in {folder}").format(folder=folder)
            drop = partial(self._library.drop_folder, folder)
            self._menu.addAction(action(words, self._menu, drop))
        self._menu.popup(self._folders.mapToGlobal(QPoint(0, self._folders.height() + 2)))

    def _look_again(self) -> None:
        self._trouble = ""
        self._library.survey(again=True)

    def _choose_folder(self) -> None:
        self._tasks.spawn(self._add_folder(), tr("Choosing a folder"))

    async def _add_folder(self) -> None:
        folder = await dialogs.choose_folder(self, tr("Add a folder with models"), "")
        if folder:
            self._trouble = ""
            self._library.add_folder(folder)

    def _choose_target(self) -> None:
        model = self.current()
        if model is not None:
            self._trouble = ""
            self._tasks.spawn(self._move(model), tr("Moving a model"))

    async def _move(self, model: LibraryModel) -> None:
        folder = await dialogs.choose_folder(self, tr("Choose a folder on another disk"), "")
        if folder:
            self._moves.begin(model.places[0], Path(folder))

    def _ask_to_delete(self) -> None:
        model = self.current()
        if model is not None and self.details.delete.isEnabled():
            self._trouble = ""
            self._tasks.spawn(self._plan_removal(model), tr("Deleting a model"))

    async def _plan_removal(self, model: LibraryModel) -> None:
        found = await answered(partial(plan_removal, model.places[0]))
        if model.path != self._path:
            return
        if found.refused:
            self._trouble = found.refused
            self._say_state()
            return
        self._removal = found
        words = found.words(model.name)
        if len(model.places) > 1:
            words += " " + tr("Its other copies stay.")
        self.question.ask(words, self.details.delete)

    def _delete(self) -> None:
        self._tasks.spawn(self._trash(self._removal), tr("Deleting a model"))

    async def _trash(self, removal: Removal) -> None:
        try:
            await answered(partial(trash, removal))
        except WaymarkError as error:
            self._say_error(error.info())
        self._library.survey()
