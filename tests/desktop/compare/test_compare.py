from __future__ import annotations

import pytest
from PySide6.QtWidgets import QComboBox, QLabel, QPlainTextEdit, QPushButton

from core.api.chat import ImagePart, TextPart
from core.api.errors import NotEnoughMemoryError
from core.api.model_info import LoadFacts
from core.api.stats import CacheBytes, RequestStats
from core.client.client import EngineClient
from desktop.app import App
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.compare.compare_dialog import CompareDialog, SideView
from desktop.engine.engine_status import Phase
from desktop.store.folders import SAMPLE_PICTURES, Folders
from desktop.store.settings_file import SettingsFile
from tests.desktop.conftest import Loop, OpenApp, until
from tests.desktop.fake_engine import Asked, FakeEngine, model_info
from tests.desktop.hands import drop, ended, files, find, press, said, send, settle, words
from tests.desktop.models.test_library import library

A, B, OWN = "/models/a", "/models/b", "/models/own"


async def opened(open_app: OpenApp, engine: FakeEngine) -> App:
    """With the model OWN, and a comparison of A and B ready to start."""
    for path in (A, B, OWN):
        load = LoadFacts(weight_bytes=2_500_000_000)
        engine.models[path] = model_info(name=path[-1], path=path, load=load)
    app = await open_app()
    await library(app)
    await until(lambda: app.parts.engine.model)
    for path in (A, B, OWN):
        app.parts.settings.set_model_path(path)
    app.parts.settings.load()
    await until(lambda: is_back(app))
    choose(app, A, B)
    find(app, QPlainTextEdit, "compareMessage").setPlainText("Why is the sky blue?")
    return app


@pytest.fixture
def app(qloop: Loop, open_app: OpenApp, engine: FakeEngine) -> App:
    return qloop.run(opened(open_app, engine))


def choose(app: App, first: str, second: str) -> None:
    app.window.actions_by_name["actionCompare"].trigger()
    for name, path in (("compareFirst", first), ("compareSecond", second)):
        choice = find(app, QComboBox, name)
        choice.setCurrentIndex(choice.findData(path))
        assert choice.currentData() == path


def is_back(app: App) -> bool:
    model = app.parts.engine.model
    return app.parts.engine.status.phase is Phase.READY and bool(model and model.path == OWN)


async def asked(engine: FakeEngine, count: int) -> Asked:
    await until(lambda: len(engine.asked) == count)
    return engine.asked[-1]


def shown(app: App, name: str) -> list[str]:
    """The label of both sides."""
    dialog = find(app, CompareDialog, "compareDialog")
    labels = (side.findChild(QLabel, name) for side in dialog.sides)
    return [label.text() for label in labels if label is not None]


def texts(app: App) -> list[str]:
    sides = app.window.findChildren(SideView)
    return [body.text() for side in sides for body in side.findChildren(MarkdownBody)]


async def test_two_models_answer_one_after_the_other(
    app: App, engine: FakeEngine, folders: Folders
) -> None:
    loads = len(engine.loads)
    press(app, "compareStart")
    first = await asked(engine, 1)
    assert engine.loads[-1].path == A and words(app, "compareStop") == "Stop"
    assert app.parts.engine.status.words() == "Comparing two models"
    # The computer stays awake, and closing asks.
    assert app.parts.work.busy
    content = first.conversation.messages[-1]
    assert content.role == "user" and content.content == (TextPart(text="Why is the sky blue?"),)
    used = CacheBytes(kv=200_000_000, checkpoints=50_000_000)
    stats = RequestStats(prompt_tokens=10, ttft_s=0.4, decode_tokens_per_s=12.0, bytes=used)
    first.say("**Scattering.**")
    first.finish(stats=stats)
    second = await asked(engine, 2)
    assert engine.loads[-1].path == B
    second.say("The *air*.")
    second.finish()
    await until(lambda: is_back(app))
    await until(lambda: not app.parts.work.busy)
    assert [each.path for each in engine.loads[loads:]] == [A, B, OWN]
    assert texts(app) == ["**Scattering.**", "The *air*."]
    assert shown(app, "compareName") == [
        f"{name} \N{MIDDLE DOT} float32 \N{MIDDLE DOT} cpu" for name in "ab"
    ]
    assert "first token 0.4 s" in shown(app, "numbersText")[0]
    assert "12 tokens/s" in shown(app, "numbersText")[0]
    assert shown(app, "compareMemory")[0] == (
        "Memory: 2.5 GB for the weights, 250.0 MB for the context"
    )
    # Nothing of it stays, and the chosen model was never another one.
    assert app.parts.chat_list.chats == [] and app.parts.transcript.rows == []
    await until(lambda: engine.forgotten)
    assert set(engine.forgotten) == {("compare", str(folders.contexts))}
    assert app.parts.settings.kept_path == app.parts.settings.settings.model.path == OWN
    assert SettingsFile(folders.settings_file).load()[0].model.path == OWN


