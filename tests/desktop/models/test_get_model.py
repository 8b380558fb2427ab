from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QDialog, QLineEdit, QListWidget

from core.client.client import EngineClient
from core.downloads import jobs
from core.downloads.messages import Connection, Plan, RemoteFile
from core.library.messages import Device, Speed
from desktop.app import App
from desktop.engine.engine_status import Phase
from desktop.models.downloads import ShownDownload, Stage, catalogue
from desktop.models.fits import Fit, Memory, describe_fit, fit_of, needs
from desktop.store.folders import DEMO_MODEL, Folders
from desktop.store.settings import AppSettings, NetworkSettings
from desktop.store.settings_file import SettingsFile
from tests.client.test_secrets import MemoryKeyring, backend
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import find, press, settle, words
from tests.downloads.fake_hub import COMMIT, FakeHub, FakeRepository

FILES = {path.name: path.read_bytes() for path in DEMO_MODEL.iterdir()}
GB = 10**9
__all__ = ["backend"]


@pytest.fixture
def hub(folders: Folders) -> Iterator[FakeHub]:
    gguf = {"gguf": {"architecture": "llama", "total": 1_000}, "config": {}}
    with FakeHub({
        "Org/Tiny-Vision": FakeRepository(dict(FILES), config={"model_type": "qwen3_5"}),
        "Org/Tiny-GGUF": FakeRepository({"T-Q4_K_M.gguf": bytes(600), "T-BF16.gguf": bytes(2_000)},
                                        more=gguf),
        "Org/Bad": FakeRepository({"aux.gguf": bytes(600)}, more=gguf),
    }) as hub:  # fmt: skip
        network = NetworkSettings(hub=hub.address)
        SettingsFile(folders.settings_file).save(AppSettings(network=network))
        yield hub


def ask(app: App, text: str) -> None:
    app.window.actions_by_name["actionGetModel"].trigger()
    field = find(app, QLineEdit, "modelSearch")
    field.setText(text)
    QTest.keyClick(field, Qt.Key.Key_Return)


def shown(app: App) -> ShownDownload:
    (download,) = app.parts.downloads.shown.values()
    return download


def connects(app: App) -> bool:
    return app.parts.downloads._client.pid is not None


@pytest.mark.slow
async def test_a_model_is_found_downloaded_and_loaded(
    open_app: OpenApp, folders: Folders, hub: FakeHub
) -> None:
    app = await open_app(EngineClient(folders.engine_log))
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    ask(app, "tiny")
    results = find(app, QListWidget, "modelResults")
    await until(lambda: results.count() == 2)
    assert "2 models" in words(app, "modelSearchWords")
    results.itemClicked.emit(results.item(0))
    await until(lambda: words(app, "modelDetailsName") == "Org/Tiny-Vision")
    assert "licence: apache-2.0" in words(app, "modelDetailsFacts")
    press(app, "modelDownload")
    await until(lambda: app.parts.downloads.shown and shown(app).stage is Stage.COMPLETE)
    assert words(app, "downloadWords").startswith("Complete: ")
    press(app, "downloadLoad")
    model = folders.data / "models" / "Org" / "Tiny-Vision"
    await until(lambda: app.parts.settings.kept_path == str(model))
    assert {path.name for path in model.iterdir()} == FILES.keys()
    # It is offered like the models of other programs, and its row can be hidden.
    app.window.page.header.model.search_asked.emit()
    offered = app.window.page.header.model._offered
    await until(lambda: "Tiny-Vision" in [each.text() for each in offered.actions()])
    press(app, "downloadLeave")
    await until(lambda: not app.parts.downloads.shown)
    assert model.is_dir()


async def test_the_file_that_fits_is_preselected(hub: FakeHub, app: App) -> None:
    ask(app, "https://huggingface.co/Org/Tiny-GGUF/tree/main")
    choice = find(app, QComboBox, "modelDetailsChoice")
    await until(lambda: choice.count() == 2)
    assert choice.currentText() == "Q4_K_M, 600 B"
    assert words(app, "modelDetailsFiles") == "T-Q4_K_M.gguf"
    choice.setCurrentIndex(1)
    assert words(app, "modelDetailsFiles") == "T-BF16.gguf"


