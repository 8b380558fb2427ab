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
from desktop.chat.compose.format_dialog import GRAMMAR, FormatDialog
from desktop.chat.compose.format_dialog import SCHEMA as EXAMPLE
from desktop.chat.data import formats
from desktop.chat.data.formats import Kind, format_of, text_of
from desktop.chat.data.json_body import DataView
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.rows.reply_row import ReplyRow
from desktop.engine.engine_status import Phase
from desktop.store.folders import Folders
from desktop.window.sides import tab_stops
from desktop.window.window_parts import WindowParts
from tests.desktop.chat.test_chat import ask
from tests.desktop.chat.test_chat import ended as reply_ended
from tests.desktop.conftest import Loop, OpenApp, OpenParts, ready_app, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import child, ended, find, press, reply_of, send, settle, words
from tests.formats.test_check import chain

JSON = ReplyFormat(kind="json")
SCHEMA = ReplyFormat(kind="json_schema", text='{"type": "array"}')
ENDLESS = ReplyFormat(kind="json_schema", text=json.dumps(chain(40, "anyOf")))
SHAPES = '[{"shape": "star", "count": 2}, {"shape": "disc", "red": null}]'


@pytest.fixture
def app(qloop: Loop, open_app: OpenApp) -> App:
    return qloop.run(ready_app(open_app))


async def chosen(parts: WindowParts, form: ReplyFormat | None) -> None:
    parts.chat.ask_for(form)
    await until(lambda: parts.chat.format == form)


async def replied(app: App, engine: FakeEngine, text: str, form: ReplyFormat = JSON) -> ReplyRow:
    await chosen(app.parts, form)
    (await send(app, engine, "List them")).finish(text)
    row = await ended(app)
    await until(lambda: validity(row).text())
    await settle()
    return row


def validity(row: ReplyRow) -> QLabel:
    return child(row, QLabel, "replyValidity")


def button(row: QWidget, name: str) -> QAbstractButton:
    return child(row, QAbstractButton, name)


def view_of(row: ReplyRow) -> DataView:
    return child(row, DataView)


def source_of(row: ReplyRow) -> CodeBlock:
    return child(row, CodeBlock)


def table(view: DataView) -> list[list[str]]:
    model = view.model()
    columns = range(model.columnCount(QModelIndex()))
    across = Qt.Orientation.Horizontal
    heads = [str(model.headerData(column, across)) for column in columns]
    rows = range(model.rowCount(QModelIndex()))
    return [heads, *([str(model.index(row, each).data()) for each in columns] for row in rows)]


def opened_menu(app: App) -> QMenu:
    return app.window.page.composer.format.menu_shown()


def trigger(app: App, name: str) -> None:
    next(each for each in opened_menu(app).actions() if each.objectName() == name).trigger()


def marked(app: App) -> list[str]:
    return [each.objectName() for each in opened_menu(app).actions() if each.isChecked()]


async def opened_dialog(app: App, name: str = "actionFormatSchema") -> FormatDialog:
    trigger(app, name)
    await until(lambda: app.window.findChildren(FormatDialog))
    return app.window.findChildren(FormatDialog)[-1]


async def verdict(dialog: FormatDialog, words_: str) -> None:
    await until(lambda: re.search(words_, dialog.verdict.text()), f"{words_} of the schema")


async def test_a_format_is_chosen_used_and_turned_off(app: App, engine: FakeEngine) -> None:
    assert marked(app) == ["actionFormatFree"] and words(app, "formatChip") == ""
    await a_schema_is_used_only_if_it_can_be(app)
    assert words(app, "formatChip") == "Replies: JSON with a schema"
    asked = await send(app, engine, "List them")
    assert asked.command.format == SCHEMA
    asked.finish("[1]")
    await ended(app)
    await the_last_schema_is_offered_again(app)
    press(app, "formatOff")
    await until(lambda: not words(app, "formatChip"))
    trigger(app, "actionFormatJson")
    await until(lambda: words(app, "formatChip") == "Replies: JSON")
    assert marked(app) == ["actionFormatJson"]
    asked = await send(app, engine, "And now?")
    assert asked.command.format == JSON
    await only_its_source_is_shown_while_it_grows(app, engine)
    press(app, "formatOff")
    await until(lambda: not words(app, "formatChip"))
    assert (await send(app, engine, "In words?")).command.format is None


