"""Charts of the numbers of replies: what they are made of, and the chart in the window."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QWidget

from core.api.stats import RemoteReport, RequestStats
from desktop import theme
from desktop.app import App
from desktop.context.charts import (
    DAYS,
    Chart,
    ReplyNumbers,
    numbers_of,
    numbers_since,
    seconds_per_token,
    value_of,
)
from desktop.store.database import open_database
from desktop.store.tables import forks, messages, replies
from desktop.store.tables.records import Reply, ReplyState
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, send, words

# A second for a hundred tokens.
FIRST = RequestStats(
    prompt_tokens=1000, evaluated_tokens=1000, ttft_s=10.6, prefill_s=10.0, decode_tokens_per_s=20.0
)
SECOND = RequestStats(
    prompt_tokens=1250,
    reused_tokens=1000,
    evaluated_tokens=250,
    ttft_s=3.0,
    prefill_s=2.5,
    decode_tokens_per_s=10.0,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_database(tmp_path / "chats.db")) as connection:
        yield connection


def replied(store: sqlite3.Connection, stats: RequestStats) -> messages.Turn:
    turn = messages.append_turn(store, None, "one")
    replies.save(store, turn.reply, "two", Reply(ReplyState.COMPLETE, stats=stats, model="M"))
    return turn


def test_the_time_saved_follows_from_measured_reading() -> None:
    replies = [numbers_of(0.0, "M", FIRST), numbers_of(0.0, "M", SECOND)]
    paces = seconds_per_token(replies)
    assert paces == {"M": 12.5 / 1250}
    assert value_of("saved", replies, paces) == pytest.approx(10.0)
    assert value_of("reuse", replies, paces) == pytest.approx(100 * 1000 / 2250)
    assert value_of("first", replies, paces) == pytest.approx(6.8)
    assert value_of("speed", replies, paces) == pytest.approx(15.0)
    # Of a model that has read nothing long enough, and of nothing at all.
    other = replies[0]._replace(model="other")
    assert value_of("saved", [other], paces) is None
    short = other._replace(evaluated=100)
    assert seconds_per_token([short, other._replace(prefill=None)]) == {}
    for metric in ("first", "speed", "reuse", "saved"):
        assert value_of(metric, [], paces) is None


def test_numbers_are_read_of_this_computers_replies_once(store: sqlite3.Connection) -> None:
    first = replied(store, SECOND)
    forks.fork(store, first.chat, first.reply)
    replied(store, SECOND.model_copy(update={"remote": RemoteReport(host="h")}))
    messages.append_turn(store, None, "running")
    for damage in ("{", "[]", '"x"', "{}"):
        broken = replied(store, FIRST)
        store.execute("UPDATE replies SET stats = ? WHERE message = ?", (damage, broken.reply))
    odd = replied(store, FIRST)
    store.execute(
        "UPDATE replies SET stats = ? WHERE message = ?",
        ('{"prompt_tokens": "x", "ttft_s": [1], "reused_tokens": 7}', odd.reply),
    )
    known = [each._replace(created=0.0) for each in numbers_since(store, 0.0)]
    assert known.count(numbers_of(0.0, "M", SECOND)) == 1
    assert ReplyNumbers(0.0, "M", 0, 7, 0, None, None, None) in known
    assert numbers_of(0.0, "M", FIRST) not in known
    assert numbers_since(store, time.time() + 60) == []


async def talked(open_app: OpenApp, engine: FakeEngine) -> App:
    app = await open_app()
    assert not find(app, QWidget, "chartBox").isVisibleTo(app.window)
    for text, stats in (("one", FIRST), ("two", SECOND)):
        (await send(app, engine, text)).finish("Yes", stats=stats)
        await ended(app)
    await until(lambda: words(app, "chartSaved"))
    return app


def pick(app: App, name: str, words: str) -> None:
    box = find(app, QComboBox, name)
    box.setCurrentIndex(box.findText(words))


async def test_the_chart_tells_each_reply_and_day(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await talked(open_app, engine)
    assert words(app, "chartSaved") == "Last 7 days: about 10 s of reading saved."
    assert words(app, "chartWords") == "Reply 2: 3.0 s"
    chart = find(app, Chart, "chart")
    # Long words make the page no wider.
    box = find(app, QComboBox, "chartSpan")
    width = box.minimumSizeHint().width()
    box.addItem("Wörter einer Sprache, die länger sind")
    QApplication.sendEvent(box, QEvent(QEvent.Type.StyleChange))
    assert box.minimumSizeHint().width() == width
    for metric, first, second in (
        ("Speed", "20 tokens/s", "10 tokens/s"),
        ("Reused", "0 %", "80 %"),
        ("Reading saved", "0 s", "10 s"),
        ("First token", "11 s", "3.0 s"),
    ):
        pick(app, "chartMetric", metric)
        assert words(app, "chartWords") == f"Reply 2: {second}"
        QTest.keyClick(chart, Qt.Key.Key_Left)
        assert words(app, "chartWords") == f"Reply 1: {first}"
        assert chart.accessibleName() == f"{metric}, This chat. Reply 1: {first}"
        # There is nothing before the first one.
        QTest.keyClick(chart, Qt.Key.Key_Left)
        assert words(app, "chartWords") == f"Reply 1: {first}"
        QTest.keyClick(chart, Qt.Key.Key_End)
        assert words(app, "chartWords") == f"Reply 2: {second}"
    pick(app, "chartSpan", "Days")
    assert words(app, "chartWords").endswith(": 6.8 s")
    QTest.keyClick(chart, Qt.Key.Key_Home)
    assert words(app, "chartWords").endswith(": no replies")
    assert len(chart.accessibleDescription().split("; ")) == DAYS
    app.parts.chat.open(None)
    pick(app, "chartSpan", "This chat")
    await until(lambda: words(app, "chartWords") == "No replies yet.")
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End):
        QTest.keyClick(chart, key)
    assert find(app, QLabel, "chartWords").text() == "No replies yet."


def height(image: QImage, x: int) -> int:
    """Pixels of the bar at this place."""
    empty = image.pixel(image.width() - 1, 0)
    return sum(image.pixel(x, y) != empty for y in range(image.height()))


async def test_the_bars_are_drawn_to_scale_in_both_themes(
    open_app: OpenApp, engine: FakeEngine, qapp: QApplication
) -> None:
    app = await talked(open_app, engine)
    chart = find(app, Chart, "chart")
    try:
        for scheme in ("light", "dark"):
            theme.force(qapp, scheme)
            image, accent = chart.grab().toImage(), QColor(theme.colours().accent)
            first, last = (int(chart.slot(place).center().x()) for place in (0, 1))
            # The last one is chosen, and took 3.0 s instead of 10.6 s.
            assert height(image, last) == pytest.approx(height(image, first) * 3.0 / 10.6, abs=4)
            assert height(image, first) > image.height() / 2
            middle = image.height() - 8
            assert image.pixelColor(last, middle) == accent != image.pixelColor(first, middle)
    finally:
        theme.force(qapp, "system")
