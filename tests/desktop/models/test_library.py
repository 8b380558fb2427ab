from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtCore import QFileSystemWatcher, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QDialog, QLineEdit, QMenu
from pytestqt.qtbot import QtBot

from core.api.errors import EngineDiedError, MissingFileError
from core.client.client import EngineClient
from core.gguf.library import FoundModel
from core.library.client import LibraryClient
from core.library.messages import Described, Device, ModelFacts, Way
from core.library.places import OURS
from core.loading.registry import FAMILIES
from desktop.app import App
from desktop.engine.engine_status import Phase
from desktop.models import library as library_module
from desktop.models.fits import Memory
from desktop.models.library import Place
from desktop.models.library_details import MemoryTable
from desktop.models.library_dialog import LibraryDialog
from desktop.models.moving import Removal, TrashError, plan_move, plan_removal, trash
from desktop.numbers import family_name
from desktop.store.folders import DEMO_MODEL, Folders
from desktop.widgets.two_lines import NOTE_ROLE
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info
from tests.desktop.hands import child, find, press, words
from tests.desktop.loop_watch import LoopWatch
from tests.gguf.files import write

GB = 10**9
Heard = Callable[[Described | Device], None]


class FakeLibrary:
    def __init__(self, heard: Heard, make: Callable[[str], ModelFacts]) -> None:
        self.heard, self.make = heard, make
        self.asked: list[Sequence[str]] = []
        self.move: Callable[..., Any] | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def describe(self, paths: Sequence[str], *, again: bool = False) -> None:
        self.asked.append(paths)
        for start in range(0, len(paths), 100):
            await self.go_on.wait()
            models = tuple(self.make(path) for path in paths[start : start + 100])
            self.heard(Described(models=models))
            await asyncio.sleep(0)


