from __future__ import annotations

import json

import pytest

from core.api.errors import EngineDiedError
from core.client.life import EngineState
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.store.folders import DEMO_MODEL, Folders
from desktop.window.window_parts import WindowParts
from tests.desktop.conftest import Loop, OpenParts, ready, until
from tests.desktop.fake_engine import FakeEngine, model_info


@pytest.fixture
def parts(qloop: Loop, open_parts: OpenParts) -> WindowParts:
    return qloop.run(ready(open_parts))


async def ask_for(parts: WindowParts, engine: FakeEngine, path: str) -> None:
    before = len(engine.loads)
    parts.settings.set_model_path(path)
    parts.settings.load()
    # A load that this one takes the place of was let go to be cancelled.
    engine.may_load.clear()
    await until(lambda: len(engine.loads) > before)


async def test_a_load_takes_the_place_of_one_that_goes_on(
    parts: WindowParts, engine: FakeEngine
) -> None:
    said: list[bool] = []
    await ask_for(parts, engine, "/models/a")
    parts.engine.changed.connect(lambda status: said.append(status.cancelled))
    await ask_for(parts, engine, "/models/b")
    assert parts.engine.status.phase is Phase.LOADING
    assert engine.load_cancels == 1
    engine.may_load.set()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    assert parts.settings.loaded.path == "/models/b"
    assert not parts.settings.needs_load
    assert not any(said)


async def test_cancelling_the_second_of_two_loads_leaves_the_model_before_both(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await ask_for(parts, engine, "/models/a")
    await ask_for(parts, engine, "/models/b")
    parts.engine.cancel_load()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    assert parts.engine.status.cancelled
    assert parts.settings.needs_load
    parts.settings.set_model_path("")
    assert parts.settings.loaded.path == str(DEMO_MODEL)
    assert not parts.settings.needs_load


async def test_a_model_that_comes_back_after_a_death_is_not_the_one_that_was_loading(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await ask_for(parts, engine, "/models/large")
    failed: list[object] = []
    parts.engine.load_failed.connect(failed.append)
    before, engine.model, engine.model_to_load = engine.model_to_load, None, None
    engine.load_error = EngineDiedError("The engine was killed.")
    engine.tell(EngineState.RESTARTING, "The engine was killed.")
    engine.may_load.set()
    await until(lambda: failed)
    engine.tell(EngineState.READY)
    engine.model = engine.model_to_load = before
    engine.tell(EngineState.READY)
    await until(lambda: parts.engine.status.phase is Phase.READY)
    assert parts.settings.loaded.path == str(DEMO_MODEL)
    # It can be asked for again.
    assert parts.settings.needs_load


@pytest.mark.parametrize("starts", [True, False])
async def test_a_model_chosen_while_the_engine_starts_is_the_one_that_is_loaded(
    open_parts: OpenParts, engine: FakeEngine, starts: bool
) -> None:
    engine.model_to_load = model_info(name="chosen")
    engine.starts = starts
    parts = await open_parts()
    parts.engine.changed.connect(lambda status: choose_at_start(parts, status))
    await until(lambda: parts.engine.status.phase in (Phase.READY, Phase.FAILED))
    engine.starts = True
    if not starts:
        parts.engine.restart()
        await until(lambda: parts.engine.status.phase is Phase.READY)
    assert [each.path for each in engine.loads] == ["/models/chosen"]
    assert not parts.settings.needs_load


def choose_at_start(parts: WindowParts, status: EngineStatus) -> None:
    if status.phase is Phase.STARTING and parts.settings.settings.model.path != "/models/chosen":
        parts.settings.set_model_path("/models/chosen")
        parts.settings.load()


async def test_L5_a_folder_that_fails_does_not_become_the_setting(
    parts: WindowParts, engine: FakeEngine, folders: Folders
) -> None:
    parts.settings.set_model_path("/models/good")
    parts.settings.load()
    await until(lambda: parts.settings.kept_path == "/models/good")
    good, engine.model_to_load = engine.model_to_load, None
    parts.settings.set_model_path("/models/broken")
    # A window that ends here begins with the model that loaded.
    assert stored_path(folders) == "/models/good"
    parts.settings.load()
    await until(lambda: parts.engine.status.trouble)
    assert parts.engine.status.trouble.startswith("broken was not loaded. A model file is missing")
    assert parts.engine.model is good
    assert parts.settings.settings.model.path == stored_path(folders) == "/models/good"
    assert parts.settings.loaded.path == "/models/good" and not parts.settings.needs_load
    # Nor does it come back in place of the model that stayed.
    engine.model_to_load = good
    engine.tell(EngineState.FAILED, "It fell.")
    parts.engine.restart()
    await until(lambda: len(engine.loads) == 4)
    assert engine.loads[-1].path == "/models/good"


async def test_L5_a_load_that_cost_the_model_before_leaves_it_chosen(
    parts: WindowParts, engine: FakeEngine, folders: Folders
) -> None:
    parts.settings.set_model_path("/models/broken")
    engine.model_to_load, engine.keeps_model = None, False
    parts.settings.load()
    await until(lambda: parts.engine.status.phase is Phase.EMPTY)
    assert parts.settings.settings.model.path == stored_path(folders) == ""


@pytest.mark.parametrize("ends", ["cancelled", "killed"])
async def test_L5_a_load_that_ended_for_another_reason_is_not_kept_either(
    parts: WindowParts, engine: FakeEngine, folders: Folders, ends: str
) -> None:
    await ask_for(parts, engine, "/models/large")
    if ends == "cancelled":
        parts.engine.cancel_load()
    else:
        engine.model_to_load, engine.load_error = None, EngineDiedError("It was killed.")
        engine.may_load.set()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    assert stored_path(folders) == ""
    # It is still in its field, to be asked for again.
    assert parts.settings.settings.model.path == "/models/large" and parts.settings.needs_load


def stored_path(folders: Folders) -> str:
    return str(json.loads(folders.settings_file.read_text())["model"]["path"])
