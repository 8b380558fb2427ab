"""Replies of a given form: chosen in the composer, shown as data, copied as JSON."""

from __future__ import annotations

import json
import re

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QMenu, QPlainTextEdit, QWidget

from core.api.reply_format import LONGEST_TEXT, ReplyFormat
from core.formats import check
from desktop.app import App
from desktop.chat.chat_options import EXAMPLE, SchemaDialog
from desktop.chat.data import reading
from desktop.chat.data.data_view import DataView
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.reply_row import ReplyRow
from desktop.engine.engine_status import Phase
from desktop.window.tab_order import tab_stops
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, press, send, settle, words
from tests.formats.test_check import chain

JSON = ReplyFormat(kind="json")
SCHEMA = ReplyFormat(kind="json_schema", text='{"type": "array"}')
SHAPES = '[{"shape": "star", "count": 2}, {"shape": "disc", "red": null}]'


async def ready(open_app: OpenApp) -> App:
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    return app


async def replied(app: App, engine: FakeEngine, text: str, form: ReplyFormat = JSON) -> ReplyRow:
    """A finished reply of a form, once it has been read."""
    app.parts.chat.ask_for(form)
    await until(lambda: app.parts.chat.format == form)
    (await send(app, engine, "List them")).finish(text)
    row = await ended(app)
    await until(lambda: label(row, "replyValidity").text())
    await settle()
    return row


def label(row: ReplyRow, name: str) -> QLabel:
    found = row.findChild(QLabel, name)
    assert isinstance(found, QLabel)
    return found


def button(row: QWidget, name: str) -> QAbstractButton:
    found = row.findChild(QAbstractButton, name)
    assert isinstance(found, QAbstractButton)
    return found


def view_of(row: ReplyRow) -> DataView:
    found = row.findChild(DataView)
    assert found is not None
    return found


def source_of(row: ReplyRow) -> CodeBlock:
    found = row.findChild(CodeBlock)
    assert found is not None
    return found


def table(view: DataView) -> list[list[str]]:
    """The cells of all rows at the top, the heads first."""
    model = view.model()
    columns = range(model.columnCount(QModelIndex()))
    across = Qt.Orientation.Horizontal
    heads = [str(model.headerData(column, across)) for column in columns]
    rows = range(model.rowCount(QModelIndex()))
    return [heads, *([str(model.index(row, each).data()) for each in columns] for row in rows)]


def opened_menu(app: App) -> QMenu:
    return app.window.page.composer._format.menu_shown()


def trigger(app: App, name: str) -> None:
    next(each for each in opened_menu(app).actions() if each.objectName() == name).trigger()


def marked(app: App) -> list[str]:
    return [each.objectName() for each in opened_menu(app).actions() if each.isChecked()]


async def opened_dialog(app: App) -> SchemaDialog:
    trigger(app, "actionFormatSchema")
    await until(lambda: app.window.findChildren(SchemaDialog))
    return app.window.findChildren(SchemaDialog)[-1]


async def verdict(dialog: SchemaDialog, words_: str) -> None:
    await until(lambda: re.search(words_, dialog.verdict.text()), f"{words_} of the schema")