async def test_a_reply_is_kept_as_a_chat_with_its_model(app: App, engine: FakeEngine) -> None:
    composer = find(app, QPlainTextEdit, "composerText")
    composer.setPlainText("A draft")
    press(app, "compareStart")
    (await asked(engine, 1)).finish("Scattering.", stats=RequestStats(prompt_tokens=10, ttft_s=1))
    second = await asked(engine, 2)
    left, right = find(app, CompareDialog, "compareDialog").sides
    (keep,) = left.findChildren(QPushButton, "compareKeep")
    (later,) = right.findChildren(QPushButton, "compareKeep")
    assert keep.isVisible() and not later.isVisible()
    keep.click()
    keep.click()
    await until(lambda: app.parts.chat_list.chats)
    (chat,) = app.parts.chat_list.chats
    assert chat.title == "a: Why is the sky blue?" and keep.text() == "Kept as chat"
    reused = RequestStats(prompt_tokens=10, reused_tokens=9, ttft_s=0.1)
    second.finish("The air.", stats=reused)
    await until(lambda: is_back(app))
    assert "read before" not in shown(app, "compareMemory")[0]
    assert shown(app, "compareMemory")[1].endswith(
        "9 tokens were read before, which made this reply faster."
    )
    app.parts.chat.open(chat.id)
    await until(lambda: len(app.parts.transcript.rows) == 2)
    question, reply = (row.message for row in app.parts.transcript.rows)
    assert question.text == "Why is the sky blue?" and reply.text == "Scattering."
    assert reply.reply and reply.reply.model.startswith("a") and reply.reply.stats
    app.parts.chat.open(None)
    await until(lambda: composer.toPlainText() == "A draft")


async def test_deleting_everything_forgets_a_comparison(app: App, engine: FakeEngine) -> None:
    press(app, "compareStart")
    (await asked(engine, 1)).finish("Scattering.")
    await asked(engine, 2)
    app.parts.deletion.delete_everything()
    await until(lambda: is_back(app) and not app.window.findChildren(CompareDialog))
    assert not app.parts.compare.sides
    app.window.actions_by_name["actionCompare"].trigger()
    assert find(app, QPlainTextEdit, "compareMessage").toPlainText() == ""
    assert texts(app) == ["", ""]


async def test_L5_a_model_that_does_not_load_costs_its_own_side_only(
    app: App, engine: FakeEngine, folders: Folders
) -> None:
    engine.models[A] = NotEnoughMemoryError("It needs 9 GB.")
    engine.keeps_model = False
    recent = app.parts.settings.settings.recent_models
    press(app, "compareStart")
    (await asked(engine, 1)).finish("Yes.")
    await until(lambda: is_back(app))
    assert shown(app, "compareEnding") == ["Not enough memory. It needs 9 GB.", ""]
    assert texts(app) == ["", "Yes."]
    assert app.parts.settings.kept_path == OWN
    assert app.parts.settings.settings.recent_models == recent
    assert SettingsFile(folders.settings_file).load()[0].model.path == OWN


