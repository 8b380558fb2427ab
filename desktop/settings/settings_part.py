"""One part of the settings: a head that folds it, what it holds for, its settings, its defaults."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from desktop import theme
from desktop.widgets.plain import Button, Label
from desktop.words import settings as words

# A widget, and the words by which a search finds it.
Found = tuple[QWidget, str]


class SettingsPart(QWidget):
    """Settings under a head.

    Signals:
        folded(bool): the user has folded or unfolded it.
        restore_asked(): the user wants its defaults.
    """

    folded = Signal(bool)
    restore_asked = Signal()

    def __init__(self, name: str, settings: Sequence[Found], is_open: bool) -> None:
        super().__init__()
        title, note = words.PARTS[name]
        self._settings = settings
        # What stays hidden whatever is searched for.
        self.absent: set[QWidget] = set()
        # What is shown with whatever else of the part is found.
        self.always: QWidget | None = None
        self._open = is_open
        self._head = Button(title, name=f"part{name}", style="head", spoken=title)
        self._head.setCheckable(True)
        self._head.clicked.connect(self._on_head)
        self._note = Label(note, style="muted small", wraps=True)
        self._restore = Button(
            words.RESTORE, name=f"restore{name}", style="flat", spoken=words.restore_spoken(title)
        )
        self._restore.clicked.connect(self.restore_asked)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        layout.addWidget(self._head)
        layout.addWidget(self._note)
        for widget, _ in settings:
            layout.addWidget(widget)
        layout.addWidget(self._restore)
        theme.signals().changed.connect(self._draw)

    def show_found(self, text: str) -> bool:
        """Show the settings that have these words, folded or not; '' is no search.

        Says whether there are any.
        """
        shown = bool(text) or self._open
        wanted = text.casefold().split()
        fits = {
            widget: all(word in said.casefold() for word in wanted) and widget not in self.absent
            for widget, said in self._settings
        }
        found = any(fits.values())
        for widget, own in fits.items():
            widget.setVisible(shown and (own or (found and widget is self.always)))
        self._head.setChecked(shown)
        self._draw()
        for label in (self._note, self._restore):
            label.setVisible(shown and not text)
        self.setVisible(found)
        return found

    def unfold(self) -> None:
        """Show what is below the head."""
        if not self._open:
            self._on_head()

    def _on_head(self) -> None:
        self._open = not self._open
        self.show_found("")
        self.folded.emit(not self._open)

    def _draw(self) -> None:
        name = "chevron_down" if self._head.isChecked() else "chevron_right"
        self._head.setIcon(theme.icon(name))
