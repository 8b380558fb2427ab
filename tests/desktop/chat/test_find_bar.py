"""Finding words in the shown chat: from match to match, and back to writing."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from desktop.app import App
from desktop.chat.markdown import markdown_body
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, send, settle, words


async def talk(open_app: OpenApp, engine: FakeEngine) -> App:
    """A chat whose messages 0, 3 and 5 hold "heron", message 3 twice."""
    app = await open_app()
    filler = "Words to fill a screen.\n\n" * 40
    for question, answer in (
        ("Is there a Heron?", filler),
        ("And now?", f"A heron.\n\n{filler}\n\nAnother **heron**."),
        ("Last?", f"{filler}\n\n```\nheron = 1\n```"),
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
    assert said == [f"{number} of 4" for number in (1, 2, 3, 4, 1)]
    assert places == [[(0, 1)], [(3, 2)], [(3, 2)], [(5, 1)], [(0, 1)]]
    assert tops[0] < tops[1] < tops[2] < tops[3] and tops[4] == tops[0]
    QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    await settle()
    assert words(app, "findCount") == "4 of 4"


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


async def test_what_is_not_there_is_said_and_another_chat_forgets_what_is(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await talk(open_app, engine)
    for text in ("not there", "\N{ROCKET}"):
        field = await look(app, text)
        assert words(app, "findCount") == "No match" and marked(app) == []
        QTest.keyClick(field, Qt.Key.Key_Return)
        field.setText("")
        await until(lambda: words(app, "findCount") == "")
    await look(app, "heron")
    assert marked(app)
    app.window.side_bar.open_asked.emit(None)
    await until(lambda: app.parts.transcript.rows == [])
    assert words(app, "findCount") == ""


async def test_the_match_is_in_the_middle_of_the_view(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    filler = "Words to fill a screen.\n\n" * 40
    (await send(app, engine, "Hello")).finish(f"{filler}A heron.\n\n{filler}")
    await ended(app)
    await settle()
    await look(app, "heron")
    view = app.window.page.transcript
    field = next(each for each in view.messages.fields_at(1) if each.extraSelections())
    # Without this the selections' list goes with its cursor.
    marks = field.extraSelections()
    rect = field.cursorRect(marks[0].cursor)
    middle = field.viewport().mapTo(view.viewport(), rect.center()).y()
    assert abs(middle - view.viewport().height() // 2) <= rect.height()


@pytest.mark.parametrize("back", [False, True])
async def test_a_match_that_is_not_drawn_yet_is_opened(
    open_app: OpenApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    monkeypatch.setattr(markdown_body, "PAGE", 20_000)
    app = await open_app()
    filler = "Words to fill a screen.\n\n" * 150
    (await send(app, engine, "Hello")).finish(f"A heron.\n\n{filler}One more heron.\n\n{filler}")
    await ended(app)
    await settle()
    assert app.window.page.transcript.messages.has_more(1)
    field = await look(app, "heron")
    assert (words(app, "findCount"), marked(app)) == ("1 of 2", [(1, 1)])
    shift = Qt.KeyboardModifier.ShiftModifier
    none = Qt.KeyboardModifier.NoModifier
    QTest.keyClick(field, Qt.Key.Key_Return, shift if back else none)
    await until(lambda: marked(app) == [(1, 2)])
    assert words(app, "findCount") == "2 of 2"


async def test_words_that_are_written_and_not_drawn_count_once(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    link = "[a bird](https://example.org/heron/heron)"
    for question, answer in (("Hello", f"{link} and a heron"), ("More", link)):
        (await send(app, engine, question)).finish(answer)
        await ended(app)
    await settle()
    field = await look(app, "heron")
    said = [words(app, "findCount")]
    for _ in range(3):
        QTest.keyClick(field, Qt.Key.Key_Return)
        await settle()
        said.append(words(app, "findCount"))
    # The second message is counted as it was written until it has been looked at.
    assert said == ["1 of 3", "2 of 2", "1 of 2", "2 of 2"]
