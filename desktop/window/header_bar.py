"""The row above the conversation: title, instructions, model, state of the engine."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QProgressBar, QSizePolicy

from core.remote.connection import host_of
from desktop import theme
from desktop.chat.shown_chat import ShownChat
from desktop.chats.chats import ChatsController
from desktop.engine.engine import EngineController
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.i18n import tr
from desktop.models.model_choice import ModelSwitcher
from desktop.settings.settings import SettingsController
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import row
from desktop.widgets.plain import Button, ElidedLabel, ToolButton, named, set_tip

# In a narrower window some texts are hidden.
NARROW_PX = 560


class HeaderBar(QFrame):
    def __init__(
        self,
        chats: ChatsController,
        engine: EngineController,
        settings: SettingsController,
        chat: ShownChat,
    ) -> None:
        super().__init__()
        self.setObjectName("headerBar")
        self._chats = chats
        self._engine = engine
        self._chat = chat
        self._title = ElidedLabel(name="chatTitle", style="heading")
        self._title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.chats = IconButton("panel_left", tr("Show or hide the chats"), name="toggleChats")
        self.side = IconButton(
            "panel_right", tr("Show or hide settings and context"), name="toggleSide"
        )
        self.instructions = ToolButton()
        self.model = ModelSwitcher(settings)
        self._place = ElidedLabel(name="chatPlace", style="warning small")
        self._place.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._state = ElidedLabel(name="engineState", style="muted small")
        self._state.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._progress = named(QProgressBar(), "loadProgress", tr("Loading the model"))
        self._progress.setTextVisible(False)
        self._progress.setFixedWidth(90)
        self._restart = Button(
            tr("Start again"), name="restartEngine", spoken=tr("Start the engine again")
        )
        self._restart.clicked.connect(engine.restart)
        self._build()
        chats.shown_changed.connect(self._show_title)
        engine.changed.connect(self._show_status)
        chat.placed.connect(lambda: self._show_status(engine.status))
        theme.signals().changed.connect(self._draw)
        self._draw()
        self._show_title()
        self._show_status(engine.status)

    def _build(self) -> None:
        button = self.instructions
        button.setObjectName("toggleInstructions")
        button.set_words(tr("Instructions"))
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setCheckable(True)
        # It is lit if there are instructions, not while they are shown.
        button.clicked.connect(lambda on: button.setChecked(not on))
        self.mark_instructions(False)
        at_left = (self.chats, self._title, self.instructions)
        at_right = (self._place, self._progress, self._state, self._restart, self.model, self.side)
        row(*at_left, None, *at_right, of=self, margins=(10, 8, 10, 8), spacing=8)

    def mark_instructions(self, given: bool) -> None:
        self.instructions.setChecked(given)
        said = tr("Instructions for this chat")
        said = tr("Instructions for this chat: given") if given else said
        set_tip(self.instructions, said)
        self.instructions.setAccessibleName(said)

    def _show_title(self) -> None:
        chat = self._chats.chat_list.chat_of(self._chats.shown)
        folder = self._chat.folder
        if chat is not None:
            title = chat.title
        elif folder is None:
            title = tr("New chat")
        else:
            title = tr("New chat in {folder}").format(folder=folder.name)
        self._title.set_words(title)

    def _show_status(self, status: EngineStatus) -> None:
        place = self._chat.place
        self._place.setVisible(place is not None)
        if place is not None:
            self._place.set_words(tr("Runs on {host}").format(host=host_of(place.address)))
        self.model.show_status(status, place)
        self._state.set_words(status.words())
        set_tip(self._state, status.trouble or status.words())
        bad = status.silent or status.phase in (Phase.FAILED, Phase.RESTARTING, Phase.EMPTY)
        bad = bad and not status.asleep and not status.cancelled
        theme.set_class(self._state, "warning small" if bad else "muted small")
        self._restart.setVisible(self._needs_restart)
        self._progress.setVisible(status.phase is Phase.LOADING and place is None)
        # A range of 0 is shown as "busy".
        self._progress.setRange(0, 100 if status.total else 0)
        if status.total:
            self._progress.setValue(100 * status.done // status.total)
        self._fit()

    @property
    def _needs_restart(self) -> bool:
        status = self._engine.status
        return status.silent or status.phase is Phase.FAILED

    def _fit(self) -> None:
        """In a narrow window, hide texts that don't ask for an action."""
        narrow = self.width() < theme.px(NARROW_PX)
        styles = Qt.ToolButtonStyle
        self.instructions.setToolButtonStyle(
            styles.ToolButtonIconOnly if narrow else styles.ToolButtonTextBesideIcon
        )
        status, elsewhere = self._engine.status, self._chat.place is not None
        # An error and its remedy come first.
        for widget in (self._title, self.instructions, self.model):
            widget.setVisible(not (narrow and self._needs_restart))
        if narrow and elsewhere:
            self._title.hide()
        at_rest = status.phase is Phase.READY and not status.silent
        self._state.setVisible(not (narrow and at_rest) and not elsewhere)
        # In a wide window the title is shortened instead.
        self._state.setMinimumWidth(0 if narrow else self._state.sizeHint().width())
        self._progress.setFixedWidth(40 if narrow else 90)

    def _draw(self) -> None:
        self.instructions.setIcon(theme.icon("chat"))
        self.instructions.setIconSize(theme.icon_size(16))
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