async def a_schema_is_used_only_if_it_can_be(app: App) -> None:
    dialog = await opened_dialog(app)
    use = button(dialog, "schemaUse")
    assert not use.isEnabled()
    for typed, said in (
        ('{"type": "arr', "isn't JSON"),
        ('{"type": "banana"}', "banana"),
        (" " * (LONGEST_TEXT + 1), "longer than"),
    ):
        dialog.text.setPlainText(typed)
        await verdict(dialog, said)
        assert not use.isEnabled()
    dialog.text.setPlainText(SCHEMA.text)
    await verdict(dialog, "can be used")
    use.click()
    await until(lambda: app.parts.chat.format == SCHEMA)


@pytest.mark.parametrize(
    ("kind", "name", "bad", "said", "good", "chip"),
    [
        (
            "choice",
            "actionFormatChoice",
            "x" * 1025,
            "choices, each of at most",
            " yes \n\nno\nyes\n",
            "one of 2 choices",
        ),
        (
            "regex",
            "actionFormatRegex",
            "ab(c",
            "can't be used at character 3: unclosed group",
            "[a-c]+\n",
            "match a regular expression",
        ),
        (
            "lark",
            "actionFormatLark",
            "start: foo",
            "can't be used at line 1, column 8: unknown name",
            'start: "a" | "b"',
            "follow a grammar",
        ),
    ],
)
async def test_other_formats_are_written_checked_and_kept(
    app: App, engine: FakeEngine, kind: Kind, name: str, bad: str, said: str, good: str, chip: str
) -> None:
    dialog = await opened_dialog(app, name)
    use = button(dialog, "schemaUse")
    dialog.text.setPlainText(bad)
    await verdict(dialog, re.escape(said))
    assert not use.isEnabled()
    press(app, "schemaExample")
    await verdict(dialog, "can be used")
    dialog.text.setPlainText(good)
    await verdict(dialog, "can be used")
    use.click()
    await until(lambda: words(app, "formatChip") == f"Replies: {chip}")
    assert marked(app) == [name]
    form = app.parts.chat.format
    assert form is not None and form == format_of(kind, good)
    asked = await send(app, engine, "Which?")
    assert asked.command.format == form
    asked.finish("b")
    await ended(app)
    app.parts.chat_settings.save("Mine", with_model=False)
    press(app, "formatOff")
    await until(lambda: app.parts.chat.format is None)
    assert app.parts.chat.last_written(kind) == text_of(form)
    app.parts.chat_settings.apply("Mine")
    await until(lambda: app.parts.chat.format == form)
    # The line that names it opens it again.
    press(app, "formatChip")
    await until(lambda: app.window.findChildren(FormatDialog))
    assert find(app, FormatDialog, "schemaDialog").text.toPlainText() == text_of(form)
    press(app, "schemaCancel")


def test_choices_are_lines_and_none_is_too_many() -> None:
    assert format_of("choice", " a \n\n b\na\r\n") == ReplyFormat(kind="choice", choices=("a", "b"))
    assert format_of("choice", "\n".join(map(str, range(1025)))) is None
    assert format_of("choice", " \n") == ReplyFormat(kind="choice")
    assert format_of("regex", "a\n") == ReplyFormat(kind="regex", text="a")
    assert format_of("lark", GRAMMAR) == ReplyFormat(kind="lark", text=GRAMMAR)


