"""The icon in the system's tray, and notifications of finished replies."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QMenu, QSystemTrayIcon, QWidget

from desktop import theme
from desktop.chat.replies import Replies
from desktop.chat.transcript import LiveReply
from desktop.chats.chat_list import ChatList
from desktop.i18n import tr
from desktop.settings.settings import SettingsController
from desktop.store.tables.records import Reply, ReplyState
from desktop.widgets.plain import action, named
from desktop.widgets.plain_text import shortened

LONGEST_TITLE = 80


class Tray(QObject):
    """The icon is there while it has a use: for notifications, or while the window is hidden."""

    show_asked = Signal()
    quit_asked = Signal()
    # The notification of this chat was clicked.
    open_asked = Signal(int)

    def __init__(
        self, window: QWidget, replies: Replies, chats: ChatList, settings: SettingsController
    ) -> None:
        super().__init__(window)
        self._window, self._chats, self._settings = window, chats, settings
        self._told: int | None = None
        menu = named(QMenu(window), "trayMenu")
        menu.addAction(action(tr("Show Waymark"), menu, self.show_asked.emit))
        menu.addAction(action(tr("Quit"), menu, self.quit_asked.emit))
        self.icon = QSystemTrayIcon(theme.icon("waymark", "accent"), self)
        self.icon.setToolTip("Waymark")
        self.icon.setContextMenu(menu)
        self.icon.activated.connect(self._on_click)
        self.icon.messageClicked.connect(self._on_message)
        settings.changed.connect(self.follow)
        replies.ended.connect(self._on_end)

    @property
    def available(self) -> bool:
        return QSystemTrayIcon.isSystemTrayAvailable()

    @property
    def _wanted(self) -> bool:
        return self._settings.settings.background.notify or self._window.isHidden()

    def follow(self) -> None:
        """Show or hide the icon; call when the window was shown or hidden."""
        # A tray may come later than the window.
        self.icon.setVisible(self._wanted and self.available)

    def _on_click(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        # A right click opens the menu.
        if reason is not QSystemTrayIcon.ActivationReason.Context:
            self.show_asked.emit()

    def _on_message(self) -> None:
        self.show_asked.emit()
        if self._told is not None:
            self.open_asked.emit(self._told)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        elsewhere = QApplication.activeWindow() is None
        ended = reply.state in (ReplyState.COMPLETE, ReplyState.FAILED)
        if not (elsewhere and ended and self._settings.settings.background.notify):
            return
        self.follow()
        cast(QApplication, QApplication.instance()).alert(self._window)
        place = self._chats.place_of(live.chat)
        title = " ".join(self._chats.chats[place].title.split()) if place is not None else ""
        failed = reply.state is ReplyState.FAILED
        words = tr("The reply failed.") if failed else tr("The reply is finished.")
        self._told = live.chat
        # A notification's text may be read as markup, its title is not.
        self.icon.showMessage(shortened(title, LONGEST_TITLE) or "Waymark", words, self.icon.icon())
