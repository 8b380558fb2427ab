from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QHelpEvent
from PySide6.QtWidgets import QApplication, QLabel, QProgressBar, QToolTip
from pytestqt.qtbot import QtBot

from core.api.events import ContextPart, RequestStats
from desktop import theme
from desktop.views.widgets.context_bar import BAR_HEIGHT, TICK_HALF_WIDTH, TICK_HEIGHT, ContextBar
from desktop.views.widgets.context_panel import ContextPanel
from desktop.views.widgets.context_strip import ContextStrip
from desktop.views.widgets.value_grid import NOT_KNOWN
from tests.desktop.widgets import samples

VALUES = (
    "contextTokens",
    "contextReused",
    "contextEvaluated",
    "contextImagesReused",
    "contextImagesEncoded",
    "contextFirstToken",
    "contextSpeed",
    "contextCheckpoints",
    "contextCheckpointBytes",
    "contextRestoredFrom",
)


@pytest.fixture
def strip(qtbot: QtBot) -> ContextStrip:
    widget = ContextStrip()
    qtbot.addWidget(widget)
    widget.resize(408, 120)
    widget.show()
    return widget


@pytest.fixture
def panel(qtbot: QtBot) -> ContextPanel:
    widget = ContextPanel()
    qtbot.addWidget(widget)
    widget.resize(300, 700)
    widget.show()
    return widget


def colour(bar: ContextBar, x: float, y: float = TICK_HEIGHT + BAR_HEIGHT / 2) -> str:
    return str(bar.grab().toImage().pixelColor(int(x), int(y)).name())


def values(panel: ContextPanel) -> dict[str, str]:
    labels = {name: panel.findChild(QLabel, name) for name in VALUES}
    return {name: label.text() for name, label in labels.items() if isinstance(label, QLabel)}


def label(panel: ContextPanel, name: str) -> QLabel:
    found = panel.findChild(QLabel, name)
    assert isinstance(found, QLabel)
    return found


def test_each_part_is_painted_in_the_colour_of_its_source(strip: ContextStrip) -> None:
    strip.show_stats(
        RequestStats(
            prompt_tokens=200,
            reused_tokens=100,
            evaluated_tokens=100,
            reply_tokens=100,
            parts=(
                ContextPart(start=0, end=100, kind="text", source="reused"),
                ContextPart(start=100, end=200, kind="text", source="evaluated"),
                ContextPart(start=200, end=300, kind="text", source="reply"),
            ),
            context_length=400,
        )
    )
    bar, table = strip.bar(), theme.colours()
    width = bar.strip_layout().width
    seen = [colour(bar, TICK_HALF_WIDTH + width * share) for share in (0.12, 0.37, 0.62, 0.87)]
    assert seen == [table.reused, table.evaluated, table.reply, table.room]


def test_an_image_is_hatched(strip: ContextStrip) -> None:
    strip.show_stats(samples.second_turn())
    bar = strip.bar()
    image = bar.grab().toImage()
    row = TICK_HEIGHT + BAR_HEIGHT // 2
    boxes = [box for box in bar.strip_layout().boxes if box.part.source == "reused"]
    seen = [
        {
            image.pixelColor(int(x + TICK_HALF_WIDTH), row).name()
            for x in range(int(box.left) + 3, int(box.right) - 3)
        }
        for box in boxes[1:]
    ]
    assert theme.colours().reused in seen[0] & seen[1]
    assert len(seen[0]) > 1
    assert len(seen[1]) == 1


def test_a_checkpoint_is_ticked_above_the_bar(strip: ContextStrip) -> None:
    strip.show_stats(samples.second_turn())
    bar = strip.bar()
    place = bar.strip_layout().place_of(1021) + TICK_HALF_WIDTH
    assert colour(bar, place, 3) == theme.colours().checkpoint
    assert colour(bar, place + 20, 3) != theme.colours().checkpoint


def test_what_is_still_to_be_read_is_faint(strip: ContextStrip) -> None:
    stats = samples.long_chat()
    strip.show_stats(stats, done=stats.reused_tokens)
    bar = strip.bar()
    last = bar.strip_layout().boxes[-2]
    place = last.left + last.width / 2 + TICK_HALF_WIDTH
    faint = colour(bar, place)
    strip.show_stats(stats, done=stats.prompt_tokens)
    assert colour(bar, place) == theme.colours().evaluated != faint


def test_the_strip_follows_the_theme(strip: ContextStrip, dressed: QApplication) -> None:
    strip.show_stats(samples.first_words())
    theme.force(dressed, "dark")
    assert colour(strip.bar(), 60) == QColor(theme.colours().evaluated).name()