async def test_the_menu_turns_a_form_on_and_the_chip_shows_it_and_turns_it_off(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await ready(open_app)
    assert marked(app) == ["actionFormatFree"]
    assert words(app, "formatChip") == ""
    trigger(app, "actionFormatJson")
    assert words(app, "formatChip") == "Replies: JSON"
    assert marked(app) == ["actionFormatJson"]
    asked = await send(app, engine, "List them")
    assert asked.command.format == JSON
    asked.finish("[]")
    await ended(app)
    assert words(app, "formatChip") == "Replies: JSON"
    press(app, "formatOff")
    await until(lambda: not words(app, "formatChip"))
    assert (await send(app, engine, "And now?")).command.format is None


async def test_a_schema_is_checked_as_it_is_typed_and_applied_only_when_it_can_be_used(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await ready(open_app)
    dialog = await opened_dialog(app)
    use = button(dialog, "schemaUse")
    assert not use.isEnabled()
    QTest.keyClicks(dialog.text, '{"type": "arr')
    await verdict(dialog, "isn't JSON")
    assert not use.isEnabled()
    dialog.text.setPlainText('{"type": "banana"}')
    await verdict(dialog, "banana")
    assert not use.isEnabled()
    dialog.text.setPlainText(SCHEMA.text)
    await verdict(dialog, "can be used")
    use.click()
    await until(lambda: app.parts.chat.format == SCHEMA)
    assert words(app, "formatChip") == "Replies: JSON with a schema"
    assert (await send(app, engine, "List them")).command.format == SCHEMA


async def test_the_dialog_offers_an_example_and_then_the_schema_in_force(
    open_app: OpenApp,
) -> None:
    app = await ready(open_app)
    dialog = await opened_dialog(app)
    press(app, "schemaExample")
    await verdict(dialog, "can be used")
    assert dialog.schema() == EXAMPLE
    press(app, "schemaUse")
    await until(lambda: app.parts.chat.format)
    press(app, "formatOff")
    await until(lambda: app.parts.chat.format is None)
    again = await opened_dialog(app)
    assert again.schema() == EXAMPLE
    await verdict(again, "can be used")
    press(app, "schemaCancel")
    await until(lambda: not app.window.findChildren(SchemaDialog))
    assert app.parts.chat.format is None


async def test_the_latest_schema_is_the_one_that_is_judged(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await ready(open_app)
    judged: list[str] = []

    def refuse(form: ReplyFormat, _: object) -> str:
        judged.append(form.text)
        return f"No: {form.text}"

    monkeypatch.setattr(reading, "refusal", refuse)
    told: list[tuple[str, str]] = []
    app.parts.formats.checked.connect(lambda schema, said: told.append((schema, said)))
    for schema in ("1", "2", "3"):
        app.parts.formats.check(schema)
    await until(lambda: told)
    await settle()
    assert told == [("3", "No: 3")]
    assert judged[-1] == "3"


async def test_a_schema_that_is_too_long_is_refused_in_words(open_app: OpenApp) -> None:
    app = await ready(open_app)
    dialog = await opened_dialog(app)
    dialog.text.setPlainText(" " * (LONGEST_TEXT + 1))
    await verdict(dialog, "longer than")
    assert not button(dialog, "schemaUse").isEnabled()


async def test_a_list_of_flat_objects_is_a_table_beside_its_source(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await ready(open_app)
    row = await replied(app, engine, SHAPES, SCHEMA)
    assert table(view_of(row)) == [
        ["shape", "count", "red"],
        ["star", "2", ""],
        ["disc", "", "null"],
    ]
    assert label(row, "replyValidity").text() == "Valid against the schema."
    assert button(row, "showData").text() == "Table"
    assert view_of(row).isVisible() and not source_of(row).isVisible()
    press(app, "showSource")
    assert source_of(row).isVisible() and not view_of(row).isVisible()
    assert source_of(row).code() == SHAPES
    press(app, "showData")
    assert view_of(row).isVisible() and not source_of(row).isVisible()
    read_with_the_keyboard(row)
    await found_in_the_source(app, row)


def read_with_the_keyboard(row: ReplyRow) -> None:
    names = [each.objectName() for each in tab_stops(row)]
    assert names.index("showData") < names.index("replyData") < names.index("copyJson")
    view = view_of(row)
    view.setFocus()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Right):
        QTest.keyClick(view, key)
    assert view.currentIndex().row() == 1
    QTest.keyClick(view, Qt.Key.Key_Up)
    assert view.currentIndex().row() == 0


async def found_in_the_source(app: App, row: ReplyRow) -> None:
    app.window.page.find_bar.begin()
    find(app, QLineEdit, "findText").setText("disc")
    await until(lambda: words(app, "findCount"))
    field = source_of(row).findChild(QPlainTextEdit)
    assert field is not None and field.isVisible()
    assert [each.cursor.selectedText() for each in field.extraSelections()] == ["disc"]


async def test_other_json_is_a_tree(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await ready(open_app)
    row = await replied(app, engine, '{"shapes": [{"name": "star"}], "sum": 1.50}')
    view = view_of(row)
    assert table(view) == [["Name", "Value"], ["shapes", "1 item"], ["sum", "1.50"]]
    model = view.model()
    star = model.index(0, 0, model.index(0, 0, model.index(0, 0)))
    assert (star.data(), star.siblingAtColumn(1).data()) == ("name", '"star"')
    assert view.isExpanded(model.index(0, 0))
    assert button(row, "showData").text() == "Tree"
    assert label(row, "replyValidity").text() == "Valid JSON."


async def test_while_it_comes_in_there_is_only_the_source(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await ready(open_app)
    app.parts.chat.ask_for(JSON)
    asked = await send(app, engine, "List them")
    asked.say("[1, 2]")
    await until(lambda: app.parts.transcript.rows[-1].text == "[1, 2]")
    row = app.window.page.transcript.row_widgets[-1]
    assert isinstance(row, ReplyRow)
    assert source_of(row).code() == "[1, 2]" and source_of(row).isVisible()
    assert row.findChild(DataView) is None
    assert not button(row, "showData").isVisible()


async def test_a_reply_that_is_not_of_its_form_says_so(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await ready(open_app)
    row = await replied(app, engine, '{"a": 1}', SCHEMA)
    assert label(row, "replyValidity").text().startswith("Not valid: ")
    assert view_of(row).isVisible()
    cut = await replied(app, engine, '[{"a": 1', SCHEMA)
    assert label(cut, "replyValidity").text().startswith("Not valid: It isn't JSON")
    assert cut.findChild(DataView) is None and source_of(cut).isVisible()
    assert not button(cut, "copyJson").isVisible()


async def test_a_reply_that_takes_too_long_to_check_says_that_it_was_not_checked(
    open_app: OpenApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "CHECK_S", 0.3)
    app = await ready(open_app)
    endless = ReplyFormat(kind="json_schema", text=json.dumps(chain(40, "anyOf")))
    row = await replied(app, engine, "[1, 2]", endless)
    assert label(row, "replyValidity").text() == "Not checked: It couldn't be checked in 2 s."
    assert label(row, "replyValidity").property("class") == "warning small"
    assert view_of(row).isVisible()


async def test_copy_as_json_is_indented_and_keeps_every_number(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await ready(open_app)
    await replied(app, engine, '{"a":[1.50,1e999,12345678901234567890123],"b":"\\u00e4 {,}"}')
    press(app, "copyJson")
    await until(lambda: "\n" in QGuiApplication.clipboard().text())
    copied = QGuiApplication.clipboard().text()
    QGuiApplication.clipboard().clear()
    assert copied == (
        '{\n  "a": [\n    1.50,\n    1e999,\n    12345678901234567890123\n  ],\n'
        '  "b": "\\u00e4 {,}"\n}'
    )
    assert json.loads(copied)["b"] == "\u00e4 {,}"


async def test_an_old_reply_is_shown_as_it_was_asked_for(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await ready(open_app)
    await replied(app, engine, SHAPES)
    press(app, "formatOff")
    await until(lambda: app.parts.chat.format is None)
    (await send(app, engine, "And in words?")).finish("[1, 2]")
    free = await ended(app)
    assert free.findChild(DataView) is None
    chat = app.parts.transcript.chat
    app.parts.chat.open(None)
    app.parts.chat.open(chat)
    await until(lambda: app.window.page.transcript.findChildren(DataView))
    assert len(find(app, DataView, "replyData").window().findChildren(DataView)) == 1


async def test_H1_words_of_a_reply_are_text_in_its_data(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await ready(open_app)
    markup = "<b>a</b>&amp;\u202e"
    row = await replied(app, engine, json.dumps([{markup: markup}]))
    shown = "<b>a</b>&amp;<U+202E>"
    assert table(view_of(row)) == [[shown], [shown]]