async def test_L5_a_model_chosen_meanwhile_that_does_not_load_leaves_the_one_before(
    app: App, engine: FakeEngine
) -> None:
    engine.models["/models/c"] = NotEnoughMemoryError("It needs 9 GB.")
    press(app, "compareStart")
    first = await asked(engine, 1)
    app.parts.settings.set_model_path("/models/c")
    app.parts.settings.load()
    first.finish("Yes.")
    (await asked(engine, 2)).finish("No.")
    await until(lambda: is_back(app))
    await settle()
    assert "c was not loaded" in words(app, "toastText")
    assert engine.model is engine.models[OWN] and app.parts.settings.kept_path == OWN


async def test_a_model_before_that_no_longer_loads_leaves_none_of_the_compared(
    app: App, engine: FakeEngine
) -> None:
    press(app, "compareStart")
    (await asked(engine, 1)).finish("Yes.")
    engine.models[OWN] = NotEnoughMemoryError("It needs 9 GB.")
    (await asked(engine, 2)).finish("No.")
    await until(lambda: app.parts.engine.status.phase is Phase.EMPTY)
    assert engine.model is None and "own was not loaded" in app.parts.engine.status.trouble


async def test_closing_waymark_amid_forgets_what_was_cached(
    app: App, engine: FakeEngine, folders: Folders
) -> None:
    press(app, "compareStart")
    first = await asked(engine, 1)
    # Deleting something meanwhile deletes nothing of the comparison's before its end.
    app.parts.deletion.send_pending()
    assert engine.forgotten == []
    app.window.close_asked.emit()
    await app.gone.wait()
    assert first.cancelled and set(engine.forgotten) == {("compare", str(folders.contexts))}


async def test_a_picture_of_the_screen_does_not_stop_it(app: App, engine: FakeEngine) -> None:
    press(app, "compareStart")
    first = await asked(engine, 1)
    dialog = find(app, CompareDialog, "compareDialog")
    dialog.hide()
    dialog.show()
    assert not first.cancelled
    dialog.reject()
    assert first.cancelled


async def test_an_engine_that_dies_costs_one_reply(app: App, engine: FakeEngine) -> None:
    press(app, "compareStart")
    (await asked(engine, 1)).say("The sky")
    await engine.die()
    (await asked(engine, 2)).finish("Yes.")
    await until(lambda: is_back(app))
    assert texts(app) == ["The sky", "Yes."]
    assert "crashed" in shown(app, "compareEnding")[0]
    assert app.parts.settings.kept_path == OWN


@pytest.mark.parametrize("loading", [True, False])
async def test_closing_the_page_stops_both(app: App, engine: FakeEngine, loading: bool) -> None:
    loads = len(engine.loads)
    if loading:
        engine.may_load.clear()
    press(app, "compareStart")
    await until(lambda: len(engine.loads) > loads)
    if not loading:
        (await asked(engine, 1)).say("The sky")
        await until(lambda: texts(app)[0])
    press(app, "compareClose")
    await until(lambda: is_back(app))
    assert B not in [each.path for each in engine.loads]
    choose(app, A, B)
    assert shown(app, "compareEnding") == ["Stopped.", "Stopped."]
    assert texts(app) == ["" if loading else "The sky", ""]


async def test_a_chat_waits_for_its_own_model(app: App, engine: FakeEngine) -> None:
    engine.models[B] = model_info(name="b", path=B)
    press(app, "compareStart")
    first = await asked(engine, 1)
    find(app, QPlainTextEdit, "composerText").setPlainText("And the sea?")
    app.window.page.composer.text.send_asked.emit()
    await until(lambda: app.parts.chat.running)
    running = app.parts.chat.running
    await until(lambda: running and running.status.startswith("Waiting for the model"))
    # A model chosen meanwhile is loaded afterwards, in place of the one before.
    app.parts.settings.set_model_path(B)
    app.parts.settings.load()
    first.finish("Blue.")
    (await asked(engine, 2)).finish("Blue too.")
    reply = await asked(engine, 3)
    assert reply.command.chat != "compare" and engine.model is engine.models[B]
    reply.finish("Blue as well.")
    row = await ended(app)
    assert said(row) == "Blue as well."
    assert row.row.message.reply is not None and row.row.message.reply.model == "b"


