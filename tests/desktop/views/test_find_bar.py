"""Finding words in the shown chat: from match to match, and back to writing."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from desktop.app import App
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.views.hands import ended, find, send, settle, words


async def talk(open_app: OpenApp, engine: FakeEngine) -> App:
    """A chat whose messages 0, 3 and 5 hold "heron", message 3 twice."""
    app = await open_app()
    filler = "Words to fill a screen.\n\n" * 40
    for question, answer in (
        ("Is there a Heron?", filler),
        ("And now?", f"A heron.\n\n{filler}\n\nAnother **heron**."),
        ("Last?", "```\nheron = 1\n```"),
    ):
        (await send(app, engine, question)).finish(answer)
        await ended(app)
    await settle()
    return app


async def look(app: App, text: str) -> QLineEdit:
    app.window.activateWindow()
    app.window.actions_by_name["actionFind"].trigger()
    field = find(app, QLineEdit, "findText")
    await until(field.hasFocus)
    field.setText(text)
    await until(lambda: words(app, "findCount") != "")
    await settle()
    return field


def marked(app: App) -> list[tuple[int, int]]:
    """The messages in which something is marked, with how many marks each."""
    view = app.window.page.transcript
    counts = [
        (place, sum(len(field.extraSelections()) for field in view.messages.fields_at(place)))
        for place in range(len(app.parts.transcript.rows))
    ]
    return [each for each in counts if each[1]]


async def test_it_goes_from_match_to_match_and_round(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await talk(open_app, engine)
    bar = app.window.page.transcript.verticalScrollBar()
    bar.setValue(0)
    await settle()
    field = await look(app, "HERON")
    said, places = [words(app, "findCount")], [marked(app)]
    tops = [bar.value()]
    for _ in range(4):
        QTest.keyClick(field, Qt.Key.Key_Return)
        await settle()
        said.append(words(app, "findCount"))
        places.append(marked(app))
        tops.append(bar.value())
    assert said == [f"{number} of 3 messages" for number in (1, 2, 2, 3, 1)]
    assert places == [[(0, 1)], [(3, 2)], [(3, 2)], [(5, 1)], [(0, 1)]]
    assert tops[0] < tops[1] < tops[2] < tops[3] and tops[4] == tops[0]
    QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    await settle()
    assert words(app, "findCount") == "3 of 3 messages"


async def test_escape_closes_it_and_leaves_a_reply_alone(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await talk(open_app, engine)
    asked = await send(app, engine, "One more heron")
    field = await look(app, "heron")
    QTest.keyClick(field, Qt.Key.Key_Escape)
    await until(app.window.page.composer.text.hasFocus)
    assert not app.window.page.find_bar.isVisible() and marked(app) == []
    assert not asked.cancelled
    asked.finish("x")
    await until(lambda: app.parts.chat.running is None)


@pytest.mark.parametrize("text", ["not there", "\N{ROCKET}"])
async def test_what_is_not_there_is_said(open_app: OpenApp, engine: FakeEngine, text: str) -> None:
    app = await talk(open_app, engine)
    field = await look(app, text)
    assert words(app, "findCount") == "No match" and marked(app) == []
    QTest.keyClick(field, Qt.Key.Key_Return)
    field.setText("")
    await until(lambda: words(app, "findCount") == "")


async def test_another_chat_forgets_what_was_marked(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await talk(open_app, engine)
    await look(app, "heron")
    assert marked(app)
    app.window.side_bar.open_asked.emit(None)
    await until(lambda: app.parts.transcript.rows == [])
    assert words(app, "findCount") == ""