async def the_last_schema_is_offered_again(app: App) -> None:
    dialog = await opened_dialog(app)
    assert dialog.text.toPlainText() == SCHEMA.text
    press(app, "schemaExample")
    await verdict(dialog, "can be used")
    assert dialog.text.toPlainText() == EXAMPLE
    press(app, "schemaUse")
    await until(lambda: app.parts.chat.format == ReplyFormat(kind="json_schema", text=EXAMPLE))
    press(app, "formatOff")
    await until(lambda: app.parts.chat.format is None)
    again = await opened_dialog(app)
    assert again.text.toPlainText() == EXAMPLE
    press(app, "schemaCancel")
    await until(lambda: not app.window.findChildren(FormatDialog))
    assert app.parts.chat.format is None
    await chosen(app.parts, SCHEMA)


async def only_its_source_is_shown_while_it_grows(app: App, engine: FakeEngine) -> None:
    engine.asked[-1].say("[1, 2]")
    await until(lambda: app.parts.transcript.rows[-1].text == "[1, 2]")
    row = app.window.page.transcript.row_widgets[-1]
    assert isinstance(row, ReplyRow)
    assert source_of(row).code() == "[1, 2]" and source_of(row).isVisible()
    assert row.findChild(DataView) is None and not button(row, "showData").isVisible()
    engine.asked[-1].finish()
    await ended(app)