async def test_a_model_stays_shown_when_this_machines_speed_becomes_known(
    hub: FakeHub, app: App
) -> None:
    ask(app, "")
    results = find(app, QListWidget, "modelResults")
    assert not any("for this computer" in text for text in texts(results))
    app.parts.library._hear(Device(name="cpu"))
    results.setCurrentRow(1)
    name = str(results.item(1).data(Qt.ItemDataRole.UserRole))
    ask(app, "Org/Tiny-Vision")
    speed = Speed(precision="bfloat16", step_s=0.01, prompt_s=1.0)
    # Before and after the answer.
    app.parts.library._hear(Device(name="cpu", speeds=(speed,)))
    await until(lambda: words(app, "modelDetailsName") == "Org/Tiny-Vision")
    assert any("for this computer" in text for text in texts(results))
    app.parts.library._hear(Device(name="cpu", speeds=(speed, speed)))
    assert words(app, "modelDetailsName") == "Org/Tiny-Vision"
    assert results.currentItem().data(Qt.ItemDataRole.UserRole) == name


def texts(results: QListWidget) -> list[str]:
    return [results.item(row).text() for row in range(results.count())]


@pytest.mark.parametrize(("text", "said"), [
    ("Org/None", "There is no such model."), ("nothing like it", "No model that Waymark runs"),
    ("Org/Bad", "The model server's answer can't be used."),
])  # fmt: skip
async def test_what_is_not_there_is_said(hub: FakeHub, text: str, said: str, app: App) -> None:
    ask(app, text)
    await until(lambda: words(app, "modelSearchWords").startswith(said))
    ask(app, "")
    assert find(app, QListWidget, "modelResults").count() == len(catalogue())
    QTest.keyClick(find(app, QLineEdit, "modelSearch"), Qt.Key.Key_Escape)
    assert not find(app, QDialog, "getModelDialog").isVisible()


async def test_a_download_is_paused_found_again_resumed_and_deleted(
    open_app: OpenApp, folders: Folders, hub: FakeHub
) -> None:
    hub.pace_s = 0.005
    app = await open_app()
    ask(app, "Org/Tiny-Vision")
    await until(lambda: words(app, "modelDetailsName"))
    press(app, "modelDownload")
    await until(lambda: app.parts.downloads.shown and shown(app).done)
    assert words(app, "downloadTurn") == "Pause"
    press(app, "downloadTurn")
    await until(lambda: shown(app).stage is Stage.PAUSED)
    done = shown(app).done
    app.leave()
    await app.gone.wait()
    asked = len(hub.asked)
    app = await open_app()
    await until(lambda: app.parts.downloads.shown)
    app.window.actions_by_name["actionGetModel"].trigger()
    assert shown(app).stage is Stage.PAUSED and shown(app).done >= done > 0
    assert words(app, "downloadWords").startswith("Paused at ")
    assert len(hub.asked) == asked
    press(app, "downloadTurn")
    await until(lambda: shown(app).stage is Stage.RUNNING)
    press(app, "downloadTurn")
    await until(lambda: shown(app).stage is Stage.PAUSED)
    press(app, "downloadLeave")
    press(app, "deleteDownloadNo")
    assert shown(app).job.work.is_dir()
    press(app, "downloadLeave")
    press(app, "deleteDownloadYes")
    await until(lambda: not (folders.data / "models" / jobs.HIDDEN).exists())
    assert app.parts.downloads.shown == {}