def test_a_tooltip_names_the_part_under_the_pointer(strip: ContextStrip) -> None:
    strip.show_stats(samples.second_turn())
    bar = strip.bar()
    boxes = bar.strip_layout().boxes
    at = [bar.words_at(box.left + box.width / 2 + TICK_HALF_WIDTH) for box in boxes]
    assert at[1] == "Image, reused: 999 tokens (tokens 22 to 1,020)"
    assert at[3] == "Text, read for this reply: 56 tokens (tokens 1,204 to 1,259)"
    assert at[4] == "Text, the reply: 310 tokens (tokens 1,260 to 1,569)"
    assert bar.words_at(bar.width() - 6) == "Room for 2,526 more tokens"
    where = QPoint(20, 15)
    QApplication.sendEvent(bar, QHelpEvent(QHelpEvent.Type.ToolTip, where, bar.mapToGlobal(where)))
    assert QToolTip.text() == at[1]
    QToolTip.hideText()


def test_the_room_says_when_it_is_not_to_scale(strip: ContextStrip) -> None:
    strip.show_stats(samples.first_words())
    words = strip.bar().words_at(strip.bar().width() - 6)
    assert words == "Room for 262,114 more tokens (not to scale)"


def test_the_strip_is_described_in_words(strip: ContextStrip) -> None:
    assert strip.accessibleDescription() == "The context is empty."
    strip.show_stats(samples.second_turn())
    assert strip.accessibleDescription() == (
        "The context holds 1,570 tokens of 4,096: "
        "reused 1,204, read 56, reply 310, free 2,526, 1 image, 3 checkpoints."
    )


def test_the_legend_names_only_what_is_there(strip: ContextStrip) -> None:
    strip.show_stats(samples.first_words())
    assert strip.legend() == "Read 26, Reply 4, Free 262,114"
    strip.show_stats(None)
    assert strip.legend() == ""


def test_the_panel_shows_every_number(panel: ContextPanel) -> None:
    panel.show_stats(samples.second_turn(), samples.model_info())
    assert values(panel) == {
        "contextTokens": "1,570 of 4,096 tokens",
        "contextReused": "1,204",
        "contextEvaluated": "56",
        "contextImagesReused": "1",
        "contextImagesEncoded": "0",
        "contextFirstToken": "0.4 s",
        "contextSpeed": "28 tokens/s",
        "contextCheckpoints": "3 here, 12 in all",
        "contextCheckpointBytes": "1.9 GB",
        "contextRestoredFrom": "memory, up to token 1,204",
    }
    assert label(panel, "contextHero").text() == "95 % reused"
    assert not label(panel, "contextMiss").isVisible()
    assert panel.findChild(ContextStrip, "contextStrip") is not None


def test_every_number_is_explained(panel: ContextPanel) -> None:
    tips = [label(panel, name).toolTip() for name in VALUES]
    assert all(tip.endswith(".") for tip in tips)
    assert len(set(tips)) == len(VALUES)


def test_the_panel_says_why_something_was_read_again(panel: ContextPanel) -> None:
    panel.show_stats(samples.long_chat(), samples.model_info())
    miss = label(panel, "contextMiss")
    assert miss.isVisible()
    assert miss.text().startswith("Read again from message 37 on (token 11,061)")


def test_without_a_request_nothing_is_claimed(panel: ContextPanel) -> None:
    panel.show_stats(samples.long_chat(), samples.model_info())
    panel.show_stats(None, samples.model_info())
    assert set(values(panel).values()) == {NOT_KNOWN}
    assert "32,768 tokens fit." in label(panel, "contextSummary").text()
    assert not label(panel, "contextMiss").isVisible()


def test_reading_is_shown_live(panel: ContextPanel) -> None:
    progress = panel.findChild(QProgressBar, "contextProgress")
    assert isinstance(progress, QProgressBar)
    stats = samples.long_chat()
    panel.show_live(stats, 12_000)
    assert progress.isVisible()
    assert (progress.value(), progress.maximum()) == (12_000, stats.prompt_tokens)
    assert label(panel, "contextSummary").text().startswith("12,000 of 16,188 prompt tokens")
    assert values(panel)["contextReused"] == "11,061"
    panel.show_stats(stats, samples.model_info())
    assert not progress.isVisible()


def test_a_model_whose_replies_cannot_be_reused_is_named(panel: ContextPanel) -> None:
    model = samples.model_info().model_copy(
        update={"spliced_replies": False, "history_note": "Replies are read again as text."}
    )
    panel.show_stats(None, model)
    assert label(panel, "contextNote").text() == "Replies are read again as text."
    assert label(panel, "contextNote").isVisible()
    panel.show_stats(None, samples.model_info())
    assert not label(panel, "contextNote").isVisible()