async def test_the_latest_schema_is_the_one_that_is_judged(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def refuse(form: ReplyFormat, _: object) -> str:
        judged.append(form.text)
        return f"No: {form.text}"

    monkeypatch.setattr(formats, "refusal", refuse)
    told: list[tuple[str, str]] = []
    app.parts.formats.checked.connect(lambda schema, said: told.append((schema, said)))
    for schema in ("1", "2", "3"):
        app.parts.formats.check("json_schema", schema)
    await until(lambda: told)
    await settle()
    assert told == [("3", "No: 3")]
    assert judged[-1] == "3"


async def test_replies_are_shown_as_tables_and_trees(app: App, engine: FakeEngine) -> None:
    await flat_objects_are_a_table_beside_their_source(app, engine)
    await other_json_is_a_tree(app, engine)
    await a_reply_that_breaks_its_format_says_so(app, engine)
    await words_of_a_reply_that_is_copied(app, engine)
    await free_replies_stay_free_and_old_ones_data(app, engine)


async def flat_objects_are_a_table_beside_their_source(app: App, engine: FakeEngine) -> None:
    row = await replied(app, engine, SHAPES, SCHEMA)
    assert table(view_of(row)) == [
        ["shape", "count", "red"],
        ["star", "2", ""],
        ["disc", "", "null"],
    ]
    assert validity(row).text() == "Valid against the schema."
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
    field = child(source_of(row), QPlainTextEdit)
    assert field.isVisible()
    assert [each.cursor.selectedText() for each in field.extraSelections()] == ["disc"]
    app.window.page.find_bar.leave()


async def other_json_is_a_tree(app: App, engine: FakeEngine) -> None:
    row = await replied(app, engine, '{"shapes": [{"name": "star"}], "sum": 1.50}')
    view = view_of(row)
    assert table(view) == [["Name", "Value"], ["shapes", "1 item"], ["sum", "1.50"]]
    model = view.model()
    star = model.index(0, 0, model.index(0, 0, model.index(0, 0)))
    assert (star.data(), star.siblingAtColumn(1).data()) == ("name", '"star"')
    assert view.isExpanded(model.index(0, 0))
    assert button(row, "showData").text() == "Tree"
    assert validity(row).text() == "Valid JSON."


async def a_reply_that_breaks_its_format_says_so(app: App, engine: FakeEngine) -> None:
    row = await replied(app, engine, '{"a": 1}', SCHEMA)
    assert validity(row).text().startswith("Not valid: ") and view_of(row).isVisible()
    cut = await replied(app, engine, '[{"a": 1', SCHEMA)
    assert validity(cut).text().startswith("Not valid: It isn't JSON")
    assert cut.findChild(DataView) is None and source_of(cut).isVisible()
    assert not button(cut, "copyJson").isVisible()


async def words_of_a_reply_that_is_copied(app: App, engine: FakeEngine) -> None:
    await replied(app, engine, '{"a":[1.50,1e999,12345678901234567890123],"b":"\\u00e4 {,}"}')
    QGuiApplication.clipboard().clear()
    press(app, "copyJson")
    await until(lambda: "\n" in QGuiApplication.clipboard().text())
    copied = QGuiApplication.clipboard().text()
    QGuiApplication.clipboard().clear()
    assert copied == (
        '{\n  "a": [\n    1.50,\n    1e999,\n    12345678901234567890123\n  ],\n'
        '  "b": "\\u00e4 {,}"\n}'
    )


async def free_replies_stay_free_and_old_ones_data(app: App, engine: FakeEngine) -> None:
    press(app, "formatOff")
    await until(lambda: app.parts.chat.format is None)
    (await send(app, engine, "And in words?")).finish("[1, 2]")
    assert (await ended(app)).findChild(DataView) is None
    chat = app.parts.transcript.chat
    app.parts.chat.open(None)
    app.parts.chat.open(chat)
    await until(lambda: app.window.page.transcript.findChildren(DataView))


async def test_H1_words_of_a_reply_are_text_in_its_data(app: App, engine: FakeEngine) -> None:
    markup = "<b>a</b>&amp;\u202e"
    row = await replied(app, engine, json.dumps([{markup: markup}]))
    shown = "<b>a</b>&amp;<U+202E>"
    assert table(view_of(row)) == [[shown], [shown]]


async def test_a_continued_reply_keeps_its_format_and_another_has_the_chats(
    app: App, engine: FakeEngine
) -> None:
    await chosen(app.parts, SCHEMA)
    (await send(app, engine, "List them")).finish("[1, 2", reason="length")
    assert reply_of(await ended(app)).format == SCHEMA
    await chosen(app.parts, JSON)
    press(app, "continueReply")
    await until(lambda: len(engine.asked) == 2)
    assert engine.asked[-1].command.format == SCHEMA
    engine.asked[-1].finish("[1, 2]")
    assert reply_of(await ended(app)).format == SCHEMA
    press(app, "regenerate")
    await until(lambda: len(engine.asked) == 3)
    assert engine.asked[-1].command.format == JSON


def test_each_chats_format_and_last_schema_survive_a_restart(qloop: Loop, folders: Folders) -> None:
    newer = ReplyFormat(kind="json_schema", text='{"type": "object"}')

    async def first_life() -> None:
        engine = FakeEngine()
        parts = WindowParts(folders, engine)
        parts.begin()
        await until(lambda: parts.engine.status.phase is Phase.READY)
        await chosen(parts, SCHEMA)
        (await ask(parts, engine, "List them")).finish("[1]")
        await reply_ended(parts)
        await chosen(parts, JSON)
        parts.chat.open(None)
        assert (parts.chat.format, parts.chat.last_written("json_schema")) == (None, SCHEMA.text)
        await chosen(parts, newer)
        await parts.close()

    async def second_life() -> None:
        parts = WindowParts(folders, FakeEngine())
        parts.begin()
        assert (parts.chat.format, parts.chat.last_written("json_schema")) == (newer, newer.text)
        await until(lambda: parts.chat_list.chats)
        parts.chat.open(parts.chat_list.chats[0].id)
        await until(lambda: parts.transcript.rows)
        assert (parts.chat.format, parts.chat.last_written("json_schema")) == (JSON, SCHEMA.text)
        await parts.close()

    qloop.run(first_life())
    qloop.run(second_life())


async def test_closing_does_not_wait_for_a_check_that_runs(
    open_parts: OpenParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "CHECK_S", 600.0)
    check._checks.close()
    parts = await open_parts()
    parts.formats.read(1, "1", ENDLESS)
    await until(lambda: check._checks.pid is not None)
    await parts.close()
    # Its thread is told, and not waited for.
    await until(lambda: check._checks.pid is None)
