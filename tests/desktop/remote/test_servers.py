"""Chats that run on a server, in the real window: only after the user has said so, and shown."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QListWidget, QMenu

from core.api.reply_format import ReplyFormat
from core.remote.messages import Place
from desktop.app import App
from desktop.chat import chat
from desktop.store.folders import Folders
from desktop.store.tables.records import ReplyState
from tests.client.test_secrets import MemoryKeyring
from tests.desktop.conftest import Loop, OpenApp, ready_app, until
from tests.desktop.fake_engine import FakeEngine, png
from tests.desktop.hands import ended, find, press, press_key, settle, type_in, words
from tests.remote.fake_server import EVENTS, Answer, FakeServer, as_json, delta, event, streamed

KEY = "sk-0123456789"
USAGE = {
    "usage": {
        "prompt_tokens": 40,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 30},
    },
    "choices": [],
    "model": "m",
}
ANSWER = streamed(delta("A red "), delta("star.", reason="stop"), USAGE)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        server.on("/v1/models", as_json({"data": [{"id": "m", "owned_by": "vllm"}]}))
        server.chat(ANSWER)
        yield server


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    before, ring = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def host(server: FakeServer) -> str:
    return f"127.0.0.1:{server.port}"


async def add(app: App, server: FakeServer, key: str = "") -> None:
    """Add a server by the dialog."""
    app.window.page.header.model.servers_asked.emit()
    find(app, QLineEdit, "serverAddressField").setText(host(server))
    find(app, QLineEdit, "serverKeyField").setText(key)
    press(app, "serverConnectButton")
    await until(lambda: find(app, QAbstractButton, "serverConnectButton").isEnabled())


def choose(app: App, server: FakeServer) -> None:
    """Choose the server's model in the model menu."""
    app.window.page.header.model.menu_shown()
    menu = find(app, QMenu, "modelsRemote")
    next(each for each in menu.actions() if each.text() == "m").trigger()


def chats_sent(server: FakeServer) -> list[Any]:
    return [each.body for each in server.asked if each.method == "POST"]


async def send(app: App, text: str) -> None:
    type_in(app, text)
    rows = len(app.parts.transcript.rows)
    press_key(app, Qt.Key.Key_Return)
    await until(lambda: len(app.parts.transcript.rows) > rows)


async def here(app: App, engine: FakeEngine, text: str) -> None:
    """Have the engine answer a message."""
    asked = len(engine.asked)
    await send(app, text)
    await until(lambda: len(engine.asked) > asked)
    engine.asked[-1].say("Yes.")
    engine.asked[-1].finish()
    await ended(app)


@pytest.fixture
def app(qloop: Loop, open_app: OpenApp) -> App:
    return qloop.run(ready_app(open_app))


async def amid_a_reply(open_app: OpenApp, server: FakeServer) -> App:
    """A chat that runs on the server, whose reply hangs after its first words."""
    app = await ready_app(open_app)
    await add(app, server)
    app.parts.chat.run_at(Place(address=server.address, model="m"))
    server.chat(Answer([event(delta("A red "))], kind=EVENTS, end="hang"), ANSWER)
    await send(app, "What is it?")
    await until(lambda: app.parts.transcript.rows[-1].text == "A red ")
    return app


