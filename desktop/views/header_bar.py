"""The row above the conversation: its title, the model and what the engine is doing."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar

from desktop import theme
from desktop.controllers.chats import ChatsController
from desktop.controllers.engine import EngineController
from desktop.item_models.engine_status import EngineStatus, Phase
from desktop.views.elided_label import ElidedLabel
from desktop.views.plain import Button, Label, set_tip
from desktop.views.widgets.icon_button import IconButton


class HeaderBar(QFrame):
    """Title and state.

    Signals:
        chats_toggled(), side_toggled(): show or hide the left or the right side.
        instructions_toggled(): show or hide the instructions of the chat.
    """

    chats_toggled = Signal()
    side_toggled = Signal()
    instructions_toggled = Signal()

    def __init__(self, chats: ChatsController, engine: EngineController) -> None:
        super().__init__()
        self.setObjectName("headerBar")
        self._chats = chats
        self._title = ElidedLabel(name="chatTitle", style="heading")
        self._model = Label(name="modelName", style="chip")
        self._state = Label(name="engineState", style="muted small")
        self._progress = QProgressBar()
        self._progress.setObjectName("loadProgress")
        self._progress.setAccessibleName("Loading the model")
        self._progress.setTextVisible(False)
        self._progress.setFixedWidth(90)
        self._restart = Button("Start again", name="restartEngine", spoken="Start the engine again")
        self._restart.clicked.connect(engine.restart)
        self._build()
        chats.shown_changed.connect(self._show_title)
        engine.changed.connect(self._show_status)
        self._show_title()
        self._show_status(engine.status)

    def _build(self) -> None:
        left = IconButton("panel_left", "Show or hide the chats")
        left.setObjectName("toggleChats")
        left.clicked.connect(self.chats_toggled)
        self._instructions = IconButton("chat", "Instructions for this chat")
        self._instructions.setObjectName("toggleInstructions")
        self._instructions.setCheckable(True)
        # What lights it up is that there are some, not that they are being looked at.
        self._instructions.clicked.connect(lambda on: self._instructions.setChecked(not on))
        self._instructions.clicked.connect(self.instructions_toggled)
        right = IconButton("panel_right", "Show or hide settings and context")
        right.setObjectName("toggleSide")
        right.clicked.connect(self.side_toggled)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(10)
        layout.addWidget(left)
        layout.addWidget(self._title, 1)
        for widget in (
            self._instructions,
            self._progress,
            self._state,
            self._restart,
            self._model,
            right,
        ):
            layout.addWidget(widget)

    def mark_instructions(self, given: bool) -> None:
        """Show whether the model is told anything before the chat; the words say which."""
        self._instructions.setChecked(given)
        self._instructions.set_words(
            "Instructions for this chat: given" if given else "Instructions for this chat"
        )

    def _show_title(self) -> None:
        place = self._chats.chat_list.place_of(self._chats.shown)
        title = "New chat" if place is None else self._chats.chat_list.chats[place].title
        self._title.set_words(title)

    def _show_status(self, status: EngineStatus) -> None:
        model = status.model
        self._model.setVisible(model is not None)
        if model is not None:
            self._model.setText(model.name)
            set_tip(self._model, model.path)
        self._state.setText(status.words())
        set_tip(self._state, status.trouble)
        bad = status.silent or status.phase in (Phase.FAILED, Phase.RESTARTING, Phase.EMPTY)
        self._state.setProperty("class", "warning small" if bad else "muted small")
        theme.restyle(self._state)
        self._restart.setVisible(status.silent or status.phase is Phase.FAILED)
        self._progress.setVisible(status.phase is Phase.LOADING)
        # A range of nothing is shown as "busy".
        self._progress.setRange(0, 100 if status.total else 0)
        if status.total:
            self._progress.setValue(100 * status.done // status.total)
