"""The real window with the real worker and the demo model: replies of a given form."""

from __future__ import annotations

import json

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel

from desktop.app import App
from desktop.chat.chat_options import SchemaDialog
from desktop.chat.data.data_view import DataView
from desktop.chat.reply_row import ReplyRow
from desktop.store.folders import SAMPLE_PICTURES, Folders
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import drop, ended, files, press, stats_of, thumbnails, words
from tests.desktop.test_end_to_end import answer, with_model

SCHEMA = {
    "type": "array",
    "minItems": 2,
    "maxItems": 3,
    "items": {
        "type": "object",
        "properties": {
            "shape": {"enum": ["circle", "star", "triangle"]},
            "sides": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["shape", "sides"],
        "additionalProperties": False,
    },
}


async def test_replies_by_a_schema_are_valid_and_shown_as_a_table(
    open_app: OpenApp, folders: Folders
) -> None:
    app, _ = await with_model(open_app, folders)
    await a_schema_is_chosen(app)
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)
    first = await answer(app, "What is in the picture?")
    await is_a_valid_table(first)
    press(app, "regenerate")
    await until(lambda: app.parts.chat.running)
    again = await ended(app)
    await is_a_valid_table(again)
    assert stats_of(again).evaluated_tokens == 0
    await the_reply_is_copied(app, again.row.text)
    press(app, "formatOff")
    await until(lambda: app.parts.chat.format is None)
    free = await answer(app, "What is in the picture?")
    assert free.findChild(DataView) is None


async def a_schema_is_chosen(app: App) -> None:
    app.window.page.composer.schema_asked.emit()
    await until(lambda: app.window.findChildren(SchemaDialog))
    dialog = app.window.findChildren(SchemaDialog)[-1]
    dialog.text.setPlainText(json.dumps(SCHEMA))
    await until(lambda: "can be used" in dialog.verdict.text())
    press(app, "schemaUse")
    await until(lambda: words(app, "formatChip"))


async def is_a_valid_table(row: ReplyRow) -> None:
    validity = row.findChild(QLabel, "replyValidity")
    assert isinstance(validity, QLabel)
    await until(validity.text)
    assert validity.text() == "Valid against the schema."
    assert row.findChild(DataView) is not None
    assert all(set(each) == {"shape", "sides"} for each in json.loads(row.row.text))


async def the_reply_is_copied(app: App, text: str) -> None:
    clipboard = QGuiApplication.clipboard()
    press(app, "copyJson")
    await until(clipboard.text)
    copied = clipboard.text()
    clipboard.clear()
    assert json.loads(copied) == json.loads(text)