async def test_a_download_that_is_paused_while_the_keyring_waits_stays_paused(
    hub: FakeHub, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def connection() -> Connection:
        asked.set()
        await answer.wait()
        return Connection(hub=hub.address)

    ask(app, "")
    monkeypatch.setattr(app.parts.downloads, "_connection", connection)
    app.parts.downloads.begin(plan())
    await asked.wait()
    press(app, "downloadTurn")
    assert shown(app).stage is Stage.PAUSED
    answer.set()
    await settle()
    assert shown(app).stage is Stage.PAUSED and not connects(app)


async def test_a_download_that_another_waymark_completed_is_complete(
    open_app: OpenApp, folders: Folders, hub: FakeHub
) -> None:
    hub.pace_s = 0.005
    app = await open_app()
    ask(app, "Org/Tiny-Vision")
    await until(lambda: words(app, "modelDetailsName"))
    press(app, "modelDownload")
    await until(lambda: app.parts.downloads.shown and shown(app).done)
    press(app, "downloadTurn")
    await until(lambda: shown(app).stage is Stage.PAUSED)
    job = shown(app).job
    jobs.discard(job)
    shutil.copytree(DEMO_MODEL, job.model)
    asked = len(hub.asked)
    press(app, "downloadTurn")
    await until(lambda: shown(app).stage is Stage.COMPLETE)
    assert len(hub.asked) == asked and not job.work.exists()


async def test_H9_nothing_connects_while_it_is_forbidden(
    folders: Folders, hub: FakeHub, app: App
) -> None:
    ask(app, "tiny")
    await until(lambda: "2 models" in words(app, "modelSearchWords"))
    assert connects(app)
    press(app, "networkToggle")
    find(app, QAbstractButton, "networkAllowed").setChecked(False)
    await until(lambda: not connects(app))
    asked = len(hub.asked)
    ask(app, "tiny")
    await until(lambda: words(app, "modelSearchWords").startswith("The network is forbidden"))
    app.parts.downloads.begin(plan())
    await until(lambda: app.parts.downloads.shown and shown(app).stage is Stage.STOPPED)
    assert "The network is forbidden" in words(app, "downloadWords")
    assert not connects(app) and len(hub.asked) == asked
    assert not SettingsFile(folders.settings_file).load()[0].network.allowed


async def test_a_folder_is_absolute_and_one_that_can_not_be_used_is_said_here(
    folders: Folders, hub: FakeHub, app: App
) -> None:
    ask(app, "Org/Tiny-GGUF")
    await until(lambda: words(app, "modelDetailsName") == "Org/Tiny-GGUF")
    (folders.data / "file").write_bytes(b"")
    for text, folder in (
        ("~/models", Path.home() / "models"), ("models", Path.home() / "models"),
        (str(folders.data / "file"), folders.data / "file"),
    ):  # fmt: skip
        press(app, "networkToggle")
        find(app, QLineEdit, "networkFolder").setText(text)
        find(app, QLineEdit, "networkFolder").editingFinished.emit()
        press(app, "networkToggle")
        assert app.parts.downloads.folder == folder
    press(app, "modelDownload")
    await until(lambda: "stored there" in words(app, "modelSearchWords"))


def type_token(app: App, token: str) -> None:
    press(app, "networkToggle")
    field = find(app, QLineEdit, "networkToken")
    field.setText(token)
    field.editingFinished.emit()
    assert field.text() == ""


def sent_token(hub: FakeHub) -> str | None:
    return hub.asked[-1].headers.get("authorization")


@pytest.mark.parametrize("keyring_there", [True, False])
async def test_the_token_is_in_the_keyring_or_asked_for_each_time(
    open_app: OpenApp, folders: Folders, hub: FakeHub, backend: MemoryKeyring, keyring_there: bool
) -> None:
    backend.locked = not keyring_there
    app = await open_app()
    ask(app, "Org/Tiny-GGUF")
    await until(lambda: words(app, "modelDetailsName"))
    assert sent_token(hub) is None and backend.reads == 0
    type_token(app, "hf_verysecret")
    place = "keyring" if keyring_there else "in memory"
    await until(lambda: place in find(app, QLineEdit, "networkToken").placeholderText())
    ask(app, "Org/Tiny-Vision")
    await until(lambda: sent_token(hub) == "Bearer hf_verysecret")
    app.leave()
    await app.gone.wait()
    files = [path for path in folders.data.rglob("*") if path.is_file()]
    assert not any(b"verysecret" in path.read_bytes() for path in files)
    app = await open_app()
    asked = len(hub.asked)
    ask(app, "Org/Tiny-Vision")
    await until(lambda: len(hub.asked) > asked)
    assert sent_token(hub) == ("Bearer hf_verysecret" if keyring_there else None)
    if keyring_there:
        press(app, "networkToggle")
        backend.locked = True
        await app.parts.downloads._keep_token("")
        # What can't be deleted is still said to be there.
        assert backend.kept and "keyring" in app.parts.downloads.token_place()
        backend.locked = False
        press(app, "networkForgetToken")
        await until(lambda: not app.parts.downloads.has_token)
        assert not backend.kept


async def test_H9_a_slow_keyring_changes_neither_the_hub_of_a_token_nor_the_switch(
    hub: FakeHub, backend: MemoryKeyring, app: App
) -> None:
    downloads = app.parts.downloads
    await downloads._keep_token("hf_verysecret")
    downloads._secrets._known.clear()
    backend.open.clear()
    network, reads = downloads.network, backend.reads
    connecting = asyncio.ensure_future(downloads._connection())
    await until(lambda: backend.reads > reads)
    downloads.change(network.model_copy(update={"hub": "https://mirror.test"}))
    backend.open.set()
    connection = await connecting
    assert (connection.hub, connection.token) == ("https://mirror.test", "")

    downloads._settings.put(network=network)
    downloads._secrets._known.clear()
    backend.open.clear()
    reads = backend.reads
    ask(app, "Org/Tiny-GGUF")
    await until(lambda: backend.reads > reads)
    downloads.change(network.model_copy(update={"allowed": False}))
    backend.open.set()
    await until(lambda: "Allow Waymark" in words(app, "modelSearchWords"))
    assert not hub.asked and not connects(app)


async def test_H9_the_window_connects_to_nothing_by_itself(
    open_app: OpenApp, folders: Folders, hub: FakeHub
) -> None:
    jobs.create(folders.data / "models", plan())
    app = await open_app()
    await until(lambda: app.parts.downloads.shown)
    app.window.actions_by_name["actionGetModel"].trigger()
    assert find(app, QListWidget, "modelResults").count() == len(catalogue())
    assert hub.asked == [] and not connects(app)
    app.window.page.empty.get_asked.emit()
    app.window.page.header.model.get_asked.emit()


def plan() -> Plan:
    file = RemoteFile(path="T-Q4_K_M.gguf", size=600, sha256="a" * 64)
    return Plan(repository="Org/T", commit=COMMIT, choice="Q4_K_M", opens=file.path, files=(file,))


@pytest.mark.parametrize(
    ("parameters", "gguf", "fit", "said"),
    [(0, 0, Fit.UNKNOWN, "not published"), (1, 0, Fit.FITS, "Fits in bfloat16"),
     (6, 0, Fit.FITS, "Fits in int8"), (10, 0, Fit.FITS, "Fits in int4"),
     (15, 0, Fit.TIGHT, "Tight: even in int4"), (27, 0, Fit.TOO_LARGE, "Doesn't fit"),
     (6, 5, Fit.FITS, "Fits as published"), (0, 5, Fit.FITS, "Fits as published"),
     (6, 12, Fit.FITS, "Fits in int8"), (16, 5, Fit.TIGHT, "even as published"),
     (27, 14, Fit.TOO_LARGE, "even as published")],
)  # fmt: skip
def test_whether_it_fits(parameters: int, gguf: int, fit: Fit, said: str) -> None:
    needed, available = needs(parameters * GB, gguf * GB), Memory(9 * GB, 16 * GB)
    assert fit_of(needed, available) is fit
    assert said in describe_fit(needed, available)


def test_the_words_of_a_download(tmp_path: Path) -> None:
    running = ShownDownload(jobs.create(tmp_path, plan()), Stage.RUNNING, 300)
    assert running.words() == "300 B of 600 B, no data is arriving"
    shutil.rmtree(tmp_path / jobs.HIDDEN)
    assert jobs.unfinished(tmp_path) == []
