"""The window: chats on the left, conversation in the middle, context and settings on the right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from PySide6.QtCore import QByteArray, QEvent, QObject, QSettings, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QGuiApplication, QShowEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QMenu, QWidget

from core.api.errors import ErrorInfo
from desktop import theme
from desktop.background import Closing, Tray
from desktop.chats.side_bar import SideBar
from desktop.context.charts import ChartBox
from desktop.context.context_panel import ContextPanel
from desktop.engine.engine_status import Phase
from desktop.engine.error_words import error_text
from desktop.export.export_menu import ExportMenu
from desktop.i18n import tr
from desktop.pictures.screen_part import can_read_screen
from desktop.settings.settings_panel import SettingsPanel
from desktop.store.settings import TEXT_SIZES
from desktop.store.tables.chats import TRASH_DAYS
from desktop.store.tables.errors import StoreError
from desktop.store.tables.message_tree import Moved
from desktop.store.tables.records import DeletedMessages
from desktop.widgets import dialogs
from desktop.widgets.notices import Toast
from desktop.window.chat_page import ChatPage
from desktop.window.commands import WHY_NOT, CommandPalette, name_of, set_shortcuts
from desktop.window.menus import AboutDialog, ShortcutsDialog, add_menus, diagnostics
from desktop.window.sides import SidePanel, Sides, fitted, fitted_size, move_focus
from desktop.window.window_dialogs import WindowDialogs
from desktop.window.window_parts import WindowParts

FIRST_SIZE = QSize(1280, 820)
# Of a wheel; touchpads report parts of it.
WHEEL_STEP = 120
LAST_CHAT = "lastChat"
# Topics of messages.
MODEL, BACKUP = "model", "backup"
# Phases in which the engine can't be restarted.
STARTING = (Phase.STARTING, Phase.RESTARTING, Phase.CLOSED)


class MainWindow(QMainWindow):
    # `desktop.app` then ends the app.
    close_asked = Signal()

    def __init__(self, parts: WindowParts, samples: Path) -> None:
        super().__init__()
        self.setObjectName("mainWindow")
        self.setWindowTitle("Waymark")
        self.setWindowIcon(theme.icon("waymark", "accent"))
        self._parts = parts
        # Before the menu bar, which keeps its first font until it is shown.
        self._dress()
        self._leaving = False
        # How far the wheel was turned with Ctrl since the text size last changed.
        self._turned = 0
        # First: Qt tells all children of a widget that gets another parent.
        self._sides = Sides()
        self.setCentralWidget(self._sides)
        self.side_bar = SideBar(parts.chats, parts.folders_of_chats, self._sides)
        self.page = ChatPage(parts, samples, self._sides)
        self.context = ContextPanel(below=ChartBox(parts.charts))
        self.dialogs = WindowDialogs(parts, self.page, self)
        self.side_panel = SidePanel(self.context, self._make_settings, self._sides)
        self.toast = Toast(self.page, self.page.composer)
        self._sides.fill(self.side_bar, self.page, self.side_panel)
        self._exports = ExportMenu(parts.export, parts.backup, parts.chats, parts.tasks, self)
        self.actions_by_name = add_menus(self, self._acts())
        self.tray = Tray(self, parts.replies, parts.chat_list, parts.settings)
        self._closing = Closing(self, parts.work, self.tray, parts.settings, parts.tasks)
        self._connect()
        self._geometry = QSettings(str(parts.folders.geometry_file), QSettings.Format.IniFormat)
        self._restore_geometry()
        parts.settings.changed.connect(self._follow_settings)
        self._follow_settings()
        self._show_context()
        self.page.composer.setFocus()

    def leave(self) -> None:
        self._leaving = True
        self.dialogs.forget_copied()
        self.close()

    def save_geometry(self) -> None:
        self._geometry.setValue("window", self.saveGeometry())
        self._sides.save(self._geometry)
        self._geometry.sync()

    def _restore_geometry(self) -> None:
        screens = [each.availableGeometry() for each in QGuiApplication.screens()]
        self.resize(fitted_size(FIRST_SIZE, self.screen().availableGeometry()))
        window = self._geometry.value("window")
        if isinstance(window, QByteArray) and self.restoreGeometry(window):
            place = self.geometry()
            # Its screen may be gone, or smaller now.
            if not self.windowState() and fitted(place, screens) != place:
                self.setGeometry(fitted(place, screens))
        self._sides.restore(self._geometry)

    def _acts(self) -> dict[str, Callable[[], object]]:
        parts, page, side_bar = self._parts, self.page, self.side_bar
        return {
            "actionNewChat": side_bar.new_chat,
            "actionNewFolder": self._make_folder,
            "actionAddPictures": self.dialogs.choose_pictures,
            "actionAddFolder": self.dialogs.choose_folder,
            "actionAddScreen": self.dialogs.choose_screen_part,
            "actionRename": side_bar.rename_current,
            "actionPin": side_bar.pin_current,
            "actionMove": side_bar.move_current,
            "actionDelete": side_bar.delete_current,
            "actionExport": self._exports.export_shown,
            "actionExportAll": self._exports.export_all,
            "actionImport": self._exports.import_chats,
            "actionBackUp": self._exports.back_up,
            "actionRestore": self._exports.restore,
            "actionPrint": self._exports.print_shown,
            "actionDeleteAll": page.ask_to_delete_all,
            "actionQuit": self.close_asked.emit,
            "actionStop": parts.chat.stop,
            "actionRegenerate": self._regenerate,
            "actionBefore": lambda: page.transcript.turn_last(-1),
            "actionAfter": lambda: page.transcript.turn_last(1),
            "actionEdit": page.transcript.edit_last,
            "actionModels": self.dialogs.show_library,
            "actionCompare": self.dialogs.show_compare,
            "actionEject": parts.engine.unload,
            "actionGetModel": self.dialogs.show_get_model,
            "actionServer": lambda: dialogs.come_up(self.dialogs.server),
            "actionServers": self.dialogs.show_servers,
            "actionRestart": parts.engine.restart,
            "actionChats": self._sides.toggle_left,
            "actionSearchChats": side_bar.search_chats,
            "actionSearchMessages": self.dialogs.show_search,
            "actionSide": self._sides.toggle_right,
            "actionContext": lambda: self._turn_to(0),
            "actionSettings": lambda: self._turn_to(1),
            "actionFind": page.find_bar.begin,
            "actionPalette": self._show_palette,
            "actionWrite": page.composer.setFocus,
            "actionLarger": lambda: self._zoom(1),
            "actionSmaller": lambda: self._zoom(-1),
            "actionUsualSize": lambda: parts.settings.set_value("window.text_size", 100),
            "actionShortcuts": self._show_shortcuts,
            "actionAbout": lambda: AboutDialog(diagnostics(parts.engine.status), self).show(),
        }

    def _connect(self) -> None:
        parts, page = self._parts, self.page
        parts.said.connect(lambda words: self.toast.say(words, "warning"))
        engine = parts.engine
        engine.not_loaded.connect(lambda words: self.toast.say(words, "warning", topic=MODEL))
        engine.model_loaded.connect(lambda _model: self.toast.settle(MODEL))
        parts.chat.stored.connect(lambda: self.toast.settle(StoreError.__name__))
        parts.backup.said.connect(lambda words: self.toast.say(words, topic=BACKUP))
        parts.backup.checked.connect(lambda _words: self.toast.settle(BACKUP))
        for each in (parts.export, parts.chat):
            each.said.connect(self.toast.say)
        parts.backup.checking.connect(page.restore.withdraw)
        parts.backup.checked.connect(page.restore.ask)
        parts.backup.ready.connect(self.close_asked)
        self.tray.show_asked.connect(self.come_to_front)
        self.tray.open_asked.connect(self._open)
        for quits in (self.tray.quit_asked, self._closing.quit_asked):
            quits.connect(self.close_asked)
        for done in (parts.chat_settings.done, parts.folders_of_chats.done):
            done.connect(self._offer_undo)
        parts.failed.connect(self._show_error)
        rows, side = (parts.transcript.chat_changed, parts.transcript.rows_replaced), self.side_bar
        for changed in (parts.chat.busy_changed, parts.engine.changed, side.selected, *rows):
            changed.connect(self._enable)
        self._enable()
        cast(QApplication, QApplication.instance()).focusChanged.connect(self._on_focus)
        parts.chats_read.connect(self._open_last)
        parts.chats.deleted.connect(self._on_deleted)
        parts.chats.restored.connect(self._open)
        parts.chat.deleted.connect(self._on_messages_deleted)
        parts.chat.moved.connect(self._on_moved)
        # Undo is no longer offered for a chat that has left the trash.
        trash = parts.chats.trash
        trash.modelReset.connect(lambda: self.toast.keep_only({each.id for each in trash.chats}))
        parts.context.changed.connect(self._show_context)
        parts.deletion.everything_gone.connect(lambda: self.toast.say(tr("All data is deleted.")))
        self.side_bar.open_asked.connect(self._open)
        self.side_bar.look_asked.connect(parts.chat.open)
        self.side_bar.search_asked.connect(self.dialogs.show_search)
        self.side_bar.trash.delete_asked.connect(parts.deletion.delete_for_good)
        parts.remote.key_wanted.connect(self.dialogs.ask_for_key)
        self._connect_page(page)

    def _connect_page(self, page: ChatPage) -> None:
        for asking in (page.header.model, page.empty):
            asking.folder_asked.connect(self.dialogs.choose_and_load)
            asking.file_asked.connect(lambda: self.dialogs.choose_and_load(file=True))
            asking.get_asked.connect(self.dialogs.show_get_model)
            asking.library_asked.connect(self.dialogs.show_library)
        model = page.header.model
        for asked, act in (
            (model.search_asked, self.dialogs.look_for_models),
            (model.compare_asked, self.dialogs.show_compare),
            (model.place_asked, page.run_at),
            (model.servers_asked, self.dialogs.show_servers),
            (model.settings_asked, self._show_model_settings),
        ):
            asked.connect(act)
        page.model_dropped.connect(self.dialogs.load_dropped)
        page.header.chats.clicked.connect(self._sides.toggle_left)
        page.header.side.clicked.connect(self._sides.toggle_right)
        page.composer.settings.clicked.connect(lambda: dialogs.come_up(self.dialogs.chat_settings))
        page.composer.add.clicked.connect(self.dialogs.choose_pictures)
        page.composer.add_screen.clicked.connect(self.dialogs.choose_screen_part)
        page.composer.strip.open_asked.connect(self.dialogs.open)
        page.transcript.messages.open_picture_asked.connect(self.dialogs.open)
        page.composer.open_document_asked.connect(self.dialogs.open_document)
        page.transcript.messages.open_document_asked.connect(self.dialogs.open_document)
        page.transcript.messages.choose_pictures_asked.connect(self.dialogs.choose_pictures)
        page.transcript.messages.link_asked.connect(self.dialogs.open_link)

    def _make_settings(self) -> SettingsPanel:
        panel = SettingsPanel(self._parts.settings)
        panel.model_box.browse.clicked.connect(self.dialogs.choose_model)
        panel.model_box.load_asked.connect(self.page.composer.setFocus)
        panel.instructions.clicked.connect(self.page.show_instructions)
        panel.restored.connect(self._offer_undo)
        return panel

    def _open(self, chat: int | None) -> None:
        self._parts.chat.open(chat)
        self.page.composer.setFocus()

    def _open_last(self) -> None:
        """Unless the user has started something else."""
        last = self._geometry.value(LAST_CHAT, 0, type=int)
        chats = self._parts.chat_list.chats
        if self._parts.restored and chats:
            # The number is of a chat from before.
            last = max(chats, key=lambda each: each.used).id
        field = self.page.composer.text
        typed = field.document().isModified() or bool(field.attached)
        begun = typed or self._parts.chats.shown is not None
        if not begun and isinstance(last, int) and self._parts.chat_list.chat_of(last) is not None:
            self._parts.chat.open(last)
        self._parts.chats.shown_changed.connect(self._note_chat)
        if begun:
            self._note_chat()

    def _note_chat(self) -> None:
        """At once, as the program may be killed."""
        self._geometry.setValue(LAST_CHAT, self._parts.chats.shown or 0)

    def _make_folder(self) -> None:
        if self.side_bar.isHidden():
            self._sides.toggle_left()
        self._parts.folders_of_chats.make()

    def _regenerate(self) -> None:
        rows = self._parts.transcript.rows
        if rows and rows[-1].message.is_reply:
            self._parts.chat.regenerate(rows[-1].id)

    def _enable(self) -> None:
        rows, selected = self._parts.transcript.rows, self.side_bar.has_selected
        empty, unselected = tr("the chat is empty"), tr("no chat is selected")
        versions = any(len(each.message.siblings) > 1 for each in rows)
        one_version = tr("no message has another version")
        for name, enabled, why_not in (
            ("actionStop", self._parts.chat.running is not None, tr("no reply is being written")),
            (
                "actionRegenerate",
                bool(rows) and rows[-1].message.is_reply,
                tr("the chat doesn't end with a reply"),
            ),
            ("actionBefore", versions, one_version),
            ("actionAfter", versions, one_version),
            ("actionEdit", bool(rows), empty),
            (
                "actionAddScreen",
                can_read_screen(),
                tr("Wayland shows programs only their own windows"),
            ),
            ("actionFind", bool(rows), empty),
            ("actionExport", bool(rows), empty),
            ("actionPrint", bool(rows), empty),
            ("actionRename", selected, unselected),
            ("actionPin", self.side_bar.has_chat, unselected),
            ("actionMove", self.side_bar.has_chat, unselected),
            ("actionDelete", selected, unselected),
            ("actionEject", self._parts.engine.model is not None, tr("no model is loaded")),
            (
                "actionRestart",
                self._parts.engine.status.phase not in STARTING,
                tr("the engine is starting"),
            ),
        ):
            self.actions_by_name[name].setEnabled(enabled)
            self.actions_by_name[name].setProperty(WHY_NOT, "" if enabled else why_not)

    def _turn_to(self, page: int) -> None:
        self._sides.show_right()
        self.side_panel.show_page(page)

    def _show_model_settings(self) -> None:
        self._turn_to(1)
        self.side_panel.settings.show_model()

    def _show_error(self, error: ErrorInfo) -> None:
        self.toast.say(error_text(error), "error", topic=error.name)

    def _on_deleted(self, chat: int, title: str) -> None:
        if self._parts.transcript.chat == chat:
            self._open(None)
        self._offer_undo(trashed(title), lambda: self._parts.chats.restore(chat), chat)

    def _on_messages_deleted(self, gone: DeletedMessages) -> None:
        self._offer_undo(trashed(gone.title), lambda: self._parts.chats.restore_messages(gone))

    def _on_moved(self, moved: Moved) -> None:
        said = tr("The messages follow this version now.")
        self._offer_undo(said, lambda: self._parts.chat.move(moved.undone))

    def _offer_undo(self, said: str, undo: Callable[[], None], chat: int | None = None) -> None:
        self.toast.say(said, action=(tr("Undo"), undo), chat=chat)

    def come_to_front(self) -> None:
        # Hidden, it has lost the focus.
        focus = self.page.composer if self.isHidden() else None
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        dialogs.come_up(self, focus)
        self.tray.follow()

    def _show_shortcuts(self) -> None:
        menus = self.menuBar().actions()
        ShortcutsDialog(self.actions_by_name, menus, self._parts.settings, self).show()

    def _show_palette(self) -> None:
        entries = {
            name_of(each): menu.actions()
            for each in self.menuBar().actions()
            if isinstance(menu := each.menu(), QMenu)
        }
        CommandPalette(entries, self).show()

    def _zoom(self, steps: int) -> None:
        place = TEXT_SIZES.index(theme.signals().text_size) + steps
        size = TEXT_SIZES[min(max(place, 0), len(TEXT_SIZES) - 1)]
        self._parts.settings.set_value("window.text_size", size)

    def _show_context(self) -> None:
        self.context.show_view(self._parts.context.view)

    def _dress(self) -> None:
        window = self._parts.settings.settings.window
        if window.theme != theme.signals().choice:
            theme.force(cast(QApplication, QApplication.instance()), window.theme)
        if window.text_size != theme.signals().text_size:
            theme.set_text_size(window.text_size)

    def _follow_settings(self) -> None:
        self._dress()
        shortcuts = self._parts.settings.settings.window.shortcuts
        set_shortcuts(self.actions_by_name, shortcuts, self.menuBar().actions())

    def _on_focus(self, _old: QWidget | None, new: QWidget | None) -> None:
        if new is None and not self._leaving:
            # A control with the focus was deleted, or the window is no longer active.
            QTimer.singleShot(0, self, self._keep_focus)

    def _keep_focus(self) -> None:
        if QApplication.focusWidget() is None and QApplication.activeWindow() is self:
            self.page.composer.setFocus()

    def focusNextPrevChild(self, forward: bool) -> bool:
        # Qt calls this for Tab, and when the focused control is hidden or disabled; then the
        # composer takes the focus.
        focused = QApplication.focusWidget()
        if focused is not None and not (focused.isVisible() and focused.isEnabled()):
            self.page.composer.setFocus()
            return True
        return move_focus(self, forward)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # Before the part of the window under the pointer, which would scroll.
        self.windowHandle().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(event, QWheelEvent):
            return super().eventFilter(watched, event)
        if not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            return False
        self._turned += event.angleDelta().y()
        steps = int(self._turned / WHEEL_STEP)
        self._turned -= steps * WHEEL_STEP
        if steps:
            self._zoom(steps)
        return True

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._leaving:
            event.accept()
            return
        event.ignore()
        self._closing.close()


def trashed(title: str) -> str:
    said = tr("Moved to the trash, kept for {days} days: {title}")
    return said.format(days=TRASH_DAYS, title=title)
