"""H8: nothing that is said, shown, pasted or opened keeps the window from looking for input."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit

from core.api.reply_format import ReplyFormat
from desktop.app import App
from desktop.chat.compose.format_dialog import FormatDialog
from desktop.chat.data.json_body import DataView
from desktop.chat.markdown.block_text import BlockText
from desktop.chat.markdown.code_block import CodeText
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.markdown.text_selection import text_selection
from desktop.engine.engine_status import Phase
from desktop.pictures.picture_viewer import PictureViewer
from desktop.store.tables import chats, messages
from desktop.widgets.pacing import pace
from tests.desktop.conftest import until
from tests.desktop.fake_engine import FakeEngine, png
from tests.desktop.hands import (
    child,
    drop,
    ended,
    files,
    find,
    paste,
    press,
    press_key,
    send,
    thumbnails,
    type_in,
    user_rows,
    words,
)
from tests.desktop.loop_watch import LoopWatch
from tests.sweeps import thinned

MB = 1_000_000
WIDE = "|" + "a|" * 60 + "\n|" + "-|" * 60 + "\n" + ("|" + "b|" * 60 + "\n") * 40 + "\n"
SMALL = "|" + "a|" * 12 + "\n|" + "-|" * 12 + "\n" + ("|" + "b|" * 12 + "\n") * 15 + "\n"
REPLIES = {
    "short lines of code": "```\n" + "x\n" * (MB // 2) + "```\n",
    "empty lines of code": "```\n" + "\n" * MB + "```\n",
    "one line of code": "```\n" + "a" * MB,
    "code of many colours": "```python\n" + ("1 'a' " * 150 + "\n") * 22 + "```\n",
    "slow code": "```java\n" + ("ab " * 300 + "\n") * 22 + "```\n",
    "wide tables": WIDE * 8,
    "small tables": SMALL * 300,
    "deep quotes": ("> " * 18 + "a\n\n") * (MB // 40),
    "deep lists": ("- " * 18 + "a\n") * (MB // 40),
    "tables in quotes": ("> |a|b|\n> |-|-|\n" + "> |c|d|\n" * 14 + "\n") * 500,
    "one word": "a" * MB,
    "paragraphs": "a\n\n" * (MB // 3),
    "lines": "a\n" * (MB // 2),
    "items": "1. a\n" * (MB // 5),
    "headings": "# a\n" * (MB // 4),
    "one heading": "# " + "word " * (MB // 5),
    "links": "[a](http://b.example) " * 45_000,
    "addresses": "http://a.example/b " * 50_000,
    "listings": "```py\nx = 1\n```\n\n" * 10_000,
    "code in lists": "1. a\n   ```py\n   x = 1\n   ```\n" * (MB // 30),
    "code deep in lists": ("- " * 7 + "```py\n" + " " * 14 + "x\n" + " " * 14 + "```\n") * 9_000,
    "mathematics": "\\(a_1*b\\) $c_2*d$ \\[e " * (MB // 22),
    "formulas left open": "\\[\na_1\n" * (MB // 7),
    "dollar signs": "$a_1 b" * (MB // 6),
    "tags": "<sub>a<br>" * (MB // 10),
    "footnotes": "[^1]: a [^2]\n" * (MB // 13),
    "tasks": "- [ ] a\n" * (MB // 8),
    "emphasis": "*a _b_* " * (MB // 8),
    "brackets": "[" * MB,
    "pictures": "![" * (MB // 2),
    "backticks": "".join("`" * (at % 60) + " " for at in range(30_000)),
    "marks over letters": ("a" + "\u0301" * 500 + " ") * 2_000,
    "right to left": "\u202eab \u0627\u0644\u0639 " * (MB // 8),
    "nothing to see": "\u200b\u2060\x00" * (MB // 3),
    "faces": "\N{GRINNING FACE}" * (MB // 4),
    "prose": ("Some words of prose that go on for a while, as they do. " * 8 + "\n\n") * 2_000,
}
# Those whose open end is shown in another way until the rest has come.
STREAMED = (
    *("short lines of code", "one line of code", "slow code", "wide tables", "deep quotes"),
    *("items", "code in lists", "code deep in lists", "formulas left open", "mathematics"),
    "listings",
)
SENT = (
    *("slow code", "wide tables", "code deep in lists", "mathematics", "emphasis"),
    "marks over letters",
)
SELECTED = ("paragraphs", "listings", "prose", "short lines of code")
# Replies that are JSON, shown as tables and trees.
DATA = {
    "rows": json.dumps([{"name": f"thing {at}", "count": at} for at in range(25_000)]),
    "rows on lines": json.dumps([{"name": "thing", "count": at} for at in range(15_000)], indent=2),
    "wide rows": json.dumps([{f"column {at}": at for at in range(900)}] * 60),
    "lists in lists": "[" * (MB // 2) + "]" * (MB // 2),
    "objects in objects": '{"a": ' * 5_000 + "1" + "}" * 5_000,
    "many trees": json.dumps([[[at, [at]]] * 10 for at in range(5_000)]),
    "numbers": "[" + "1," * (MB // 2) + "1]",
    "one string": json.dumps("word " * (MB // 5)),
    "strings": json.dumps(["\u202eword\n" * 100] * (MB // 1_500)),
}
# Only their source is shown.
NESTED = ("lists in lists", "objects in objects")
TEXTS = {
    "lines": ("a line of some fifty characters, as they are in logs\n") * (MB // 53),
    "short lines": "x\n" * 49_000,
    "one line": "word " * (MB // 5),
    "one word": "a" * MB,
    "wide letters": "\N{CJK UNIFIED IDEOGRAPH-4E2D}\N{GRINNING FACE}" * (MB // 8),
}


async def at_rest() -> None:
    for _ in range(3):
        await until(lambda: not pace().is_busy(), "the window comes to rest")
        # Layouts and repaints follow in the next turns of the loop.
        await asyncio.sleep(0.002)


async def stored(app: App, *texts: str) -> int:
    """Returns its id."""

    def fill(connection: sqlite3.Connection) -> int:
        chat: int | None = None
        for number, text in enumerate(texts):
            turn = messages.append_turn(connection, chat, f"question {number}")
            chat = turn.chat
            connection.execute("UPDATE messages SET text = ? WHERE id = ?", (text, turn.reply))
            connection.execute(
                "UPDATE replies SET state = 'complete', finish_reason = 'stop' WHERE message = ?",
                (turn.reply,),
            )
        assert chat is not None
        return chat

    return await app.parts.database.run(fill)


async def shown(app: App, chat: int) -> None:
    app.parts.chat.open(chat)
    await until(lambda: app.parts.transcript.chat == chat and app.parts.transcript.rows)
    await at_rest()


async def look_around(app: App, watch: LoopWatch) -> None:
    bar = app.window.page.transcript.verticalScrollBar()
    for share in (0.0, 0.3, 0.6, 1.0):
        watch.doing = f"scrolling to {share}"
        bar.setValue(int(share * bar.maximum()))
        await asyncio.sleep(0)
        await at_rest()
    for width in (1000, 1180):
        watch.doing = f"a width of {width}"
        app.window.resize(width, 800)
        await at_rest()


@pytest.mark.parametrize("name", thinned(REPLIES, ["paragraphs"]))
async def test_H8_a_stored_reply(app: App, engine: FakeEngine, name: str) -> None:
    chat = await stored(app, REPLIES[name])
    await at_rest()
    with LoopWatch() as watch:
        watch.doing = "opening"
        await shown(app, chat)
        await look_around(app, watch)
        watch.doing = "closing"
        app.parts.chat.open(None)
        await at_rest()


@pytest.mark.parametrize("name", thinned(STREAMED, ["code in lists"]))
async def test_H8_a_reply_that_comes_in(app: App, engine: FakeEngine, name: str) -> None:
    asked = await send(app, engine, "Hello")
    await at_rest()
    text = REPLIES[name]
    with LoopWatch() as watch:
        watch.doing = "a few words at a time"
        for start in range(0, 2_000, 100):
            asked.say(text[start : start + 100])
            await asyncio.sleep(0.005)
        watch.doing = "all at once"
        asked.say(text[2_000:])
        await until(lambda: app.parts.transcript.rows[-1].text == text)
        await at_rest()
        watch.doing = "ending"
        asked.finish()
        row = await ended(app)
        await at_rest()
    body = child(row, MarkdownBody)
    assert body.text() == text


@pytest.mark.parametrize("name", thinned(SENT, ["emphasis"]))
async def test_H8_a_message_of_the_user(app: App, engine: FakeEngine, name: str) -> None:
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    text = REPLIES[name][:7_990].rsplit("\n", maxsplit=1)[0][:7_990]
    text = "\n".join(text.split("\n")[:399])
    type_in(app, text)
    await at_rest()
    with LoopWatch() as watch:
        watch.doing = "sending"
        press_key(app, Qt.Key.Key_Return)
        await until(lambda: engine.asked)
        await at_rest()
        engine.asked[-1].finish("Yes.")
        await ended(app)
        await look_around(app, watch)
        watch.doing = "closing"
        app.parts.chat.open(None)
        await at_rest()


@pytest.mark.parametrize("name", thinned(DATA, ["rows"]))
async def test_H8_a_reply_that_is_data(app: App, engine: FakeEngine, name: str) -> None:
    text = DATA[name]
    app.parts.chat.ask_for(ReplyFormat(kind="json"))
    asked = await send(app, engine, "List them")
    await at_rest()
    with LoopWatch() as watch:
        watch.doing = "coming in"
        asked.say(text[:5_000])
        await asyncio.sleep(0.01)
        asked.say(text[5_000:])
        await until(lambda: app.parts.transcript.rows[-1].text == text)
        await at_rest()
        watch.doing = "reading"
        asked.finish()
        await ended(app)
        await until(lambda: words(app, "replyValidity"))
        await at_rest()
        watch.doing = "showing"
        if name not in NESTED:
            view = find(app, DataView, "replyData")
            view.expand(view.model().index(0, 0))
            view.scrollToBottom()
        await look_around(app, watch)
        for page in ("showSource", "showData") if name not in NESTED else ():
            watch.doing = page
            press(app, page)
            await at_rest()
        watch.doing = "copying"
        press(app, "copyMessage" if name in NESTED else "copyJson")
        await until(lambda: QGuiApplication.clipboard().text())
        watch.doing = "closing"
        app.parts.chat.open(None)
        await at_rest()
    QGuiApplication.clipboard().clear()


async def test_H8_reasoning_that_is_opened(app: App, engine: FakeEngine) -> None:
    asked = await send(app, engine, "Hello")
    asked.say(reasoning=REPLIES["prose"])
    asked.finish("Yes.", reasoning=REPLIES["prose"])
    row = await ended(app)
    await at_rest()
    with LoopWatch():
        row._reasoning.set_open(True)
        await at_rest()
        row._reasoning.set_open(False)
        await at_rest()


@pytest.mark.parametrize("name", thinned(SELECTED, ["listings"]))
async def test_H8_a_reply_that_is_selected(app: App, engine: FakeEngine, name: str) -> None:
    chat = await stored(app, REPLIES[name])
    await shown(app, chat)
    body = child(app.window.page.transcript.row_widgets[-1], MarkdownBody)
    field = body.findChildren(BlockText if name in ("paragraphs", "prose") else CodeText)[0]
    field.setFocus()
    bar = app.window.page.transcript.verticalScrollBar()
    bar.setValue(0)
    await at_rest()
    viewport = field.viewport()
    with LoopWatch() as watch:
        watch.doing = "dragging"
        QTest.mousePress(viewport, Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
        for step in range(1, 20):
            at = QPoint(30, step * 40)
            everywhere = QPointF(viewport.mapToGlobal(at))
            button, key = Qt.MouseButton, Qt.KeyboardModifier.NoModifier
            move = QEvent.Type.MouseMove
            event = QMouseEvent(
                move, QPointF(at), everywhere, button.NoButton, button.LeftButton, key
            )
            QApplication.sendEvent(viewport, event)
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.2)
        QTest.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=QPoint(30, 800))
        watch.doing = "selecting all"
        QTest.keyClick(field, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        await at_rest()
        watch.doing = "copying"
        QTest.keyClick(field, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        await at_rest()
        watch.doing = "selecting nothing"
        text_selection().clear()
        await at_rest()
    assert len(QGuiApplication.clipboard().text()) > 500
    QGuiApplication.clipboard().clear()


async def test_H8_a_chat_of_2000_messages(app: App, engine: FakeEngine) -> None:
    reply = REPLIES["prose"][:900] + "\n- a\n- b\n\n```python\nx = 1\n```\n\n" + SMALL
    chat = await stored(app, *[reply] * 1_000)
    await at_rest()
    view = app.window.page.transcript
    with LoopWatch() as watch:
        watch.doing = "opening"
        await shown(app, chat)
        assert len(app.parts.transcript.rows) == 2_000
        await look_around(app, watch)
        watch.doing = "scrolling upwards"
        view.scroll_to_end()
        for _ in range(20):
            view.verticalScrollBar().setValue(view.verticalScrollBar().value() - 600)
            await at_rest()
        watch.doing = "asking"
        asked = await send(app, engine, "Hello")
        asked.say("words " * 500)
        await asyncio.sleep(0.1)
        asked.finish()
        await ended(app)
        await at_rest()
        watch.doing = "leaving"
        app.parts.chat.open(None)
        await at_rest()
        await shown(app, chat)


async def test_H8_very_many_chats(app: App) -> None:

    def fill(connection: sqlite3.Connection) -> None:
        for number in range(5_000):
            chats.create(connection, f"chat {number} " + "long " * 50)

    await app.parts.database.run(fill)
    with LoopWatch():
        await app.parts.chats.refresh()
        await at_rest()
        view = app.window.side_bar.list
        view.scrollToBottom()
        await at_rest()


def text_data(text: str) -> QMimeData:
    data = QMimeData()
    data.setText(text)
    return data


async def pasted(field: QPlainTextEdit, text: str) -> None:
    field.insertFromMimeData(text_data(text))
    await at_rest()


@pytest.mark.parametrize(
    ("name", "plain"),
    [*thinned([(each, True) for each in TEXTS], [("one word", True)]), ("one word", False)],
)
async def test_H8_a_paste_of_a_megabyte(
    app: App, engine: FakeEngine, name: str, plain: bool
) -> None:
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    field = app.window.page.composer.text
    text = TEXTS[name]
    data = text_data(text)
    with LoopWatch() as watch:
        watch.doing = "pasting"
        paste(app, data, plain)
        await at_rest()
        watch.doing = "typing"
        for _ in range(5):
            QTest.keyClicks(field, "words ")
            await asyncio.sleep(0.01)
        watch.doing = "another width"
        app.window.resize(1000, 800)
        await at_rest()
        watch.doing = "keeping the draft"
        app.window.page.composer.keep()
        await asyncio.sleep(0.1)
        watch.doing = "sending"
        QTest.keyClick(field, Qt.Key.Key_Return)
        await until(lambda: engine.asked)
        await at_rest()
        watch.doing = "answering"
        engine.asked[-1].finish("Yes.")
        await ended(app)
        await at_rest()
        watch.doing = "editing"
        press(app, "editMessage")
        await at_rest()
        press(app, "editCancel")
        await at_rest()
    row = user_rows(app)[0].row
    documents = "".join(part for each in row.message.documents for part in each.parts)
    assert row.text == ((text if plain else "") + "words " * 5).strip()
    assert documents == ("" if plain else text)
    assert user_rows(app)[0].height() < 600
    assert field.toPlainText() == ""


async def test_H8_what_is_refused_is_refused_at_once(app: App) -> None:
    field = app.window.page.composer.text
    for text in ("x\n" * (MB // 2), "x" * 2_000_001):
        data = text_data(text)
        with LoopWatch():
            paste(app, data)
            await at_rest()
        assert words(app, "composerNotice").startswith("Not added: a message can have")
        assert field.toPlainText() == ""


@pytest.mark.parametrize("name", thinned(TEXTS, ["one word"]))
async def test_H8_a_schema_of_a_megabyte(app: App, name: str) -> None:
    app.window.page.composer.format.written_asked.emit("json_schema")
    await until(lambda: app.window.findChildren(FormatDialog))
    dialog = app.window.findChildren(FormatDialog)[-1]
    said = dialog.verdict.text
    with LoopWatch() as watch:
        watch.doing = "pasting"
        await pasted(dialog.text, json.dumps({"title": TEXTS[name][:200_000]}, ensure_ascii=False))
        watch.doing = "checking"
        await until(lambda: "can be used" in said())
        watch.doing = "pasting more"
        await pasted(dialog.text, TEXTS[name])
        await until(lambda: "longer than" in said() or "isn't JSON" in said())
        watch.doing = "leaving"
        dialog.reject()
        await at_rest()


@pytest.mark.parametrize("name", thinned(TEXTS, ["one word"]))
async def test_H8_instructions_of_a_megabyte(app: App, name: str) -> None:
    press(app, "toggleInstructions")
    field = find(app, QPlainTextEdit, "instructionsText")
    with LoopWatch() as watch:
        watch.doing = "pasting"
        await pasted(field, TEXTS[name])
        watch.doing = "using them"
        press(app, "instructionsSave")
        await at_rest()
    assert app.parts.chat.instructions == TEXTS[name].strip()


async def test_H8_a_megabyte_in_a_field_of_one_line(app: App, engine: FakeEngine) -> None:
    app.window.side_panel.show_page(1)
    (await send(app, engine, "Hello")).finish("Hi")
    await ended(app)
    await until(lambda: app.window.side_bar.list.currentIndex().isValid())
    settings = find(app, QLineEdit, "settingSamplingTemperature")
    with LoopWatch() as watch:
        watch.doing = "a title"
        app.window.side_bar.rename_current()
        editor = child(app.window.side_bar.list, QLineEdit)
        editor.clear()
        editor.insert("a" * MB)
        await at_rest()
        QTest.keyClick(editor, Qt.Key.Key_Return)
        await at_rest()
        watch.doing = "a setting"
        settings.insert("1" * MB)
        settings.editingFinished.emit()
        await at_rest()


async def test_H8_fifty_pictures(app: App, engine: FakeEngine, tmp_path: Path) -> None:
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    paths = [tmp_path / f"{number}.png" for number in range(50)]
    for number, path in enumerate(paths):
        path.write_bytes(png(200 + number, 150))
    with LoopWatch() as watch:
        watch.doing = "dropping"
        drop(app, files(paths))
        await until(lambda: len(thumbnails(app)) == 50 and app.parts.chat.draft.complete)
        await at_rest()
        watch.doing = "sending"
        asked = await send(app, engine, "What are they?")
        asked.finish("Red.")
        await ended(app)
        await at_rest()


async def test_H8_a_large_picture(app: App, engine: FakeEngine, tmp_path: Path) -> None:
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    image = QImage(3_000, 2_000, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.red)
    assert image.save(str(tmp_path / "large.png"))
    drop(app, files([tmp_path / "large.png"]))
    await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)
    await at_rest()
    with LoopWatch() as watch:
        watch.doing = "opening"
        thumbnails(app)[0].opened.emit()
        viewer = find(app, PictureViewer, "pictureViewer")
        await until(lambda: not viewer.shown.isEmpty())
        await at_rest()
        watch.doing = "zooming"
        viewer.canvas.show_one_to_one()
        await until(lambda: viewer.shown.width() == 3_000)
        for _ in range(10):
            viewer.canvas.zoom_by(1.2)
            await asyncio.sleep(0.01)
        viewer.close()
        await at_rest()