async def test_a_server_is_added_and_a_new_chat_runs_there(
    engine: FakeEngine, server: FakeServer, ring: MemoryKeyring, folders: Folders, app: App
) -> None:
    assert words(app, "chatPlace") == ""
    await add(app, server, KEY)
    said = find(app, QLabel, "serversSaid").text()
    assert (
        said == f"{host(server)} (vLLM) answers with 1 model. Its key is in the system's keyring."
    )
    models = find(app, QListWidget, "serverModels")
    assert [models.item(place).text() for place in range(2)] == [
        f"{host(server)} (vLLM), 1 model",
        "    m",
    ]
    press(app, "serverUse")
    await until(lambda: words(app, "chatPlace") == f"Runs on {host(server)}")
    await send(app, "What is it?")
    await ended(app)
    (row,) = [each for each in app.parts.transcript.rows if each.message.is_reply]
    assert row.text == "A red star." and engine.asked == []
    (body,) = chats_sent(server)
    assert body["messages"] == [{"role": "user", "content": "What is it?"}]
    assert {each.headers["authorization"] for each in server.asked} == {f"Bearer {KEY}"}
    assert words(app, "modelName") == "m"
    assert words(app, "contextHero") == "75 % cached there"
    assert words(app, "contextReused") == "30" and words(app, "contextEvaluated") == "10"
    assert words(app, "contextCheckpoints") == "not known here"
    assert host(server) in words(app, "contextElsewhere")
    # The key is in the keyring, and nowhere else.
    assert list(ring.kept.values()) == [KEY]
    written = [each for each in folders.data.rglob("*") if each.is_file()]
    assert not [each for each in written if KEY.encode() in each.read_bytes()]
    # Idle work is the engine's.
    assert engine.settled == [] and engine.read == []


async def test_where_a_chat_runs_is_shown_in_a_narrow_window(
    engine: FakeEngine, server: FakeServer, app: App
) -> None:
    await add(app, server)
    app.parts.chat.run_at(Place(address=server.address, model="m"))
    app.window.resize(app.window.minimumSize())
    await settle()
    assert words(app, "chatPlace") == f"Runs on {host(server)}"
    # The title makes room for it.
    assert words(app, "chatTitle") == ""


async def test_A5_a_local_chat_is_sent_only_after_a_yes_and_once_for_each_chat(
    engine: FakeEngine, server: FakeServer, app: App
) -> None:
    await add(app, server)
    await here(app, engine, "Secret")
    choose(app, server)
    assert "Send this chat to" in words(app, "sendThereWords")
    press(app, "sendThereNo")
    assert words(app, "chatPlace") == ""
    await here(app, engine, "Still here")
    assert chats_sent(server) == []
    choose(app, server)
    press(app, "sendThereYes")
    await until(lambda: words(app, "chatPlace") != "")
    await send(app, "Go on")
    await ended(app)
    (body,) = chats_sent(server)
    said = [each["content"] for each in body["messages"]]
    assert said == ["Secret", "Yes.", "Still here", "Yes.", "Go on"]
    # Back to this computer without a question, and there again without another.
    app.window.page.run_at(None)
    await until(lambda: words(app, "chatPlace") == "")
    await here(app, engine, "Back")
    texts = [each.text for each in engine.asked[-1].conversation.messages if each.role != "user"]
    assert texts == ["Yes.", "Yes.", "A red star."]
    choose(app, server)
    assert words(app, "sendThereWords") == ""
    await until(lambda: words(app, "chatPlace") != "")
    # Another chat is asked about again.
    app.window.page.run_at(None)
    app.parts.chat.open(None)
    await here(app, engine, "Other")
    choose(app, server)
    assert words(app, "sendThereWords") != ""


async def test_A5_a_question_goes_with_its_chat(
    engine: FakeEngine, server: FakeServer, app: App
) -> None:
    await add(app, server)
    await here(app, engine, "First")
    choose(app, server)
    app.parts.chat.open(None)
    await until(lambda: words(app, "sendThereWords") == "")
    find(app, QAbstractButton, "sendThereYes").click()
    assert app.parts.chat.place is None and app.parts.remote.new_chats is None


async def test_A5_what_arrived_is_kept_and_the_chat_goes_on_here_or_there(
    engine: FakeEngine, server: FakeServer, app: App
) -> None:
    await add(app, server)
    app.parts.chat.run_at(Place(address=server.address, model="m"))
    server.chat(Answer([event(delta("A red "))], kind=EVENTS), ANSWER)
    await send(app, "What is it?")
    await ended(app)
    reply = app.parts.transcript.rows[-1].message
    assert reply.text == "A red " and reply.reply is not None
    assert reply.reply.state is ReplyState.STOPPED and reply.reply.error is not None
    assert reply.reply.error.name == "RemoteStalledError"
    assert not app.parts.transcript.rows[-1].offers_continue
    # There again.
    app.parts.chat.regenerate(reply.id)
    await until(lambda: app.parts.transcript.rows[-1].id != reply.id)
    await ended(app)
    assert app.parts.transcript.rows[-1].text == "A red star." and len(chats_sent(server)) == 2
    # And here.
    app.window.page.run_at(None)
    await until(lambda: app.parts.chat.place is None)
    await here(app, engine, "Go on")
    assert len(chats_sent(server)) == 2


