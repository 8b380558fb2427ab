"""The wait in a button's tool tip: asked for what the click then sends, and in plain words."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QMenu

from core.api.chat import Conversation, TextPart, UserMessage
from core.api.events import Predicted
from core.api.stats import RequestStats
from desktop.app import App
from desktop.chat.compose.message_editor import MessageEditor
from desktop.chat.rows.row_actions import Deed, DeedKind
from desktop.context.predictions import CHANGED, another_model_words, words_for
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, press, send, settle, user_rows

STATS = RequestStats(prompt_tokens=900, evaluated_tokens=900, reply_tokens=100, prefill_s=90.0)


async def foreseen(app: App, engine: FakeEngine, button: QAbstractButton) -> Conversation:
    """Point at a button, and wait until its tip has the answer."""
    before = len(engine.foreseen)
    QApplication.sendEvent(button, QEvent(QEvent.Type.Enter))
    await until(lambda: len(engine.foreseen) > before)
    await until(lambda: "212" in button.toolTip())
    assert button.toolTip().startswith(button.accessibleName())
    assert "212 tokens, about 0.4 s" in button.accessibleDescription()
    QApplication.sendEvent(button, QEvent(QEvent.Type.Leave))
    assert button.toolTip() == button.accessibleName() and not button.accessibleDescription()
    return engine.foreseen[-1].conversation


async def pressed(app: App, engine: FakeEngine, name: str) -> Conversation:
    before = len(engine.asked)
    press(app, name)
    await until(lambda: len(engine.asked) > before)
    return engine.asked[-1].conversation


async def test_W2_what_is_predicted_is_what_the_click_sends(app: App, engine: FakeEngine) -> None:
    (await send(app, engine, "Hello")).finish("Good day", stats=STATS)
    await ended(app)
    (await send(app, engine, "And then?")).finish("Then", reason="length", stats=STATS)
    await ended(app)
    await settle()
    for name in ("continueReply", "regenerate"):
        told = await foreseen(app, engine, find(app, QAbstractButton, name))
        assert told == await pressed(app, engine, name)
        engine.asked[-1].finish("Again", reason="length")
        await ended(app)
        await settle()
    # The other version of the last reply.
    told = await foreseen(app, engine, find(app, QAbstractButton, "turnBack"))
    press(app, "turnBack")
    before = len(engine.settled)
    await until(lambda: len(engine.settled) > before)
    assert told == engine.settled[-1].conversation
    # An edit: first of anything, then of what was typed.
    await settle()
    row = user_rows(app)[-1]
    told = await foreseen(app, engine, row.bar.again)
    last = told.messages[-1]
    assert last == UserMessage(content=(TextPart(text=CHANGED + "And then?"),))
    press_edit = row.bar.again
    press_edit.click()
    field = row.findChildren(QAbstractButton, "editSend")[0]
    assert isinstance(row._editor, MessageEditor)
    row._editor.text.setPlainText("And now?")
    told = await foreseen(app, engine, field)
    assert told == await pressed(app, engine, "editSend")
    engine.asked[-1].finish("Now", stats=STATS)
    await ended(app)


@pytest.mark.parametrize(("name", "left"), [("Delete", 1), ("Delete with its reply", 0)])
async def test_deleting_a_message_says_what_the_next_turn_reads(
    app: App, engine: FakeEngine, name: str, left: int
) -> None:
    for question in ("Hello", "And then?"):
        (await send(app, engine, question)).finish("Good day", stats=STATS)
        await ended(app)
        await settle()
    menu = QMenu()
    user_rows(app)[-1].add_entries(menu)
    (entry,) = [each for each in menu.actions() if each.text() == name]
    entry.hovered.emit()
    await until(lambda: "212" in entry.toolTip())
    predicted = engine.foreseen[-1].conversation
    before = len(engine.settled)
    entry.trigger()
    await until(lambda: len(engine.settled) > before)
    assert predicted == engine.settled[-1].conversation
    said = [each.text for each in predicted.messages if each.role == "assistant"]
    assert said == ["Good day"] + ["Good day"] * left


async def test_the_keyboard_asks_too_and_nothing_is_asked_during_a_reply(
    app: App, engine: FakeEngine
) -> None:
    (await send(app, engine, "Hello")).finish("Good day", stats=STATS)
    await ended(app)
    await settle()
    button = find(app, QAbstractButton, "forkChat")
    QApplication.sendEvent(button, QFocusEvent(QEvent.Type.FocusIn))
    await until(lambda: engine.foreseen)
    assert len(engine.foreseen[-1].conversation.messages) == 2
    await until(lambda: "212" in button.toolTip())
    # Gone again before it rested.
    QApplication.sendEvent(button, QEvent(QEvent.Type.Enter))
    QApplication.sendEvent(button, QEvent(QEvent.Type.Leave))
    asked = await send(app, engine, "More")
    await settle()
    row = user_rows(app)[0]
    QApplication.sendEvent(row.bar.again, QEvent(QEvent.Type.Enter))
    app.parts.predictions._on_rest()
    await settle()
    assert len(engine.foreseen) == 1
    asked.finish("Done")
    await ended(app)


async def test_a_prompt_that_will_be_refused_gets_no_time(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    engine.prediction = Predicted(request=0, prompt_tokens=10**6, tokens=212, seconds=1.0)
    app = await open_app()
    (await send(app, engine, "Hello")).finish("Good day", stats=STATS)
    await ended(app)
    await settle()
    button = find(app, QAbstractButton, "regenerate")
    QApplication.sendEvent(button, QEvent(QEvent.Type.Enter))
    await until(lambda: engine.foreseen)
    await settle()
    assert button.toolTip() == button.accessibleName()


@pytest.mark.parametrize(
    ("kind", "tokens", "encoded", "seconds", "words"),
    [
        ("regenerate", 0, 0, 0.0, "Nothing is read again; everything is kept."),
        ("regenerate", 212, 0, 0.4, "Reads 212 tokens, about 0.4 s; everything before is kept."),
        ("continue", 1, 0, None, "Reads 1 token; everything before is kept."),
        ("edit", 40, 1, 3, "Reads up to 40 tokens and looks at 1 image, about 3.0 s; "
         "everything before is kept."),
        ("after", 40, 0, 0.001, "Reads 40 tokens, about 0.01 s, before the next reply; "
         "everything before is kept."),
        ("send_again", 900, 0, 90, "Reads the whole chat: 900 tokens, about 1 min 30 s."),
    ],
)  # fmt: skip
def test_words_of_a_prediction(
    kind: DeedKind, tokens: int, encoded: int, seconds: float | None, words: str
) -> None:
    predicted = Predicted(
        request=0, prompt_tokens=900, tokens=tokens, encoded=encoded, seconds=seconds
    )
    assert words_for(Deed(kind, 1), predicted) == words


async def test_the_menu_of_models_says_what_another_model_would_read(
    app: App, engine: FakeEngine
) -> None:
    (await send(app, engine, "Hello")).finish("Good day", stats=STATS)
    await ended(app)
    waits = {"stand-in": another_model_words(1_000, 100.0)}
    assert await app.parts.predictions.of_models() == waits
    app.parts.settings.set_model_path("/models/stand-in")
    menu = app.window.page.header.model
    entry = menu.menu_shown().actions()[0]
    entry.setChecked(False)
    menu.show_waits(waits)
    assert entry.toolTip().split() == waits["stand-in"].split()
