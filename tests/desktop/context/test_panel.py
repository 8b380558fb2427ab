from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QHelpEvent
from PySide6.QtWidgets import QApplication, QLabel, QProgressBar, QToolTip
from pytestqt.qtbot import QtBot

from core.api.events import Prepared
from core.api.stats import CacheBytes, ContextPart, DraftCounts, HeldCheckpoint, RequestStats
from desktop import theme
from desktop.context.context import ContextView
from desktop.context.context_panel import ContextPanel
from desktop.context.context_strip import BAND_TOP, BAR_HEIGHT, ContextBar, ContextStrip, Legend
from desktop.context.fills import (
    THINNEST,
    TICK_HALF_WIDTH,
    TICK_HEIGHT,
    ByteBars,
    FillBar,
    PlaceBytes,
    stores,
)
from desktop.context.strip import Strip, part_words, prepared_strip
from tests.desktop.hands import child
from tests.desktop.widgets import samples

pytestmark = pytest.mark.usefixtures("dressed")

VALUES = (
    "contextTokens",
    "contextReused",
    "contextEvaluated",
    "contextImagesReused",
    "contextImagesEncoded",
    "contextFirstToken",
    "contextSpeed",
    "contextCheckpoints",
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


def seen(panel: ContextPanel) -> dict[str, str]:
    return {name: said for name, said in values(panel).items() if label(panel, name).isVisible()}


def fill(strip: ContextStrip) -> FillBar:
    return child(strip, FillBar, "contextFill")


def filled(strip: ContextStrip) -> float:
    return sum(width for _, width in fill(strip).widths())


def label(panel: ContextPanel, name: str) -> QLabel:
    return child(panel, QLabel, name)


SIX = RequestStats(
    prompt_tokens=200,
    reused_tokens=100,
    evaluated_tokens=100,
    reply_tokens=100,
    parts=(
        ContextPart(start=0, end=100, kind="text", source="reused"),
        ContextPart(start=100, end=200, kind="text", source="evaluated", tier="memory"),
        ContextPart(start=200, end=300, kind="text", source="reply", tier="disk", on_disk=True),
    ),
    context_length=400,
)


def places(bar: ContextBar) -> list[float]:
    width = bar.strip_layout().width
    return [TICK_HALF_WIDTH + width * share for share in (0.12, 0.37, 0.62, 0.87)]


def test_each_part_is_painted_where_it_lives_and_below_what_became_of_it(
    strip: ContextStrip,
) -> None:
    strip.show_strip(Strip.of_request(SIX))
    bar, table = strip.bar, theme.colours()
    upper = [colour(bar, x) for x in places(bar)]
    assert upper[:2] + upper[3:] == [table.slab, table.memory, table.room]
    # What lies on disk has a pattern of its own.
    area = [colour(bar, places(bar)[2] + x, TICK_HEIGHT + 8 + y) for x in range(4) for y in (0, 1)]
    assert set(area) == {table.disk, table.room}
    lower = [colour(bar, x, BAND_TOP) for x in places(bar)]
    assert lower[:3] == [table.reused, table.evaluated, table.reply]
    # Told apart by thickness too.
    assert colour(bar, places(bar)[0], BAND_TOP + 4) != table.reused
    assert colour(bar, places(bar)[1], BAND_TOP + 4) == table.evaluated
    # Parts that a restart keeps are underlined.
    foot = TICK_HEIGHT + BAR_HEIGHT - 2
    assert colour(bar, places(bar)[2], foot) == table.checkpoint
    assert colour(bar, places(bar)[1], foot) == table.memory


def test_tiers_of_an_old_context_are_not_claimed(strip: ContextStrip) -> None:
    strip.show_strip(Strip.of_request(SIX, known=False))
    bar, grey = strip.bar, theme.colours().border_strong
    assert [colour(bar, x) for x in places(bar)[:3]] == [grey] * 3
    assert strip.legend.text().startswith("Not loaded 300, Free 100, ")
    assert "Not loaded: the next message loads what is saved" in bar.words_at(places(bar)[0])
    assert filled(strip) == 0


# Asked with 40 tokens to read and 12 of header; answered with 6, which history shows as 10.
ASKED = RequestStats(
    prompt_tokens=112,
    reused_tokens=60,
    evaluated_tokens=52,
    reply_tokens=6,
    message_starts=(0, 40, 60),
    checkpoints=(HeldCheckpoint(token=60, position=60, bytes=1),) * 2,
    checkpoints_held=2,
    parts=(
        ContextPart(start=0, end=60, kind="text", source="reused"),
        ContextPart(start=60, end=112, kind="text", source="evaluated"),
        ContextPart(start=112, end=118, kind="text", source="reply"),
    ),
    context_length=400,
)
SETTLED = Prepared(
    request=1,
    tokens=10,
    encoded=0,
    bytes=CacheBytes(),
    prompt_tokens=118,
    parts=(
        ContextPart(start=0, end=20, kind="image", source="reused"),
        ContextPart(start=20, end=100, kind="text", source="reused"),
        ContextPart(start=100, end=110, kind="text", source="reused"),
    ),
    checkpoints=(HeldCheckpoint(token=110, position=110, bytes=1),) * 3,
    message_starts=(0, 40, 60, 100),
)


def test_the_words_of_a_part_are_about_the_same_tokens() -> None:
    strip = prepared_strip(SETTLED, ASKED, 400)
    image, text, reply = (part_words(part, strip) for part in strip.parts)
    assert image.endswith("Reused for the last reply.")
    assert text.endswith("For the last reply: 40 reused, 40 read.")
    # The reply was written with a header that history does not show.
    assert "last reply" not in reply


def test_the_numbers_and_the_strip_agree_before_and_after_idle_work(panel: ContextPanel) -> None:
    shown = child(panel, ContextStrip)
    for strip, tokens, held in (
        (Strip.of_request(ASKED), "118 of 400 tokens", "2 here, 2 in all chats"),
        (prepared_strip(SETTLED, ASKED, 400), "110 of 400 tokens", "3 here"),
    ):
        panel.show_view(ContextView(ASKED, None, strip))
        assert values(panel)["contextTokens"] == tokens
        assert values(panel)["contextCheckpoints"] == held
        assert shown.legend.text().startswith(f"In use now {tokens.split()[0]}, ")
    part = ContextPart(start=0, end=350, kind="text", source="reused", on_disk=True)
    after = SETTLED.model_copy(update={"parts": (part,), "checkpoints": SETTLED.checkpoints[:1]})
    panel.show_view(ContextView(SIX, None, prepared_strip(after, SIX, 400)))
    assert shown.legend.text() == (
        "In use now 350, Free 50, 1 checkpoint, Also on disk, Reused 100, Read 100, Reply 100"
    )


def test_images_are_hatched_and_checkpoints_ticked(strip: ContextStrip) -> None:
    strip.show_strip(Strip.of_request(samples.second_turn()))
    bar = strip.bar
    image = bar.grab().toImage()
    row = TICK_HEIGHT + BAR_HEIGHT // 2
    boxes = bar.strip_layout().boxes
    seen = [
        {
            image.pixelColor(int(x + TICK_HALF_WIDTH), row).name()
            for x in range(int(box.left) + 3, int(box.right) - 3)
        }
        for box in (boxes[1], boxes[4])
    ]
    assert theme.colours().memory in seen[0]
    assert len(seen[0]) > 1
    assert seen[1] == {theme.colours().slab}
    place = bar.strip_layout().place_of(1021) + TICK_HALF_WIDTH
    assert colour(bar, place, 3) == theme.colours().checkpoint
    assert colour(bar, place + 20, 3) != theme.colours().checkpoint


def test_what_is_still_to_be_read_is_faint(strip: ContextStrip) -> None:
    stats = samples.long_chat()
    strip.show_strip(Strip.of_request(stats, done=stats.reused_tokens))
    bar = strip.bar
    last = bar.strip_layout().boxes[-2]
    place = last.left + last.width / 2 + TICK_HALF_WIDTH
    faint = colour(bar, place)
    strip.show_strip(Strip.of_request(stats, done=stats.prompt_tokens))
    assert colour(bar, place) == theme.colours().slab != faint


def test_the_strip_follows_the_theme(strip: ContextStrip, dressed: QApplication) -> None:
    strip.show_strip(Strip.of_request(samples.first_words()))
    theme.force(dressed, "dark")
    assert colour(strip.bar, 60) == QColor(theme.colours().slab).name()


def test_a_tooltip_names_the_part_under_the_pointer(strip: ContextStrip) -> None:
    strip.show_strip(Strip.of_request(samples.second_turn()))
    bar = strip.bar
    boxes = bar.strip_layout().boxes
    at = [bar.words_at(box.left + box.width / 2 + TICK_HALF_WIDTH) for box in boxes]
    assert at[1] == (
        "Image: 999 tokens (22 to 1,020)\n"
        "In memory, ready to be reused. Kept after a restart.\n"
        "Reused for the last reply."
    )
    assert at[3] == (
        "Text: 56 tokens (1,204 to 1,259)\nIn use now. Lost at a restart.\nRead for the last reply."
    )
    assert at[2].splitlines()[1].startswith("On disk, loaded when needed.")
    assert at[4].endswith("The last reply itself.")
    assert bar.words_at(bar.width() - 6) == "Room for 2,526 more tokens"
    where = QPoint(20, 15)
    QApplication.sendEvent(bar, QHelpEvent(QHelpEvent.Type.ToolTip, where, bar.mapToGlobal(where)))
    assert QToolTip.text() == at[1]
    QToolTip.hideText()


def test_the_strip_in_words(strip: ContextStrip) -> None:
    assert strip.accessibleDescription() == "The context is empty."
    strip.show_strip(Strip.of_request(samples.second_turn()))
    assert strip.accessibleDescription() == (
        "The context holds 1,570 tokens of 4,096: "
        "In use now 388, In memory 999, On disk 183, Free 2,526, 1 image, 3 checkpoints, "
        "Also on disk. The last reply: Reused 1,204, Read 56, Reply 310."
    )
    strip.show_strip(Strip.of_request(samples.first_words()))
    assert strip.legend.text() == "In use now 30, Free 262,114, Read 26, Reply 4"
    words = strip.bar.words_at(strip.bar.width() - 6)
    assert words == "Room for 262,114 more tokens (not to scale)"
    strip.show_strip(Strip())
    assert strip.legend.text() == "" and strip.isHidden()


def test_how_full_the_context_is_is_drawn_true_to_scale(strip: ContextStrip) -> None:
    cut = child(strip, QLabel, "contextUsedPart")
    strip.show_strip(Strip.of_request(SIX))
    assert filled(strip) == pytest.approx(fill(strip).width() * 300 / 400)
    assert cut.isHidden()
    # Thirty tokens of a quarter of a million are seen, and the strip says what it shows.
    strip.show_strip(Strip.of_request(samples.first_words()))
    assert filled(strip) == THINNEST
    assert cut.text() == "The strip shows the used part." and cut.isVisible()


def test_the_panel_shows_every_number(panel: ContextPanel) -> None:
    panel.show_view(samples.view(samples.second_turn()))
    assert values(panel) == {
        "contextTokens": "1,570 of 4,096 tokens",
        "contextReused": "1,204",
        "contextEvaluated": "56",
        "contextImagesReused": "1",
        "contextImagesEncoded": "0",
        "contextFirstToken": "0.4 s",
        "contextSpeed": "28 tokens/s",
        "contextCheckpoints": "3 here, 12 in all chats",
        "contextRestoredFrom": "memory, up to token 1,204",
    }
    assert label(panel, "contextHero").text() == "95 % reused"
    assert not label(panel, "contextMiss").isVisible()
    assert panel.findChild(ContextStrip, "contextStrip") is not None
    # Every number is explained.
    tips = [label(panel, name).toolTip() for name in VALUES]
    assert all(tip.endswith(".") for tip in tips)
    assert len(set(tips)) == len(VALUES)
    drafts = label(panel, "contextDrafts")
    assert not drafts.isVisible()
    counts = DraftCounts(cycles=10, drafted=14, accepted=11)
    stats = samples.second_turn().model_copy(update={"draft": counts})
    panel.show_view(samples.view(stats))
    assert drafts.text() == "2.1 tokens a step" and drafts.isVisible()


def test_values_stand_below_one_another_in_text_of_any_size(
    panel: ContextPanel, dressed: QApplication
) -> None:
    panel.show_view(samples.view(samples.second_turn()))
    panel.resize(600, 900)
    for percent in (100, 150):
        theme.set_text_size(percent)
        dressed.processEvents()
        xs = {label(panel, name).mapTo(panel, QPoint()).x() for name in seen(panel)}
        assert len(xs) == 1, (percent, xs)
    theme.set_text_size(100)


PART = ContextPart(start=0, end=70, kind="image", source="reused")
HELD = Strip(parts=(PART,), context_length=100)
LATER = samples.first_words().model_copy(update={"message_starts": (0, 10, 20)})
UNSPLICED = samples.model_info().model_copy(
    update={"spliced_replies": False, "history_note": "Replies are read again as text."}
)
FIRST = {
    "contextTokens": "30 of 262,144 tokens",
    "contextReused": "0",
    "contextEvaluated": "26",
    "contextFirstToken": "0.06 s",
}


@pytest.mark.parametrize(
    ("view", "hero", "summary", "shown"),
    [
        (samples.view(samples.first_words()), "First message: 26 tokens read", "", FIRST),
        (samples.view(LATER), "0 % reused", "0 of 26 prompt tokens were reused.", FIRST),
        (samples.view(None), "Nothing read yet", "32,768 tokens fit.", {}),
        (
            ContextView(model=samples.model_info(), foreign=True),
            "Not read by this model",
            "The last reply was written by another model, or with other model settings.",
            {},
        ),
        (ContextView(strip=HELD), "Draft read", "70 tokens of your draft are already read.", None),
        (
            ContextView(strip=HELD, foreign=True),
            "Ready to continue",
            "The context holds 70 tokens of this chat.",
            None,
        ),
        (
            ContextView(strip=HELD, begun=True),
            "Ready to continue",
            "The context holds 70 tokens of this chat.",
            None,
        ),
    ],
)
def test_the_heading(
    panel: ContextPanel, view: ContextView, hero: str, summary: str, shown: dict[str, str] | None
) -> None:
    panel.show_view(samples.view(samples.long_chat()))
    panel.show_view(view)
    assert label(panel, "contextHero").text() == hero
    assert summary in label(panel, "contextSummary").text()
    assert label(panel, "contextSummary").isVisible() == bool(summary)
    assert shown is None or seen(panel) == shown
    assert not label(panel, "contextMiss").isVisible()


def test_fewer_tokens_than_the_request_took_are_explained(panel: ContextPanel) -> None:
    panel.show_view(ContextView(ASKED, None, Strip.of_request(ASKED)))
    assert not label(panel, "contextDifference").isVisible()
    for reasoned, why in (
        (True, "leave out this reply's reasoning"),
        (False, "show this reply in a shorter form"),
    ):
        strip = prepared_strip(SETTLED, ASKED, 400)
        panel.show_view(ContextView(ASKED, None, strip, reasoned=reasoned))
        said = f"Later turns {why}: 110 of 118 tokens stay in the context."
        assert label(panel, "contextDifference").text() == said
        assert label(panel, "contextDifference").isVisible()
    # The reply could not be prefilled.
    unsettled = SETTLED.model_copy(update={"parts": SETTLED.parts[:2]})
    panel.show_view(ContextView(ASKED, None, prepared_strip(unsettled, ASKED, 400)))
    assert not label(panel, "contextDifference").isVisible()


def test_warnings_and_misses(panel: ContextPanel) -> None:
    panel.show_view(ContextView(SIX, None, Strip.of_request(SIX, known=False)))
    assert values(panel)["contextTokens"] == "Not loaded"
    assert "contextCheckpoints" not in seen(panel)
    panel.show_view(samples.view(samples.long_chat()))
    miss = label(panel, "contextMiss")
    assert miss.isVisible()
    assert miss.text().startswith("Read again from message 37 on (token 11,061)")
    panel.show_view(ContextView(model=UNSPLICED))
    note = label(panel, "contextNote")
    assert note.text() == "Replies are read again as text." and note.isVisible()
    panel.show_view(samples.view(None))
    assert not note.isVisible()


def test_reading_is_shown_live(panel: ContextPanel) -> None:
    progress = child(panel, QProgressBar, "contextProgress")
    stats = samples.long_chat()
    panel.show_view(samples.view(stats, 12_000))
    assert progress.isVisible()
    assert (progress.value(), progress.maximum()) == (12_000, stats.prompt_tokens)
    assert label(panel, "contextSummary").text().startswith("12,000 of 16,188 prompt tokens")
    assert values(panel)["contextReused"] == "11,061"
    shown = child(panel, ContextStrip, "contextStrip")
    assert "Reused 11,061, Read 939" in shown.legend.text()
    panel.show_view(samples.view(stats))
    assert not progress.isVisible()


def test_bytes_are_shown_by_class_against_their_budgets(panel: ContextPanel) -> None:
    bars = child(panel, ByteBars, "byteBars")
    assert bars.isHidden()
    panel.show_view(samples.view(samples.second_turn()))
    assert bars.isVisible()
    assert label(panel, "bytesHostWords").text() == "2.1 GB of 6.3 GB"
    assert label(panel, "bytesDiskWords").text() == "1.5 GB of 21.0 GB"
    host = child(panel, PlaceBytes, "bytesHost")
    assert host.accessibleDescription() == (
        "Memory: 2.1 GB of 6.3 GB: Context in use now 94.4 MB, Other contexts 127.9 MB, "
        "Checkpoints 1.9 GB, Encoded pictures 8.4 MB."
    )
    device = child(panel, PlaceBytes, "bytesDevice")
    assert device.isHidden()
    held = CacheBytes(kv=3_000_000, slab=1_000_000, device_budget=4_000_000, host_budget=10**9)
    panel.show_view(ContextView(bytes=held))
    assert device.isVisible()
    assert label(panel, "bytesDeviceWords").text() == "1.0 MB of 4.0 MB"
    assert label(panel, "bytesHostWords").text() == "2.0 MB of 1.0 GB"
    assert label(panel, "bytesDiskWords").text() == "nothing is kept here"


def test_a_stacked_bar_is_to_scale_and_hides_nothing(qtbot: QtBot) -> None:
    place = PlaceBytes("host")
    qtbot.addWidget(place)
    bar = child(place, FillBar)
    assert bar.widths() == []
    bar.resize(200, 10)
    held = CacheBytes(kv=600, slab=500, embeddings=1, host_budget=1000)
    place.show_store(stores(held)["host"])
    assert bar.widths() == [("slab", 100.0), ("memory", 20.0), ("image", 2.0)]


def test_long_words_of_other_languages_make_the_page_no_wider(panel: ContextPanel) -> None:
    legend = child(panel, Legend)
    legend.show_words({"disk": "Festplatte", "room": "Frei"})
    QApplication.processEvents()
    narrow = legend.minimumSizeHint().width()
    legend.show_words({"disk": "Festplatte " * 9, "room": "Frei"})
    QApplication.processEvents()
    assert legend.minimumSizeHint().width() < 2 * narrow