def facts(path: str, num_bytes: int = 2 * GB, **changed: object) -> ModelFacts:
    ways = tuple(
        Way.model_validate(
            {
                "precision": name,
                "num_bytes": num_bytes // part,
                "kv_bytes_per_token": 10_000,
                "step_s": 0.1,
                "prompt_s": 2.0,
            }
        )
        for name, part in (("bfloat16", 1), ("int8", 2), ("int4", 3))
    )
    values: dict[str, object] = {"path": path, "digest": path, "size": 1_000, "ways": ways}
    values["family"] = "qwen3_5"
    values |= {"parameters": GB, "published": "bfloat16", "context": 40_000, "automatic": 3}
    return ModelFacts.model_validate({**values, **changed})


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(1_000))
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without models of other programs, and with a trash of its own."""
    made = tmp_path / "home"
    (made / ".local" / "share").mkdir(parents=True)
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("XDG_DATA_HOME", str(made / ".local" / "share"))
    return made


def opened(app: App) -> LibraryDialog:
    app.window.actions_by_name["actionModels"].trigger()
    return find(app, LibraryDialog, "libraryDialog")


def names(dialog: LibraryDialog) -> list[str]:
    rows = (dialog.list.index(row) for row in range(dialog.list.rowCount()))
    return [str(row.data()) for row in rows]


def note(dialog: LibraryDialog, row: int) -> str:
    return str(dialog.list.index(row).data(NOTE_ROLE))


async def library(app: App, make: Callable[[str], ModelFacts] = facts) -> FakeLibrary:
    controller = app.parts.library
    fake = FakeLibrary(controller._hear, make)
    controller.client = cast(LibraryClient, fake)
    return fake


@pytest.mark.slow
async def test_a_model_of_this_computer_is_described_loaded_and_ejected(
    open_app: OpenApp, folders: Folders, home: Path
) -> None:
    ours = folders.data / "models" / "Org" / "Tiny"
    shutil.copytree(DEMO_MODEL, ours)
    shutil.copytree(DEMO_MODEL, home / ".lmstudio" / "models" / "o" / "Copy")
    app = await open_app(EngineClient(folders.engine_log))
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    dialog = opened(app)
    await until(lambda: names(dialog) == ["Tiny"] and not app.parts.library.scanning)
    assert words(app, "libraryWords") == "1 model, 7.5 MB on disk."
    assert "fits" in note(dialog, 0) and "tokens/s" in note(dialog, 0)
    assert words(app, "libraryFacts").startswith("Qwen3.5, 3.8M parameters, published in bfloat16")
    assert words(app, "libraryFit").startswith("Fits in bfloat16: ")
    assert "LM Studio: " in words(app, "libraryPlaces")
    press(app, "libraryLoad")
    await until(lambda: app.parts.settings.kept_path == str(ours))
    await until(lambda: find(app, QDialog, "libraryDialog").isVisible())
    await until(lambda: words(app, "libraryEject"))
    press(app, "libraryEject")
    await until(lambda: app.parts.engine.status.phase is Phase.EMPTY)
    assert words(app, "libraryLoad") and words(app, "emptyReason")
    press(app, "libraryLoad")
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    assert words(app, "emptyReason") == ""


async def test_what_is_found_is_judged_by_the_memory_and_the_users_settings(
    open_app: OpenApp, folders: Folders, home: Path
) -> None:
    ours = folders.data / "models"
    for name in ("Big", "Broken", "Small"):
        model(ours / "Org" / name)

    def make(path: str) -> ModelFacts:
        if path.endswith("Broken"):
            return ModelFacts(path=path, trouble=MissingFileError("No weights.").info())
        return facts(path, 10**15 if path.endswith("Big") else GB)

    app = await open_app()
    await library(app, make)
    dialog = opened(app)
    await until(lambda: names(dialog) == ["Big", "Broken", "Small"])
    await until(lambda: not app.parts.library.scanning)
    assert note(dialog, 0).endswith("doesn't fit")
    assert note(dialog, 1) == "A model file is missing"
    assert "fits" in note(dialog, 2) and note(dialog, 2).endswith("about 10 tokens/s")
    index = dialog.list.index(1)
    dialog.view.setCurrentIndex(index)
    assert dialog.view.visualRect(index).height() == dialog.view.sizeHintForIndex(index).height()
    assert words(app, "libraryFacts") == "A model file is missing. No weights."
    assert not dialog.details.load.isEnabled()
    find(app, QLineEdit, "librarySearch").setText("sma")
    assert names(dialog) == ["Small"]
    assert words(app, "libraryName") == "Small"
    find(app, QLineEdit, "librarySearch").setText("nothing")
    assert "No model has these words" in words(app, "libraryFacts")


async def test_a_model_is_renamed_and_its_settings_are_remembered(
    open_app: OpenApp, folders: Folders, home: Path
) -> None:
    path = str(model(folders.data / "models" / "Org" / "Name"))
    app = await open_app()
    await library(app)
    dialog = opened(app)
    await until(lambda: names(dialog) == ["Name"])
    press(app, "libraryRename")
    editor = child(dialog.view, QLineEdit)
    editor.setText(" Mine  & <b>yours</b> ")
    app.parts.library.changed.emit()
    QTest.keyClick(editor, Qt.Key.Key_Return)
    await until(lambda: names(dialog) == ["Mine & <b>yours</b>"])
    assert words(app, "libraryName") == "Mine & <b>yours</b>"
    settings = app.parts.settings
    settings.set_model_path(path)
    changed = settings.settings.model.model_copy(update={"precision": "int4"})
    settings._put(settings.settings.model_copy(update={"model": changed, "thinking": False}))
    settings.set_model_path("")
    changed = settings.settings.model.model_copy(update={"precision": "auto"})
    settings._put(settings.settings.model_copy(update={"model": changed, "thinking": None}))
    settings.set_model_path(path)
    assert (settings.settings.model.precision, settings.settings.thinking) == ("int4", False)
    settings.set_model_path("")
    assert (settings.settings.model.precision, settings.settings.thinking) == ("auto", None)
    settings.set_name(path, "")
    await until(lambda: names(dialog) == ["Name"])


async def test_L3_a_model_is_moved_to_the_trash_after_its_size_and_owner_were_named(
    open_app: OpenApp, folders: Folders, home: Path
) -> None:
    path = model(home / ".lmstudio" / "models" / "Org" / "Name")
    app = await open_app()
    await library(app)
    dialog = opened(app)
    await until(lambda: names(dialog) == ["Name"] and not app.parts.library.scanning)
    QTest.keyClick(dialog.view, Qt.Key.Key_Delete)
    await until(lambda: words(app, "deleteModelWords"))
    assert words(app, "deleteModelWords").endswith(
        "It frees 1.0 KB. It belongs to LM Studio, which will no longer find it."
    )
    press(app, "deleteModelNo")
    assert path.is_dir()
    press(app, "libraryDelete")
    await until(lambda: words(app, "deleteModelWords"))
    press(app, "deleteModelYes")
    await until(lambda: names(dialog) == [])
    trashed = home / ".local" / "share" / "Trash" / "files" / "Name"
    assert not path.exists() and (trashed / "model.safetensors").is_file()
    assert "No models in these folders" in words(app, "libraryFacts")


async def test_a_failing_process_and_a_vanished_model_are_said(
    open_app: OpenApp, folders: Folders, home: Path
) -> None:
    path = model(folders.data / "models" / "Org" / "Name")
    app = await open_app()
    fake = await library(app)

    async def fail(paths: Sequence[str], *, again: bool = False) -> None:
        raise EngineDiedError("The process that reads models ended.")

    fake.describe = fail  # type: ignore[method-assign]
    dialog = opened(app)
    await until(lambda: words(app, "libraryWords").startswith("The engine stopped"))
    assert note(dialog, 0) == "not read yet"
    shutil.rmtree(path)
    press(app, "libraryDelete")
    await until(lambda: "No such file" in words(app, "libraryWords"))


async def test_folders_are_added_watched_and_dropped(
    open_app: OpenApp, folders: Folders, home: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    model(mine / "One")
    app = await open_app()
    fake = await library(app)
    dialog = opened(app)
    await until(lambda: not app.parts.library.scanning)
    app.parts.library.add_folder(str(mine))
    await until(lambda: names(dialog) == ["One"])
    model(mine / "Two")
    await until(lambda: names(dialog) == ["One", "Two"])
    # While the list is closed, nothing is read.
    await until(lambda: not app.parts.library.scanning)
    dialog.close()
    asked = len(fake.asked)
    shutil.rmtree(mine / "Two")
    await asyncio.sleep(0.2)
    assert len(fake.asked) == asked
    opened(app)
    await until(lambda: names(dialog) == ["One"])
    press(app, "libraryFolders")
    menu = find(app, QMenu, "libraryFoldersMenu")
    (drop,) = [each for each in menu.actions() if "Stop looking" in each.text()]
    drop.trigger()
    menu.close()
    await until(lambda: names(dialog) == [])


async def test_models_opened_by_their_paths_are_listed(
    open_app: OpenApp,
    folders: Folders,
    engine: FakeEngine,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library_module, "SETTLED_MS", 1)
    mine = model(folders.data / "models" / "Org" / "Mine")
    theirs, later = (model(tmp_path / "elsewhere" / name) for name in ("Theirs", "Later"))
    file = tmp_path / "elsewhere" / "File.gguf"
    file.write_bytes(b"GGUF")
    engine.models = {str(each): model_info(path=str(each)) for each in (later, mine)}
    app = await open_app()
    await library(app)
    settings, shown = app.parts.settings, app.window.page.header.model
    for path in (theirs, file, tmp_path / "gone", mine):
        settings.set_model_path(str(path))
    settings.load()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    dialog = opened(app)
    await until(lambda: names(dialog) == ["File", "Mine", "Theirs"])
    settings.set_model_path(str(later))
    settings.load()
    await until(lambda: names(dialog) == ["File", "Later", "Mine", "Theirs"])
    shown.show_offered(await app.parts.library.find())
    offered = [each.text() for each in shown._offered.actions()]
    assert offered == [OURS, "Mine", "Other folders", "Later", "File", "Theirs"]


async def test_an_older_snapshot_opened_by_its_path_is_in_the_lists_once(
    app: App, engine: FakeEngine, home: Path
) -> None:
    repository = home / ".cache" / "huggingface" / "hub" / "models--Org--Cached"
    old, new = (model(repository / "snapshots" / name) for name in ("aa", "bb"))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("bb")
    model(home / "models" / "Added")
    same = {str(old): "same", str(new): "same"}
    await library(app, lambda path: facts(path, digest=same.get(path, "")))
    app.parts.settings.set_model_path(str(old))
    app.parts.settings.load()
    await until(lambda: app.parts.settings.kept_path == str(old))
    app.parts.library.add_folder(str(home / "models"))
    dialog = opened(app)
    await until(lambda: names(dialog) == ["Added", "Org/Cached"])
    current = dialog.current()
    assert current is not None and current.path == str(new) and current.has(str(old))
    shown = [each.path for each in await app.parts.library.find()]
    assert shown == [new, home / "models" / "Added"]


@pytest.mark.slow
async def test_H8_two_thousand_models_never_block_the_window(
    open_app: OpenApp, folders: Folders, home: Path
) -> None:
    ours = folders.data / "models"
    for number in range(2_000):
        model(ours / f"Org{number % 20}" / f"Model-{number}")
    app = await open_app()
    await library(app)
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    with LoopWatch() as watch:
        watch.doing = "surveying"
        dialog = opened(app)
        await until(lambda: dialog.list.rowCount() == 2_000 and not app.parts.library.scanning)
        watch.doing = "scrolling"
        for row in range(0, 2_000, 100):
            dialog.view.setCurrentIndex(dialog.list.index(row))
            await asyncio.sleep(0)
        watch.doing = "searching"
        for text in ("m", "mo", "model-19", ""):
            dialog.search.setText(text)
            await asyncio.sleep(0)
        watch.doing = "changing settings"
        app.parts.settings.set_name(dialog.list.shown[0].path, "Z")
        await asyncio.sleep(0.1)


async def test_a_folder_that_does_not_answer_costs_itself_alone(
    open_app: OpenApp, folders: Folders, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(folders.data / "models" / "Org" / "Mine")
    share = tmp_path / "share"
    model(share / "Theirs")
    answers, calls = threading.Event(), list[Path]()

    def hang(folder: Path) -> Place:
        calls.append(folder)
        answers.wait()
        return added_folder(folder)

    added_folder = library_module._added_folder
    monkeypatch.setattr(library_module, "_added_folder", hang)
    monkeypatch.setattr(library_module, "FILE_LIMIT_S", 0.05)
    monkeypatch.setattr(library_module, "STILL_SILENT_S", 0.05)
    app = await open_app()
    await library(app)
    dialog = opened(app)
    controller = app.parts.library
    controller.add_folder(str(share))
    await until(lambda: "share does not answer" in words(app, "libraryWords"))
    await until(lambda: names(dialog) == ["Mine"] and not controller.scanning)
    for _ in range(3):
        assert [each.name for each in await controller.find()] == ["Mine"]
    # It holds one thread, however often it is looked into.
    assert calls == [share]
    answers.set()
    controller.survey()
    await until(lambda: names(dialog) == ["Mine", "Theirs"])


async def test_L3_a_model_that_loads_or_is_loaded_can_not_be_deleted(
    open_app: OpenApp, folders: Folders, home: Path
) -> None:
    path = model(folders.data / "models" / "Org" / "Name-2.5")
    copy = model(home / ".lmstudio" / "models" / "Org" / "Name-2.5")
    engine = FakeEngine()
    app = await open_app(engine)
    await library(app, lambda each: facts(each, digest="same"))
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    dialog = opened(app)
    await until(lambda: names(dialog) == ["Name-2.5"] and not app.parts.library.scanning)
    assert dialog.list.shown[0].path == str(path) and dialog.list.shown[0].has(str(copy))
    press(app, "libraryDelete")
    await until(lambda: words(app, "deleteModelWords"))
    engine.may_load.clear()
    engine.model_to_load = model_info(path=str(copy))
    app.window.dialogs.load_path(str(copy))
    await until(lambda: app.parts.engine.status.phase is Phase.LOADING)
    assert words(app, "deleteModelWords") == ""
    assert words(app, "libraryWords").startswith("Loading the model")
    assert not dialog.details.delete.isEnabled() and not dialog.details.load.isEnabled()
    engine.may_load.set()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    assert words(app, "libraryEject") and not dialog.details.delete.isEnabled()
    # Enter doesn't load it once more.
    choices = app.parts.settings.choices
    QTest.keyClick(dialog.view, Qt.Key.Key_Return)
    assert app.parts.settings.choices == choices
    engine.model_to_load, engine.keeps_model = None, False
    app.window.dialogs.load_path("")
    await until(lambda: words(app, "libraryWords").startswith(engine.load_error.title))


async def test_a_folder_with_dots_in_its_name_is_shown(
    open_app: OpenApp, folders: Folders, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = model(folders.data / "models" / "Org" / "Name-2.5")
    file = write(folders.data / "models" / "Other.gguf")
    revealed: list[Path] = []
    monkeypatch.setattr("desktop.widgets.dialogs.open_folder", revealed.append)
    app = await open_app()
    await library(app)
    dialog = opened(app)
    await until(lambda: len(names(dialog)) == 2)
    for row in range(2):
        dialog.view.setCurrentIndex(dialog.list.index(row))
        press(app, "libraryReveal")
    assert revealed == [path, file.parent]


def test_cells_of_the_memory_table_are_spoken_as_they_are_shown(qtbot: QtBot) -> None:
    table = MemoryTable()
    qtbot.addWidget(table)
    for context in (40_000, 4_096):
        table.show_facts(facts("a", context=context), Memory(GB, GB))
    spoken = [cell.accessibleName() for cell in table._cells.values() if not cell.isHidden()]
    assert [each.partition(":")[0] for each in spoken if each] == [
        f"{name} with 4,096 tokens" for name in ("bfloat16", "int8", "int4")
    ]


def test_every_family_has_the_name_that_its_makers_write() -> None:
    for family in FAMILIES:
        assert family_name(family) != family


def test_L3_only_files_of_the_model_are_planned_for_deletion(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    for name in ("One-00001-of-00002", "One-00002-of-00002", "One-Q8_0", "mmproj-One"):
        folder.mkdir(exist_ok=True)
        write(folder / f"{name}.gguf")

    def planned(path: Path, program: str = "") -> Removal:
        return plan_removal(FoundModel(path, "n", program))

    split = planned(folder / "One-00001-of-00002.gguf")
    assert [each.name for each in split.paths] == [
        "One-00001-of-00002.gguf", "One-00002-of-00002.gguf",
    ]  # fmt: skip
    for name in ("One-00001-of-00002", "One-00002-of-00002"):
        (folder / f"{name}.gguf").unlink()
    alone = planned(folder / "One-Q8_0.gguf")
    assert {each.name for each in alone.paths} == {"One-Q8_0.gguf", "mmproj-One.gguf"}
    mixed = model(tmp_path / "mixed")
    (mixed / "thesis.docx").touch()
    assert planned(mixed).paths == () and "other files" in planned(mixed).refused
    assert "ollama rm n" in planned(tmp_path / "blobs" / "sha256-a", "Ollama").refused
    assert planned(tmp_path / "gone").refused
    with pytest.raises(TrashError):
        trash(alone, lambda path: False)


def test_L3_a_repository_of_the_cache_goes_whole_or_only_the_file(tmp_path: Path) -> None:
    repository = tmp_path / "models--Org--N-GGUF"
    (repository / "blobs").mkdir(parents=True)
    snapshot = repository / "snapshots" / "aa"
    snapshot.mkdir(parents=True)
    for name in ("N-Q4_K_M", "N-Q8_0"):
        blob = write(repository / "blobs" / name)
        (snapshot / f"{name}.gguf").symlink_to(blob)
    found = FoundModel(snapshot / "N-Q8_0.gguf", "n", "Hugging Face")
    one = plan_removal(found)
    assert {each.name for each in one.paths} == {"N-Q8_0.gguf", "N-Q8_0"}
    (snapshot / "N-Q4_K_M.gguf").unlink()
    assert plan_removal(found).paths == (repository,)


async def test_no_folder_is_watched_before_the_list_is_opened(app: App) -> None:
    assert app.parts.library.findChildren(QFileSystemWatcher) == []


def test_L3_other_models_of_a_repository_and_files_outside_it_stay(tmp_path: Path) -> None:
    repository = tmp_path / "models--Org--N"
    (repository / "blobs").mkdir(parents=True)
    snapshot = model(repository / "snapshots" / "aa")
    (snapshot / "N.gguf").symlink_to(write(repository / "blobs" / "n"))
    file = plan_removal(FoundModel(snapshot / "N.gguf", "n", "Hugging Face"))
    assert set(file.paths) == {snapshot / "N.gguf", repository / "blobs" / "n"}
    folder = plan_removal(FoundModel(snapshot, "n", "Hugging Face"))
    assert folder.paths == () and "other files" in folder.refused
    (snapshot / "N.gguf").unlink()
    (snapshot / "N.gguf").symlink_to(write(tmp_path / "mine.gguf"))
    file = plan_removal(FoundModel(snapshot / "N.gguf", "n", "Hugging Face"))
    assert file.paths == (snapshot / "N.gguf",)


def test_L3_a_cache_folder_of_the_user_is_no_part_of_a_model(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    (path / ".cache" / "huggingface").mkdir(parents=True)
    found = FoundModel(path, "m", "")
    assert plan_removal(found).paths == (path,)
    (path / ".cache" / "browser").mkdir()
    assert plan_removal(found).paths == ()


async def test_a_model_moves_to_another_folder_and_keeps_its_settings(
    open_app: OpenApp,
    folders: Folders,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, target = model(folders.data / "models" / "Org" / "Name"), tmp_path / "disk"
    target.mkdir()
    app = await open_app()
    client = app.parts.library.client
    (await library(app)).move = client.move
    app.parts.settings.set_name(str(before), "Mine")
    dialog = opened(app)
    await until(lambda: names(dialog) == ["Mine"] and not app.parts.library.scanning)

    async def chosen(*_: object) -> str:
        return str(target)

    monkeypatch.setattr("desktop.models.library_dialog.dialogs.choose_folder", chosen)
    app.parts.moves.path = str(before)
    app.parts.moves.changed.emit()
    assert not find(app, QAbstractButton, "libraryLoad").isEnabled()
    app.parts.moves.path = ""
    app.parts.moves.changed.emit()
    press(app, "libraryMove")
    now = target / "Org" / "Name"
    await until(lambda: not app.parts.moves.path and not before.exists())
    assert (now / "model.safetensors").read_bytes() == bytes(1_000)
    await until(lambda: names(dialog) == ["Mine"] and dialog.list.shown[0].path == str(now))
    assert app.parts.settings.settings.library.folders == (str(target),)
    # To where it is, and of another program.
    press(app, "libraryMove")
    await until(lambda: "there already" in words(app, "libraryWords"))
    found = FoundModel(now, "n", "LM Studio")
    app.parts.moves.begin(found, home)
    await until(lambda: "LM Studio" in words(app, "libraryWords"))
    assert now.is_dir()


def test_a_vision_tower_goes_along_and_stays_for_the_other_model(tmp_path: Path) -> None:
    folder, target = tmp_path / "ours" / "Org" / "Name", tmp_path / "disk"
    folder.mkdir(parents=True)
    for name in ("M-Q4_K_M.gguf", "M-Q8_0.gguf", "mmproj-M.gguf"):
        write(folder / name)
    place = FoundModel(folder / "M-Q4_K_M.gguf", "M", OURS)
    move = plan_move(place, [tmp_path / "ours"], target)
    tower = "Org/Name/mmproj-M.gguf"
    assert (move.files, move.kept) == ((tower, "Org/Name/M-Q4_K_M.gguf"), (tower,))
    (folder / "M-Q8_0.gguf").unlink()
    assert plan_move(place, [tmp_path / "ours"], target) == move.model_copy(update={"kept": ()})
