"""The bar above the composer that warns of a full context and offers ways to continue."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame

from desktop import theme
from desktop.context.limit import LimitController
from desktop.i18n import tr
from desktop.numbers import format_bytes, format_count
from desktop.widgets.layouts import column
from desktop.widgets.plain import Button, Label, set_tip


class LimitBar(QFrame):
    # The user wants to edit the last message.
    edit_asked = Signal()

    def __init__(self, limit: LimitController) -> None:
        super().__init__()
        self._limit = limit
        self.setObjectName("limitBar")
        self.setAccessibleName(tr("The context is filling up"))
        self.setProperty("class", "notice")
        self._words = Label(name="limitWords", wraps=True)
        self._buttons = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._buttons.addStretch(1)
        column(self._words, self._buttons, of=self, margins=(14, 10, 10, 10), spacing=8)
        self._cancel = self._add("limitCancel", tr("Cancel"), limit.cancel_summary)
        self._edit = self._add("limitEdit", tr("Edit the message"), self.edit_asked.emit)
        set_tip(self._edit, tr("Send it again in fewer words"))
        self._drop = self._add("limitDrop", tr("Leave out oldest turns"), limit.drop)
        set_tip(self._drop, tr("The model no longer reads them; they stay in this chat"))
        self._longer = self._add("limitLonger", "", limit.load_longer)
        self._summary = self._add(
            "limitSummary", tr("New chat from a summary"), limit.summarise, "primary"
        )
        set_tip(self._summary, tr("This chat stays as it is"))
        limit.changed.connect(self._show)
        self._show()

    def _add(self, name: str, words: str, act: Callable[[], object], style: str = "") -> Button:
        button = Button(words, name=name, style=style)
        button.clicked.connect(lambda _checked: act())
        self._buttons.addWidget(button)
        return button

    def _show(self) -> None:
        fill, summarising = self._limit.fill, self._limit.summarising
        offered = None if summarising else fill
        alone = offered is not None and offered.alone
        longer = self._limit.longer if offered else None
        self._cancel.setVisible(summarising)
        self._edit.setVisible(alone)
        self._drop.setVisible(offered is not None and offered.can_drop)
        self._summary.setVisible(offered is not None and len(offered.costs) > 1 and not alone)
        self._longer.setVisible(longer is not None)
        if longer is not None:
            tokens, size = format_count(longer[0]), format_bytes(longer[1])
            words = tr("Load with {tokens} tokens ({size})").format(tokens=tokens, size=size)
            self._longer.set_words(words)
            set_tip(self._longer, tr("Its KV cache takes {size} of memory").format(size=size))
        full = offered is not None and offered.full
        self._say(self._limit.words(), "danger" if full else "warning")

    def _say(self, words: str, kind: str) -> None:
        self._words.setText(words)
        self.setAccessibleDescription(words)
        if self.property("kind") != kind:
            self.setProperty("kind", kind)
            theme.restyle(self)
        self.setVisible(bool(words))
        self._fit()

    def _fit(self) -> None:
        margins = self.contentsMargins().left() + self.contentsMargins().right()
        layout = self.layout()
        assert layout is not None
        inner = layout.contentsMargins()
        room = self.width() - margins - inner.left() - inner.right()
        self._words.setMinimumHeight(max(0, self._words.heightForWidth(room)))
        shown = [each for each in self.findChildren(Button) if not each.isHidden()]
        wanted = sum(each.sizeHint().width() + self._buttons.spacing() for each in shown)
        kinds = QBoxLayout.Direction
        self._buttons.setDirection(kinds.TopToBottom if wanted > room else kinds.LeftToRight)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
