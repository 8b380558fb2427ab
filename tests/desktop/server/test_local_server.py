from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QDialog,
    QLineEdit,
    QPlainTextEdit,
    QSpinBox,
    QWidget,
)

from core.api.stats import RequestStats
from core.client.child import Child
from core.client.client import EngineClient
from core.gguf.library import FoundModel
from core.server.access import digest_of
from core.server.messages import FROM_SERVER, RequestSeen
from core.server.relay import ServerNews
from desktop.app import App
from desktop.engine.engine_status import Phase
from desktop.server import server as server_module
from desktop.server.connect_box import Connection, snippets
from desktop.server.server import MOST_CONTENTS, Stage
from desktop.server.server_page import RequestList, cells
from desktop.store.folders import Folders
from desktop.store.settings_file import SettingsFile
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info
from tests.desktop.hands import ended, find, press, settle, type_in, words
from tests.desktop.window.test_small_window import cut

HELLO: list[Any] = [{"role": "user", "content": "What is in the picture?"}]


async def switched_on(app: App) -> str:
    """Returns the key."""
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    app.window.actions_by_name["actionServer"].trigger()
    port = find(app, QSpinBox, "serverPort")
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    port.setValue(number)
    find(app, QAbstractButton, "serverOn").setChecked(True)
    await until(lambda: app.parts.server.status.stage is Stage.ON)
    return words(app, "serverKey")


def address(app: App) -> str:
    return words(app, "serverAddress")


async def in_thread(ask: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, ask)


def client(app: App, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=address(app), api_key=key, max_retries=0, timeout=60)


async def asked(app: App, key: str, messages: list[Any], model: str = "any", **fields: Any) -> Any:
    def ask() -> Any:
        with client(app, key) as connection:
            create: Any = connection.chat.completions.create
            return create(model=model, messages=messages, **fields)

    return await in_thread(ask)


async def refused(answer: Awaitable[Any]) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as caught:
        await answer
    return caught.value


async def test_A1_a_program_and_the_window_share_one_engine_and_its_cache(
    open_app: OpenApp, folders: Folders
) -> None:
    app = await open_app(EngineClient(folders.engine_log))
    key = await switched_on(app)
    first = await asked(app, key, HELLO, max_tokens=8, temperature=0)
    text = first.choices[0].message.content
    model = app.parts.engine.model
    assert model is not None and first.model == model.name and first.timings["cache_n"] == 0
    # The same question in the window finds what the program has had read, and the same reply.
    type_in(app, HELLO[0]["content"])
    app.parts.settings.settings = app.parts.settings.settings.model_copy(
        update={
            "sampling": app.parts.settings.settings.sampling.model_copy(
                update={"temperature": 0.0, "max_tokens": 8}
            )
        }
    )
    app.window.page.composer.text.send_asked.emit()
    row = await ended(app)
    reply = row.row.message.reply
    assert reply is not None and reply.stats is not None
    assert reply.stats.reused_tokens > 0 and row.row.message.text == text
    # And the program's next turn, what both have had read.
    more = [
        *HELLO,
        {"role": "assistant", "content": text},
        {"role": "user", "content": "And what colour is it?"},
    ]
    second = await asked(app, key, more, max_tokens=8, temperature=0)
    assert second.timings["cache_n"] >= first.usage.prompt_tokens
    await until(lambda: [seen.state for seen in app.parts.server.requests.values()] == ["done"] * 2)
    listed = find(app, RequestList, "serverRequests")
    # The list follows at most every SHOW_EVERY_MS.
    await until(
        lambda: (
            (at := listed.topLevelItem(0)) is not None
            and at.text(4) == str(second.timings["prompt_n"])
            and at.text(2) == "Done"
        )
    )
    item = listed.topLevelItem(0)
    assert item is not None and listed.topLevelItemCount() == 2
    newest = [item.text(column) for column in range(7)]
    assert newest[0].startswith("OpenAI") and newest[1:3] == ["/v1/chat/completions", "Done"]
    assert int(newest[3]) == second.timings["cache_n"]
    assert int(newest[4]) == second.timings["prompt_n"]
    assert HELLO[0]["content"] not in repr(app.parts.server.requests)