async def test_A5_the_process_that_connects_may_die(
    open_app: OpenApp, engine: FakeEngine, server: FakeServer
) -> None:
    app = await amid_a_reply(open_app, server)
    pid = app.parts.remote._client.pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    await ended(app)
    reply = app.parts.transcript.rows[-1].message
    assert reply.text == "A red " and reply.reply is not None and reply.reply.error is not None
    assert reply.reply.error.title == "The connection to the server ended"
    await send(app, "Again")
    await ended(app)
    assert app.parts.transcript.rows[-1].text == "A red star."


async def test_a_server_is_read_again_with_the_key_that_it_had(
    engine: FakeEngine, server: FakeServer, app: App
) -> None:
    await add(app, server, KEY)
    server.on("/v1/models", as_json({"data": [{"id": "m"}, {"id": "n"}]}))
    await add(app, server)
    (known,) = app.parts.remote.settings.servers
    assert known.keyed and [each.name for each in known.models] == ["m", "n"]
    assert {each.headers["authorization"] for each in server.asked} == {f"Bearer {KEY}"}


async def test_a_reply_is_stopped_edited_and_keeps_its_branches(
    open_app: OpenApp, engine: FakeEngine, server: FakeServer
) -> None:
    app = await amid_a_reply(open_app, server)
    app.parts.chat.stop()
    await ended(app)
    stopped = app.parts.transcript.rows[-1].message
    assert stopped.text == "A red " and stopped.reply is not None
    assert stopped.reply.state is ReplyState.STOPPED and stopped.reply.error is None
    question = app.parts.transcript.rows[0].id
    app.parts.chat.edit(question, "What colour?")
    await until(lambda: app.parts.transcript.rows[0].id != question)
    await ended(app)
    assert [each.text for each in app.parts.transcript.rows] == ["What colour?", "A red star."]
    app.parts.chat.choose(question)
    await until(lambda: app.parts.transcript.rows[0].id == question)
    assert app.parts.transcript.rows[-1].text == "A red "


