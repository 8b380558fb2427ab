"""Says over the composer that the context fills up, and offers the two ways on."""

from __future__ import annotations

from desktop.controllers.limit import LimitController
from desktop.views.notice_bar import NoticeBar
from desktop.views.plain import set_tip


class LimitBar(NoticeBar):
    """Follows the limit of the shown chat."""

    def __init__(self, limit: LimitController) -> None:
        super().__init__("limit", "The context fills up")
        self._limit = limit
        self._cancel = self.add_button("limitCancel", "Cancel", limit.cancel_summary)
        self._drop = self.add_button("limitDrop", "Drop the oldest turns", limit.drop)
        set_tip(self._drop, "The model reads them no longer; they stay in this chat")
        self._summary = self.add_button(
            "limitSummary", "New chat from a summary", limit.summarise, "primary"
        )
        set_tip(self._summary, "This chat stays as it is")
        limit.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        fill, summarising = self._limit.fill, self._limit.summarising
        self._cancel.setVisible(summarising)
        self._drop.setVisible(not summarising and fill is not None and fill.can_drop)
        self._summary.setVisible(not summarising and fill is not None and len(fill.costs) > 1)
        full = fill is not None and fill.full and not summarising
        self.say(self._limit.words(), "danger" if full else "warning")