async def test_A4_it_is_off_until_switched_on_and_the_key_is_shown_once(
    app: App, folders: Folders
) -> None:
    assert app.parts.server._server.pid is None
    key = await switched_on(app)
    assert len(key) >= 32
    press(app, "serverCopyKey")
    assert QGuiApplication.clipboard().text() == key
    QGuiApplication.clipboard().clear()
    stored, _ = SettingsFile(folders.settings_file).load()
    assert stored.server.key == digest_of(key)
    assert key not in folders.settings_file.read_text("utf-8")
    page = find(app, QDialog, "localServerDialog")
    press(app, "localServerClose")
    assert not page.isVisible()
    app.window.actions_by_name["actionServer"].trigger()
    assert key not in words(app, "serverKey")
    find(app, QDialog, "localServerDialog").resize(620, 700)
    await settle()
    assert cut(find(app, QWidget, "serverAccess")) == []
    assert (await refused(asked(app, "another key", HELLO))).status_code == 401
    await until(lambda: [seen.status for seen in app.parts.server.requests.values()] == [401])
    press(app, "serverRenewKey")
    renewed = words(app, "serverKey")
    await until(lambda: app.parts.server.status.stage is Stage.ON)
    assert (await refused(asked(app, key, HELLO))).status_code == 401
    models = await in_thread(lambda: client(app, renewed).models.list().data)
    assert [each.id for each in models] == ["stand-in"]
    find(app, QAbstractButton, "serverOn").setChecked(False)
    await until(lambda: app.parts.server._server.pid is None)
    with pytest.raises(openai.APIConnectionError):
        await asked(app, renewed, HELLO)


async def test_A4_other_computers_need_a_second_switch(app: App) -> None:
    await switched_on(app)
    assert words(app, "serverLanWarning") == ""
    find(app, QAbstractButton, "serverLan").setChecked(True)
    assert "encrypted" in words(app, "serverLanWarning")
    await until(lambda: app.parts.server.status.stage is Stage.ON)
    assert app.parts.server.settings.lan
    address = app.parts.server.status.address
    assert words(app, "serverAddress") == f"{address}/v1"
    find(app, QAbstractButton, "serverLan").setChecked(False)
    await until(lambda: app.parts.server.status.stage is Stage.ON)
    port = app.parts.server.settings.port
    assert words(app, "serverAddress") == f"http://127.0.0.1:{port}/v1"


async def test_A4_a_web_page_may_connect_once_its_address_is_entered(
    app: App, folders: Folders
) -> None:
    key = await switched_on(app)
    page = {"Origin": "https://page.example"}

    def status(**headers: str) -> int:
        with httpx2.Client(trust_env=False) as browser:
            return browser.get(f"{address(app)}/models", headers={**page, **headers}).status_code

    field = find(app, QLineEdit, "serverOrigins")
    keyed = {"Authorization": f"Bearer {key}"}
    assert field.text() == "" and await in_thread(lambda: status(**keyed)) == 403
    field.setText("HTTPS://Page.example:443/chat, nonsense app://notes")
    field.editingFinished.emit()
    assert field.text() == "https://page.example app://notes"
    await until(lambda: app.parts.server.status.stage is Stage.ON)
    assert await in_thread(lambda: status(**keyed)) == 200
    assert await in_thread(status) == 401
    stored, _ = SettingsFile(folders.settings_file).load()
    assert stored.server.origins == ("https://page.example", "app://notes")
    field.setText("")
    field.editingFinished.emit()
    await until(lambda: app.parts.server.status.stage is Stage.ON)
    assert await in_thread(lambda: status(**keyed)) == 403