async def test_the_last_question_is_offered_with_its_picture(app: App, engine: FakeEngine) -> None:
    press(app, "compareClose")
    find(app, QPlainTextEdit, "compareMessage").clear()
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    draft = app.parts.chat.draft
    await until(lambda: draft.pictures and draft.complete)
    (await send(app, engine, "What is this?")).finish("Shapes.")
    await ended(app)
    engine.models[A] = model_info(name="a", path=A, vision=False)
    choose(app, A, B)
    assert find(app, QPlainTextEdit, "compareMessage").toPlainText() == "What is this?"
    assert words(app, "compareFiles") == "With 1 picture"
    press(app, "compareStart")
    second = await asked(engine, 2)
    assert "a can't see them" in shown(app, "compareEnding")[0]
    message = second.conversation.messages[-1]
    assert message.role == "user" and isinstance(message.content[0], ImagePart)
    second.finish("Shapes.")
    await until(lambda: is_back(app))
    press(app, "compareDropFiles")
    assert words(app, "compareFiles") == ""


@pytest.mark.parametrize("kept", [True, False])
async def test_M2_a_comparison_holds_its_picture_until_it_is_kept_or_waymark_is_closed(
    app: App, engine: FakeEngine, kept: bool
) -> None:
    press(app, "compareClose")
    find(app, QPlainTextEdit, "compareMessage").clear()
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    draft = app.parts.chat.draft
    await until(lambda: draft.pictures and draft.complete)
    path = app.parts.pictures.path_of(draft.ready_pictures()[0])
    (await send(app, engine, "What is this?")).finish("Shapes.")
    await ended(app)
    choose(app, A, B)
    press(app, "compareStart")
    (await asked(engine, 2)).finish("Shapes.")
    last = await asked(engine, 3)
    first = app.parts.chat_list.chats[0].id
    app.parts.chats.delete(first)
    await until(lambda: app.parts.chats.trash.chats)
    await app.parts.deletion.purge()
    assert path.exists()
    last.finish("Shapes.")
    await until(lambda: is_back(app))
    if kept:
        app.parts.compare.keep(app.parts.compare.sides[1])
        await until(lambda: app.parts.chat_list.chats)
    app.window.close()
    await app.gone.wait()
    assert path.exists() == kept


async def test_one_model_twice_is_loaded_once(app: App, engine: FakeEngine) -> None:
    choose(app, OWN, OWN)
    loads = len(engine.loads)
    press(app, "compareStart")
    (await asked(engine, 1)).finish("One.")
    (await asked(engine, 2)).finish("Two.")
    await until(lambda: is_back(app))
    assert len(engine.loads) == loads and texts(app) == ["One.", "Two."]


async def test_without_a_model_none_is_loaded_afterwards(app: App, engine: FakeEngine) -> None:
    app.parts.engine.unload()
    await until(lambda: app.parts.engine.status.phase is Phase.EMPTY)
    engine.tell(engine.state)
    press(app, "compareStart")
    (await asked(engine, 1)).finish("One.")
    (await asked(engine, 2)).finish("Two.")
    await until(lambda: app.parts.engine.status.phase is Phase.EMPTY)
    assert engine.loads[-1].path == B


@pytest.mark.slow
async def test_the_demo_model_answers_twice(open_app: OpenApp, folders: Folders) -> None:
    engine = EngineClient(folders.engine_log)
    app = await open_app(engine)
    await library(app)
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    choose(app, "", "")
    find(app, QPlainTextEdit, "compareMessage").setPlainText("What can you do?")
    press(app, "compareStart")
    await until(lambda: app.parts.engine.status.phase is Phase.READY and all(texts(app)))
    assert shown(app, "compareEnding") == ["", ""]
    assert all("first token" in each for each in shown(app, "numbersText"))
    assert all("for the weights" in each for each in shown(app, "compareMemory"))
