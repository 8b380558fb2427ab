"""The real window with the real worker and the demo model: a day, forks, structured replies.

Nothing here measures time; what is waited for has a generous bound.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QLineEdit

from core.api.events import Prepared
from core.client.client import EngineClient
from desktop.app import App
from desktop.chat.compose.format_dialog import FormatDialog
from desktop.chat.data.json_body import DataView
from desktop.chat.rows.reply_row import ReplyRow
from desktop.engine.engine_status import Phase
from desktop.settings.controls import NumberBox
from desktop.store.folders import SAMPLE_PICTURES, Folders
from desktop.store.tables import chats
from desktop.store.tables.records import ReplyState
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import (
    child,
    drop,
    ended,
    files,
    find,
    press,
    reply_of,
    said,
    stats_of,
    thumbnails,
    type_in,
    words,
)


async def with_model(open_app: OpenApp, folders: Folders) -> tuple[App, EngineClient]:
    engine = EngineClient(folders.engine_log)
    app = await open_app(engine)
    await until(lambda: app.parts.engine.status.phase in (Phase.READY, Phase.EMPTY, Phase.FAILED))
    assert app.parts.engine.status.phase is Phase.READY, app.parts.engine.status.trouble
    # The settings are made when they are looked at first.
    for page in (1, 0):
        app.window.side_panel.show_page(page)
    return app, engine


async def begin(app: App, text: str) -> None:
    count = len(app.parts.transcript.rows)
    type_in(app, text)
    press(app, "sendButton")
    await until(lambda: len(app.parts.transcript.rows) > count, f"{text!r} is in the transcript")


async def answer(app: App, text: str) -> ReplyRow:
    await begin(app, text)
    return await ended(app)


def make_replies_long(app: App) -> None:
    """At this heat all tokens are alike, and the one that ends a reply comes late."""
    for name, value in (
        ("settingSamplingTemperature", "100"),
        ("settingSamplingTopK", "0"),
        ("settingSamplingSeed", "11"),
    ):
        field = find(app, QLineEdit, name)
        field.setText(value)
        field.editingFinished.emit()


def make_replies_sober(app: App) -> None:
    for name in ("settingSamplingTemperature", "settingSamplingTopK", "settingSamplingSeed"):
        field = find(app, QLineEdit, name)
        field.setText("")
        field.editingFinished.emit()


@pytest.mark.skipif(sys.platform == "win32", reason="kills the worker as only POSIX can")
@pytest.mark.usefixtures("started_engines")
async def test_a_day_with_a_picture(open_app: OpenApp, folders: Folders) -> None:
    app, engine = await with_model(open_app, folders)
    # Idle work would take part of what is counted here; it has a story of its own below.
    for key in ("ahead.settle", "ahead.read_ahead"):
        app.parts.settings.set_value(key, False)
    await a_picture_is_dropped_and_asked_about(app)
    await the_second_question_reads_no_picture(app)
    await count_and_interval_are_changed(app)
    await a_reply_is_stopped_half_way(app)
    await the_worker_dies_half_way(app, engine)
    shown = [row.text for row in app.parts.transcript.rows]
    app.window.close()
    await app.gone.wait()
    await the_chat_is_found_again(open_app, folders, shown)


async def a_picture_is_dropped_and_asked_about(app: App) -> None:
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)
    assert thumbnails(app)[0].caption() == "480 x 480 \N{RIGHTWARDS ARROW} 96 x 96, 9 tokens"
    row = await answer(app, "What is in the picture?")
    for thing in ("red circle", "blue star", "green triangle"):
        assert thing in said(row)
    stats = stats_of(row)
    assert (stats.images_in_prompt, stats.images_encoded, stats.reused_tokens) == (1, 1, 0)
    assert words(app, "contextImagesEncoded") == "1"


async def the_second_question_reads_no_picture(app: App) -> None:
    row = await answer(app, "What colour is the star?")
    assert "blue" in said(row)
    stats = stats_of(row)
    assert (stats.images_in_prompt, stats.images_encoded) == (1, 0)
    assert 0 < stats.reused_tokens == stats.prompt_tokens - stats.evaluated_tokens
    assert words(app, "contextImagesEncoded") == "0"
    assert words(app, "contextImagesReused") == "1"
    assert words(app, "contextReused") == f"{stats.reused_tokens:,}"
    assert words(app, "contextEvaluated") == f"{stats.evaluated_tokens:,}"
    assert f"{stats.reused_tokens:,} of {stats.prompt_tokens:,} tokens reused" in words(
        app, "numbersText"
    )


async def test_idle_work_leaves_only_the_new_words_to_read(
    open_app: OpenApp, folders: Folders
) -> None:
    app, _ = await with_model(open_app, folders)
    told: list[Prepared] = []
    app.parts.idle_prefill.prepared.connect(lambda _end, event: told.append(event))
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    await until(lambda: told, "the picture is read ahead")
    read = told[-1]
    assert read.encoded == 1
    assert app.parts.context.view.strip.parts == read.parts
    first = stats_of(await answer(app, "What is in the picture?"))
    assert (first.images_encoded, first.reused_tokens) == (0, read.tokens)
    await until(lambda: len(told) == 2, "the reply is settled")
    settled = told[-1]
    assert settled.tokens > 0
    second = stats_of(await answer(app, "What colour is the star?"))
    assert second.images_encoded == 0 and second.miss is None
    assert second.reused_tokens > first.prompt_tokens - first.evaluated_tokens + settled.tokens


async def count_and_interval_are_changed(app: App) -> None:
    app.window.side_panel.show_page(1)
    find(app, NumberBox, "settingCacheCount").setValue(3)
    find(app, NumberBox, "settingCacheInterval").setValue(512)
    app.window.side_panel.show_page(0)
    row = await answer(app, "How many shapes are there?")
    stats = stats_of(row)
    assert 0 < stats.checkpoints_held <= 3
    assert "three" in said(row).lower()


async def a_reply_is_stopped_half_way(app: App) -> None:
    make_replies_long(app)
    await begin(app, "Describe the picture.")
    await until(lambda: app.parts.transcript.rows[-1].text)
    press(app, "sendButton")
    row = await ended(app)
    assert reply_of(row).state is ReplyState.STOPPED
    assert said(row) == row.row.text != ""
    assert words(app, "replyEnding") == "Stopped."


async def the_worker_dies_half_way(app: App, engine: EngineClient) -> None:
    await begin(app, "Describe the picture.")
    await until(lambda: app.parts.transcript.rows[-1].text)
    assert engine.worker_pid is not None
    os.kill(engine.worker_pid, signal.SIGKILL)
    row = await ended(app)
    assert reply_of(row).state is ReplyState.STOPPED
    assert row.row.text != ""
    assert "killed" in words(app, "replyEnding")
    make_replies_sober(app)
    # Sent while the engine is down: it waits for the model, and goes on by itself.
    after = await answer(app, "What colour is the star?")
    assert reply_of(after).state is ReplyState.COMPLETE
    assert said(after) != ""


async def the_chat_is_found_again(open_app: OpenApp, folders: Folders, shown: list[str]) -> None:
    app, _ = await with_model(open_app, folders)
    assert [chat.title for chat in app.parts.chat_list.chats] == ["What is in the picture?"]
    app.window.side_bar.list.setCurrentIndex(app.parts.chat_list.index(1))
    await until(lambda: [row.text for row in app.parts.transcript.rows] == shown)
    picture = app.parts.transcript.rows[0].message.pictures[0]
    assert app.parts.chat._blobs.path(picture.digest).is_file()
    assert find(app, NumberBox, "settingCacheCount").value() == 3
    row = await answer(app, "How many shapes are there?")
    assert reply_of(row).state is ReplyState.COMPLETE


async def test_what_the_model_cannot_load_leaves_the_window_open(
    open_app: OpenApp, folders: Folders, tmp_path: Path
) -> None:
    (folders.settings_file).write_text(f'{{"model": {{"path": "{tmp_path / "nothing"}"}}}}')
    app = await open_app(EngineClient(folders.engine_log))
    await until(lambda: app.parts.engine.status.phase is Phase.EMPTY)
    assert app.window.isVisible()
    assert app.parts.engine.status.trouble != ""
    app.parts.settings.set_model_path("")
    app.window.side_panel.show_page(1)
    press(app, "loadModel")
    await until(lambda: app.parts.engine.status.phase is Phase.READY)


class Heard:
    """Results of idle prefill, by the message that ended the path."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._told: dict[int | None, Prepared] = {}
        app.parts.idle_prefill.prepared.connect(self._told.__setitem__)

    def forget(self) -> None:
        """Drop the results so far, because a reply continues."""
        self._told.clear()

    async def of_last(self) -> Prepared:
        end = self._app.parts.transcript.rows[-1].id
        await until(lambda: end in self._told)
        return self._told[end]

    async def of_draft(self) -> Prepared:
        self._told.pop(None, None)
        await until(lambda: None in self._told)
        return self._told[None]