async def test_A4_texts_of_requests_are_kept_only_while_that_is_switched_on(
    app: App, engine: FakeEngine, folders: Folders
) -> None:
    key, server = await switched_on(app), app.parts.server
    told, hear = list[object](), server._server._heard

    def listen(news: ServerNews) -> None:
        told.append(news)
        hear(news)

    server._server._heard = listen

    async def ask(secret: str) -> None:
        number = len(engine.asked)
        messages = [*HELLO, {"role": "assistant", "content": "<b>x</b>"},
                    {"role": "user", "content": secret}]  # fmt: skip
        running = asyncio.ensure_future(asked(app, key, messages))
        await until(lambda: len(engine.asked) > number)
        engine.asked[-1].say(f"I know {secret}.")
        engine.asked[-1].finish()
        await running
        states = {each.state for each in server.requests.values()}
        await until(
            lambda: {each.state for each in server.requests.values()} == {"done"}, str(states)
        )

    switch = find(app, QAbstractButton, "serverContentOn")
    view, listed = (
        find(app, QPlainTextEdit, "serverContent"),
        find(app, RequestList, "serverRequests"),
    )
    assert not switch.isChecked() and view.isHidden()
    await ask("walrus")
    assert not server.contents and "walrus" not in repr(told)
    switch.setChecked(True)
    for number in range(MOST_CONTENTS + 1):
        await ask(f"heron-{number}")
    await until(lambda: len(told) and f"heron-{MOST_CONTENTS}" in repr(told))
    assert len(server.contents) == MOST_CONTENTS
    assert not any("walrus" in text or "heron-0" in text for text in server.contents.values())
    await until(lambda: listed.topLevelItemCount() == MOST_CONTENTS + 2)
    newest = listed.topLevelItem(0)
    assert newest is not None
    listed.setCurrentItem(newest)
    said = f"heron-{MOST_CONTENTS}"
    assert view.isReadOnly() and view.toPlainText() == (
        f"[user] {HELLO[0]['content']}\n\n[assistant] <b>x</b>\n\n[user] {said}\n\n"
        f"[assistant] I know {said}."
    )
    server.contents[next(reversed(server.requests))] = "x" * 5_000
    server.listed.emit()
    assert [len(line) for line in view.toPlainText().split("\n")] == [2000, 2000, 1000]
    # Neither the settings nor a file, and nothing after it is switched off, or the server is.
    assert not any(
        b"heron" in each.read_bytes() for each in folders.data.rglob("*") if each.is_file()
    )
    switch.setChecked(False)
    assert not server.contents and view.toPlainText() == ""
    await ask("lapwing")
    switch.setChecked(True)
    await ask("plover")
    assert len(server.contents) == 1 and "lapwing" not in repr((server.contents, told))
    # Nor of a request that this ends.
    number = len(engine.asked)
    running = asyncio.ensure_future(asked(app, key, [{"role": "user", "content": "dunlin"}]))
    await until(lambda: len(engine.asked) > number)
    find(app, QAbstractButton, "serverOn").setChecked(False)
    with pytest.raises(openai.APIError):
        await running
    await until(lambda: "dunlin" in repr(told))
    assert not server.contents


async def test_a_port_that_is_taken_is_said_and_another_one_helps(app: App) -> None:
    await switched_on(app)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        find(app, QSpinBox, "serverPort").setValue(number)
        await until(lambda: app.parts.server.status.stage is Stage.FAILED)
        assert f"Port {number} can't be used" in words(app, "serverState")
    find(app, QAbstractButton, "serverOn").setChecked(False)
    find(app, QAbstractButton, "serverOn").setChecked(True)
    await until(lambda: app.parts.server.status.stage is Stage.ON)


async def test_A3_a_model_that_is_changed_ends_the_requests_to_it(
    app: App, engine: FakeEngine
) -> None:
    key = await switched_on(app)
    running = asyncio.ensure_future(refused(asked(app, key, HELLO)))
    await until(lambda: len(engine.asked) == 1)
    assert engine.asked[0].command.guest
    engine.may_load.clear()
    app.parts.settings.load()
    error = await running
    assert error.status_code == 503 and "changed or unloaded" in error.message
    assert engine.asked[0].cancelled
    error = await refused(asked(app, key, HELLO))
    assert error.status_code == 503 and "No model is loaded" in error.message
    engine.may_load.set()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    answered = asyncio.ensure_future(asked(app, key, HELLO))
    await until(lambda: len(engine.asked) == 2)
    engine.asked[1].finish("Shapes.")
    assert (await answered).choices[0].message.content == ""
    await engine.die()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)


