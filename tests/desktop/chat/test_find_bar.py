from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from desktop.app import App
from desktop.chat.markdown import markdown_body
from desktop.chat.markdown.text_selection import fields_in
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, send, settle, words

FILLER = "Words to fill a screen.\n\n" * 40
SHIFT, NO_KEY = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.NoModifier
LINK = "[a bird](https://example.org/heron/heron)"


async def talk(open_app: OpenApp, engine: FakeEngine, *turns: tuple[str, str]) -> App:
    app = await open_app()
    for question, answer in turns:
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


async def step(app: App, field: QLineEdit, key: Qt.KeyboardModifier = NO_KEY) -> str:
    QTest.keyClick(field, Qt.Key.Key_Return, key)
    await settle()
    return words(app, "findCount")


def marked(app: App) -> list[tuple[int, int]]:
    counts = [
        (place, sum(len(field.extraSelections()) for field in fields_in(row)))
        for place, row in app.window.page.transcript.messages
    ]
    return [each for each in counts if each[1]]


async def test_it_goes_from_match_to_match_and_round(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await talk(
        open_app,
        engine,
        ("Is there a Heron?", FILLER),
        ("And now?", f"A heron.\n\n{FILLER}\n\nAnother **heron**."),
        ("Last?", f"{FILLER}\n\n```\nheron = 1\n```"),
    )
    bar = app.window.page.transcript.verticalScrollBar()
    bar.setValue(0)
    await settle()
    field = await look(app, "HERON")
    said, places, tops = [words(app, "findCount")], [marked(app)], [bar.value()]
    for _ in range(4):
        said.append(await step(app, field))
        places.append(marked(app))
        tops.append(bar.value())
    assert said == [f"{number} of 4" for number in (1, 2, 3, 4, 1)]
    assert places == [[(0, 1)], [(3, 2)], [(3, 2)], [(5, 1)], [(0, 1)]]
    assert tops[0] < tops[1] < tops[2] < tops[3] and tops[4] == tops[0]
    assert await step(app, field, SHIFT) == "4 of 4"
    await escape_closes_it_and_stops_no_reply(app, engine)
    await what_is_not_there_is_said_and_another_chat_forgets_what_is(app)


async def escape_closes_it_and_stops_no_reply(app: App, engine: FakeEngine) -> None:
    asked = await send(app, engine, "One more heron")
    QTest.keyClick(await look(app, "heron"), Qt.Key.Key_Escape)
    await until(app.window.page.composer.text.hasFocus)
    assert not app.window.page.find_bar.isVisible() and marked(app) == []
    assert not asked.cancelled
    asked.finish("x")
    await ended(app)


async def what_is_not_there_is_said_and_another_chat_forgets_what_is(app: App) -> None:
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
    app = await talk(open_app, engine, ("Hello", f"{FILLER}A heron.\n\n{FILLER}"))
    await look(app, "heron")
    view = app.window.page.transcript
    row = view.messages.at(1)
    assert row is not None
    field = next(each for each in fields_in(row) if each.extraSelections())
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
    filler = "Words to fill a screen.\n\n" * 150
    text = f"A heron.\n\n{filler}One more heron.\n\n{filler}"
    app = await talk(open_app, engine, ("Hello", text))
    row = app.window.page.transcript.messages.at(1)
    assert row is not None and row.more_button() is not None
    field = await look(app, "heron")
    assert (words(app, "findCount"), marked(app)) == ("1 of 2", [(1, 1)])
    await step(app, field, SHIFT if back else NO_KEY)
    await until(lambda: marked(app) == [(1, 2)])
    assert words(app, "findCount") == "2 of 2"


async def test_words_that_are_written_and_not_drawn_count_once(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await talk(open_app, engine, ("Hello", f"{LINK} and a heron"), ("More", LINK))
    field = await look(app, "heron")
    said = [words(app, "findCount"), *[await step(app, field) for _ in range(3)]]
    # The second message is counted as it was written until it has been looked at.
    assert said == ["1 of 3", "2 of 2", "1 of 2", "2 of 2"]