async def delete(app: App, chat: int) -> None:
    app.parts.chats.delete(chat)
    await until(lambda: chat in [each.id for each in app.parts.chats.trash.chats])
    app.parts.deletion.delete_for_good(chat)
    waiting = True
    while waiting:
        await until(lambda: not app.parts.deletion._sending)
        rows = await app.parts.database.run(
            lambda connection: connection.execute("SELECT count(*) FROM chats").fetchone()
        )
        left = await app.parts.database.run(chats.next_to_forget)
        waiting = left is not None or rows[0] != len(app.parts.chat_list.chats)


async def test_a_fork_outlives_its_chat_at_no_cost(open_app: OpenApp, folders: Folders) -> None:
    app, _ = await with_model(open_app, folders)
    heard = Heard(app)
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)
    await answer(app, "What is in the picture?")
    original = app.parts.transcript.chat
    assert original is not None
    await heard.of_last()
    press(app, "forkChat")
    await until(lambda: app.parts.transcript.chat not in (None, original))
    fork = app.parts.transcript.chat
    assert fork is not None
    # All of it was read for the chat it came from.
    assert (await heard.of_last()).tokens == 0
    await delete(app, original)
    stats = stats_of(await answer(app, "What colour is the star?"))
    assert stats.images_encoded == 0 and stats.miss is None
    assert stats.evaluated_tokens < stats.prompt_tokens / 2
    await heard.of_last()
    await delete(app, fork)
    assert not list(folders.pictures.glob("??/*"))
    await until(lambda: app.parts.transcript.rows == [])
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    # Read from nothing on the new page: neither the picture nor a word was kept.
    assert (await heard.of_draft()).encoded == 1


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
    app.window.page.composer.format.written_asked.emit("json_schema")
    await until(lambda: app.window.findChildren(FormatDialog))
    dialog = app.window.findChildren(FormatDialog)[-1]
    dialog.text.setPlainText(json.dumps(SCHEMA))
    await until(lambda: "can be used" in dialog.verdict.text())
    press(app, "schemaUse")
    await until(lambda: words(app, "formatChip"))


async def is_a_valid_table(row: ReplyRow) -> None:
    validity = child(row, QLabel, "replyValidity")
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
