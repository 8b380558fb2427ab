"""Says over the composer that the context fills up, and offers the ways on that help."""

from __future__ import annotations

from PySide6.QtCore import Signal

from desktop.context.limit import LimitController
from desktop.widgets.notice_bar import NoticeBar
from desktop.widgets.plain import set_tip
from desktop.words import limit as words


class LimitBar(NoticeBar):
    """Follows the limit of the shown chat.

    Signals:
        edit_asked(): the last message is to be edited.
    """

    edit_asked = Signal()

    def __init__(self, limit: LimitController) -> None:
        super().__init__("limit", words.NAME)
        self._limit = limit
        self._cancel = self.add_button("limitCancel", words.CANCEL, limit.cancel_summary)
        self._edit = self.add_button("limitEdit", words.EDIT, self.edit_asked.emit)
        set_tip(self._edit, words.EDIT_TIP)
        self._drop = self.add_button("limitDrop", words.LEAVE_OUT, limit.drop)
        set_tip(self._drop, words.LEAVE_OUT_TIP)
        self._longer = self.add_button("limitLonger", "", limit.load_longer)
        self._summary = self.add_button("limitSummary", words.SUMMARY, limit.summarise, "primary")
        set_tip(self._summary, words.SUMMARY_TIP)
        limit.changed.connect(self._show)
        self._show()

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
            self._longer.set_words(words.longer_words(*longer))
            self._longer.setAccessibleName(words.longer_words(*longer))
            set_tip(self._longer, words.longer_tip(longer[1]))
        full = offered is not None and offered.full
        self.say(self._limit.words(), "danger" if full else "warning")
