"""The row above the conversation: its title, its instructions, the model, what the engine does."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QSizePolicy

from desktop import theme
from desktop.chats.chats import ChatsController
from desktop.engine.engine import EngineController
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.models.model_switcher import ModelSwitcher
from desktop.settings.settings import SettingsController
from desktop.widgets.elided_label import ElidedLabel
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Button, ToolButton, set_tip
from desktop.words import frame as words

# Narrower than this there is no room for all words beside the title.
NARROW_PX = 560


class HeaderBar(QFrame):
    """Title and state.

    Signals:
        chats_toggled(), side_toggled(): show or hide the left or the right side.
        instructions_toggled(): show or hide the instructions of the chat.
    """

    chats_toggled = Signal()
    side_toggled = Signal()
    instructions_toggled = Signal()

    def __init__(
        self, chats: ChatsController, engine: EngineController, settings: SettingsController
    ) -> None:
        super().__init__()
        self.setObjectName("headerBar")
        self._chats = chats
        self._engine = engine
        self._title = ElidedLabel(name="chatTitle", style="heading")
        self._title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._instructions = ToolButton()
        self.model = ModelSwitcher(settings)
        self._state = ElidedLabel(name="engineState", style="muted small")
        self._state.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._progress = QProgressBar()
        self._progress.setObjectName("loadProgress")
        self._progress.setAccessibleName(words.LOADING)
        self._progress.setTextVisible(False)
        self._progress.setFixedWidth(90)
        self._restart = Button(
            words.START_AGAIN, name="restartEngine", spoken=words.START_AGAIN_SPOKEN
        )
        self._restart.clicked.connect(engine.restart)
        self._build()
        chats.shown_changed.connect(self._show_title)
        engine.changed.connect(self._show_status)
        theme.signals().changed.connect(self._draw)
        self._draw()
        self._show_title()
        self._show_status(engine.status)

    def _build(self) -> None:
        left = IconButton("panel_left", words.TOGGLE_CHATS, name="toggleChats")
        left.clicked.connect(self.chats_toggled)
        right = IconButton("panel_right", words.TOGGLE_SIDE, name="toggleSide")
        right.clicked.connect(self.side_toggled)
        self._make_instructions()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(8)
        at_left = (left, self._title, self._instructions)
        at_right = (self._progress, self._state, self._restart, self.model, right)
        for widget in (*at_left, *at_right):
            layout.addWidget(widget)
        layout.insertStretch(len(at_left), 1)

    def _make_instructions(self) -> None:
        button = self._instructions
        button.setObjectName("toggleInstructions")
        button.set_words(words.INSTRUCTIONS)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setCheckable(True)
        # What lights it up is that there are some, not that they are being looked at.
        button.clicked.connect(lambda on: button.setChecked(not on))
        button.clicked.connect(self.instructions_toggled)
        self.mark_instructions(False)

    def mark_instructions(self, given: bool) -> None:
        """Show whether instructions stand in the prompt before the chat; the words say which."""
        self._instructions.setChecked(given)
        said = words.INSTRUCTIONS_GIVEN if given else words.INSTRUCTIONS_NONE
        set_tip(self._instructions, said)
        self._instructions.setAccessibleName(said)

    def _show_title(self) -> None:
        place = self._chats.chat_list.place_of(self._chats.shown)
        title = words.NEW_CHAT if place is None else self._chats.chat_list.chats[place].title
        self._title.set_words(title)

    def _show_status(self, status: EngineStatus) -> None:
        self.model.show_status(status)
        self._state.set_words(status.words())
        set_tip(self._state, status.trouble or status.words())
        bad = status.silent or status.phase in (Phase.FAILED, Phase.RESTARTING, Phase.EMPTY)
        bad = bad and not status.cancelled
        self._state.setProperty("class", "warning small" if bad else "muted small")
        theme.restyle(self._state)
        self._restart.setVisible(self._needs_restart)
        self._progress.setVisible(status.phase is Phase.LOADING)
        # A range of nothing is shown as "busy".
        self._progress.setRange(0, 100 if status.total else 0)
        if status.total:
            self._progress.setValue(100 * status.done // status.total)
        self._fit()

    @property
    def _needs_restart(self) -> bool:
        status = self._engine.status
        return status.silent or status.phase is Phase.FAILED

    def _fit(self) -> None:
        """In a narrow window words give way to the title, if they tell nothing to act on."""
        narrow = self.width() < theme.px(NARROW_PX)
        styles = Qt.ToolButtonStyle
        self._instructions.setToolButtonStyle(
            styles.ToolButtonIconOnly if narrow else styles.ToolButtonTextBesideIcon
        )
        status = self._engine.status
        # What went wrong and its remedy go before all else.
        for widget in (self._title, self._instructions, self.model):
            widget.setVisible(not (narrow and self._needs_restart))
        at_rest = status.phase is Phase.READY and not status.silent
        self._state.setVisible(not (narrow and at_rest))
        # Where there is room for both, it is the title that is shortened.
        self._state.setMinimumWidth(0 if narrow else self._state.sizeHint().width())
        self._progress.setFixedWidth(40 if narrow else 90)

    def _draw(self) -> None:
        self._instructions.setIcon(theme.icon("chat"))
        self._instructions.setIconSize(theme.icon_size(16))
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