async def test_the_page_says_why_contexts_are_not_kept_on_disk(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    key = await switched_on(app)

    async def answer(trouble: str | None) -> None:
        number = len(engine.asked)
        running = asyncio.ensure_future(asked(app, key, HELLO))
        await until(lambda: len(engine.asked) > number)
        stats = RequestStats(prompt_tokens=10, reply_tokens=2, disk_trouble=trouble)
        engine.asked[-1].finish("Shapes.", stats=stats)
        await running

    await answer("The disk is full.")
    await until(lambda: "The disk is full." in words(app, "serverDiskTrouble"))
    await answer(None)
    await until(lambda: words(app, "serverDiskTrouble") == "")


async def test_a_program_has_a_model_loaded_by_its_name_if_a_switch_allows_it(
    app: App, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await switched_on(app)

    async def find_models() -> list[FoundModel]:
        return [FoundModel(Path("/models/other"), "other", "")]

    monkeypatch.setattr(app.parts.server, "_find", find_models)

    async def answer(model: str) -> Any:
        number = len(engine.asked)
        running = asyncio.ensure_future(asked(app, key, HELLO, model=model))
        await until(lambda: len(engine.asked) > number)
        engine.asked[-1].finish("Shapes.")
        return await running

    assert (await answer("other")).model == "stand-in"
    loads = len(engine.loads)
    assert words(app, "serverLoadsWarning") == ""
    find(app, QAbstractButton, "serverLoads").setChecked(True)
    assert words(app, "serverLoadsWarning") != ""
    await until(lambda: app.parts.server.status.stage is Stage.ON)
    models = await in_thread(lambda: client(app, key).models.list().data)
    assert {each.id for each in models} >= {"stand-in", "other"}
    engine.model_to_load = model_info(name="other", path="/models/other")
    assert (await answer("other")).model == "other"
    assert [each.path for each in engine.loads[loads:]] == ["/models/other"]
    assert app.parts.settings.settings.model.path == "/models/other"
    assert (await answer("gpt-4")).model == "other"
    # The load of another one fails, and the request says why.
    engine.model_to_load = None
    error = await refused(asked(app, key, HELLO, model="demo"))
    assert "config.json is missing" in error.message
    assert (await answer("other")).model == "other"


async def test_texts_of_programs_that_can_not_be_deleted_are_reported(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: Path) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(server_module, "delete", fail)
    app.parts.server.forget()
    await until(lambda: app.parts.server.status.stage is Stage.FAILED)
    assert "replies.db could not be deleted: " in app.parts.server.status.words()
    await until(lambda: words(app, "toastText").startswith("Not everything could be deleted"))
    monkeypatch.undo()
    app.parts.server.forget()
    await until(lambda: app.parts.server.status.stage is Stage.OFF)


async def test_an_idle_model_sleeps_until_a_program_or_the_user_asks(
    app: App, engine: FakeEngine
) -> None:
    key = await switched_on(app)
    pid = app.parts.server._server.pid
    # Nothing wakes the window up for a model that may stay.
    assert not app.parts.server._idle.isActive()
    find(app, QSpinBox, "serverSleep").setValue(5)
    assert app.parts.server.status.stage is Stage.ON and app.parts.server._server.pid == pid
    engine.idle_s = 299.0
    server, status = app.parts.server, app.parts.engine
    loads = len(engine.loads)

    async def fall_asleep() -> None:
        engine.idle_s = 300.0
        server._sleep_if_idle()
        # The model goes a moment later.
        await until(lambda: status.status.asleep and engine.model is None)
        engine.idle_s = 0.0

    server._sleep_if_idle()
    await asyncio.sleep(0)
    assert not status.status.asleep
    await fall_asleep()
    models = await in_thread(lambda: client(app, key).models.list().data)
    assert [each.id for each in models] == ["stand-in"]
    running = asyncio.ensure_future(asked(app, key, HELLO))
    await until(lambda: len(engine.asked) == 1)
    engine.asked[0].finish("Shapes.")
    assert (await running).model == "stand-in" and len(engine.loads) == loads + 1
    await fall_asleep()
    type_in(app, "And now?")
    app.window.page.composer.text.send_asked.emit()
    await until(lambda: len(engine.asked) == 2)
    assert len(engine.loads) == loads + 2 and not engine.asked[1].command.guest


@pytest.mark.parametrize("stream", [False, True])
async def test_A3_a_window_that_is_closed_amid_a_request_ends_it(
    app: App, engine: FakeEngine, stream: bool
) -> None:
    key, url = await switched_on(app), address(app)

    def ask() -> tuple[int, str]:
        body = {"messages": HELLO, "stream": stream}
        headers = {"Authorization": f"Bearer {key}"}
        answer = httpx2.post(f"{url}/chat/completions", json=body, headers=headers, timeout=60)
        return answer.status_code, answer.text

    running = asyncio.ensure_future(in_thread(ask))
    await until(lambda: len(engine.asked) == 1)
    engine.asked[0].say("begun")
    await until(lambda: any(each.state == "writing" for each in app.parts.server.requests.values()))
    app.leave()
    status, text = await running
    assert status == (200 if stream else 503)
    assert "Waymark was closed" in text
    await app.gone.wait()
    assert app.parts.server._server.pid is None


async def test_it_is_on_again_after_a_restart_and_a_killed_process_is_said(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    key = await switched_on(app)
    app.leave()
    await app.gone.wait()
    app = await open_app(FakeEngine())
    await until(lambda: app.parts.server.status.stage is Stage.ON)
    app.window.actions_by_name["actionServer"].trigger()
    assert (await in_thread(lambda: client(app, key).models.list().data)) is not None
    process = app.parts.server._server._child._process
    assert process is not None
    process.kill()
    await until(lambda: app.parts.server.status.stage is Stage.FAILED)
    assert words(app, "serverState").startswith("The local server stopped")


async def test_a_server_that_can_not_start_is_not_called_the_engine(
    app: App, tmp_path: Path
) -> None:
    nowhere = Child([str(tmp_path / "nowhere")], FROM_SERVER, lambda _: None, lambda: None)
    app.parts.server._server._child = nowhere
    app.window.actions_by_name["actionServer"].trigger()
    find(app, QAbstractButton, "serverOn").setChecked(True)
    await until(lambda: app.parts.server.status.stage is Stage.FAILED)
    assert words(app, "serverState").startswith("The local server could not start. ")
    assert "engine" not in words(app, "serverState").lower()


async def test_an_interrupt_in_the_terminal_is_the_windows_to_handle(app: App) -> None:
    """Ctrl-C reaches the whole group of processes."""
    key = await switched_on(app)
    pid = app.parts.server._server.pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    for _ in range(3):
        assert await in_thread(lambda: client(app, key).models.list().data)
        await asyncio.sleep(0.2)
    assert app.parts.server._server.pid == pid


async def test_what_programs_sent_is_deleted_with_all_data_even_if_the_window_closes(
    app: App, folders: Folders
) -> None:
    replies = folders.data / "clients" / "replies.db"
    left = folders.data / "clients" / "pictures" / "aa" / ("a" * 64)
    for closes in (False, True):
        left.parent.mkdir(parents=True, exist_ok=True)
        for file in (replies, left):
            file.write_bytes(b"sent")
        app.parts.deletion.everything_gone.emit()
        if closes:
            await app.parts.close()
        await until(lambda: not replies.exists() and not left.exists())


async def test_what_is_sent_while_all_is_deleted_is_deleted_next(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = app.parts.server
    server._forgetting = True
    monkeypatch.setattr(
        "desktop.server.server.Pictures", lambda _: setattr(server, "_forgetting", True)
    )
    await server._delete_unwanted()
    assert server._forgetting


async def test_what_to_paste_names_address_model_and_key(app: App) -> None:
    key = await switched_on(app)
    program, text = (
        find(app, QComboBox, "serverProgram"),
        find(app, QPlainTextEdit, "serverSnippet"),
    )
    found = {}
    for index in range(program.count()):
        program.setCurrentIndex(index)
        found[program.currentText()] = text.toPlainText()
    port = str(app.parts.server.settings.port)
    assert all(port in each and "stand-in" in each for each in found.values())
    zed = json.loads(found["Zed"])["language_models"]["openai_compatible"]["Waymark"]
    assert zed["available_models"][0]["max_tokens"] == 4096
    assert f"ANTHROPIC_BASE_URL=http://127.0.0.1:{port}\n" in found["Claude Code"]
    assert key in found["Claude Code"] and key in found["Continue"]
    press(app, "localServerClose")
    program.setCurrentIndex(0)
    app.window.actions_by_name["actionServer"].trigger()
    program.setCurrentIndex(list(found).index("Claude Code"))
    assert key not in text.toPlainText() and "YOUR-KEY" in text.toPlainText()


def test_a_models_name_is_written_in_the_programs_own_syntax() -> None:
    name = 'Qwen "3" \U0001f600\u00e9\'s'
    texts = {
        each.program: each.text for each in snippets(Connection("http://a", "key", name, 9, False))
    }
    assert tomllib.loads(texts["Codex"])["model"] == name
    # YAML's strings in quotes are JSON's.
    (line,) = (line for line in texts["Continue"].split("\n") if "model: " in line)
    assert json.loads(line.partition(": ")[2]) == name and "\U0001f600" in line
    assert json.loads(texts["Zed"])["language_models"]
    (line,) = (line for line in texts["Claude Code"].split("\n") if "MODEL" in line)
    assert shlex.split(line)[1] == f"ANTHROPIC_MODEL={name}"


def test_a_request_is_described_without_what_was_said() -> None:
    seen = RequestSeen(number=1, client="<b>x</b>" * 50, path="/v1/messages", state="refused",
                       status=429)  # fmt: skip
    shown = cells(seen)
    assert len(shown[0]) < 80 and shown[2] == "Refused: too many wait" and shown[3:] == ("",) * 4