async def test_pictures_and_a_format_are_sent(
    engine: FakeEngine, server: FakeServer, tmp_path: Path, app: App
) -> None:
    await add(app, server)
    app.parts.chat.run_at(Place(address=server.address, model="m"))
    picture = tmp_path / "star.png"
    picture.write_bytes(png())
    app.window.page.composer.add_files([picture])
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    app.parts.chat.ask_for(ReplyFormat(kind="json"))
    await send(app, "What is it?")
    await ended(app)
    (body,) = chats_sent(server)
    image, text = body["messages"][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert text["text"] == "What is it?" and body["response_format"] == {"type": "json_object"}


async def test_without_a_keyring_the_key_is_asked_for_in_the_next_session(
    open_app: OpenApp, engine: FakeEngine, server: FakeServer, folders: Folders
) -> None:
    app = await ready_app(open_app)
    await add(app, server, KEY)
    assert "kept until you quit" in find(app, QLabel, "serversSaid").text()
    assert "stays on this computer" in words(app, "emptyWords")
    press(app, "serverUse")
    said = f"Your messages are sent to {host(server)}, where m\u00a0answers."
    assert words(app, "emptyWords").split("\n")[1] == said
    app.leave()
    await app.gone.wait()
    stored = json.loads(folders.settings_file.read_text("utf-8"))
    assert stored["remote"]["new_chats"] == {"address": server.address, "model": "m"}
    again = await open_app(FakeEngine())
    assert words(again, "chatPlace") == f"Runs on {host(server)}"
    await send(again, "What is it?")
    await ended(again)
    reply = again.parts.transcript.rows[-1].message.reply
    assert reply is not None and reply.error is not None
    assert reply.error.title == "A key is needed" and chats_sent(server) == []
    assert find(again, QLineEdit, "serverAddressField").text() == server.address
    find(again, QLineEdit, "serverKeyField").setText(KEY)
    press(again, "serverConnectButton")
    await until(lambda: find(again, QAbstractButton, "serverConnectButton").isEnabled())
    again.parts.chat.regenerate(again.parts.transcript.rows[-1].id)
    await until(lambda: len(chats_sent(server)) == 1)
    await ended(again)
    assert again.parts.transcript.rows[-1].text == "A red star."


async def test_A5_a_removed_server_or_a_forbidden_network_sends_nothing(
    engine: FakeEngine, server: FakeServer, app: App
) -> None:
    await add(app, server)
    app.parts.chat.run_at(Place(address=server.address, model="m"))
    await send(app, "What is it?")
    await ended(app)
    network = app.parts.settings.settings.network
    app.parts.settings.put(network=network.model_copy(update={"allowed": False}))
    await send(app, "And now?")
    await ended(app)
    app.parts.settings.put(network=network)
    app.parts.remote.remove(server.address)
    await send(app, "And then?")
    await ended(app)
    errors = [each.message.reply.error for each in app.parts.transcript.rows if each.message.reply]
    assert [each.title if each else "" for each in errors] == [
        "", "The network is forbidden", "The server can't be reached",
    ]  # fmt: skip
    assert len(chats_sent(server)) == 1 and engine.asked == []
    # Still shown as what it is, until the user chooses another place.
    assert words(app, "chatPlace") == f"Runs on {host(server)}"


async def test_A5_forbidding_the_network_ends_a_reply_from_a_server(
    engine: FakeEngine, server: FakeServer, app: App
) -> None:
    await add(app, server)
    app.parts.chat.run_at(Place(address=server.address, model="m"))
    server.chat(Answer([event(delta("A red "))], kind=EVENTS, end="hang"))
    await send(app, "What is it?")
    await until(lambda: app.parts.transcript.rows[-1].text == "A red ")
    network = app.parts.settings.settings.network
    app.parts.settings.put(network=network.model_copy(update={"allowed": False}))
    await ended(app)
    reply = app.parts.transcript.rows[-1].message
    assert reply.text == "A red " and reply.reply is not None
    assert reply.reply.state is ReplyState.STOPPED
    await until(lambda: app.parts.remote._client.pid is None)


async def test_a_document_too_long_for_the_loaded_model_is_sent_to_a_server(
    engine: FakeEngine, server: FakeServer, monkeypatch: pytest.MonkeyPatch, app: App
) -> None:
    await add(app, server)
    app.parts.chat.run_at(Place(address=server.address, model="m"))
    monkeypatch.setattr(chat, "not_sendable", lambda _, model: "Too long." if model else "")
    await send(app, "What is it?")
    await ended(app)
    assert len(chats_sent(server)) == 1


@pytest.mark.parametrize(
    ("typed", "key", "warned"),
    [
        ("http://gpu-box", "", True),
        ("HTTP://gpu-box", "", True),
        ("gpu-box:8000", "", True),
        ("gpu-box", KEY, True),
        ("g", "", False),
        ("localhost:8000", KEY, False),
        ("api.example.com:443", KEY, False),
    ],
)
async def test_a_connection_that_others_can_read_is_named_before_it_is_made(
    app: App, typed: str, key: str, warned: bool, engine: FakeEngine
) -> None:
    app.window.page.header.model.servers_asked.emit()
    find(app, QLineEdit, "serverAddressField").setText(typed)
    find(app, QLineEdit, "serverKeyField").setText(key)
    assert ("Not encrypted" in find(app, QLabel, "serversSaid").text()) is warned
