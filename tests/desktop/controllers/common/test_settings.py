"""Which settings the loaded model is said to have, in whatever order loads come and end."""

from __future__ import annotations

import pytest

from core.api.errors import EngineDiedError
from core.client.client import EngineState
from desktop.controllers.window_parts import WindowParts
from desktop.presentation.engine_status import EngineStatus, Phase
from desktop.store.folders import DEMO_MODEL
from tests.desktop.conftest import OpenParts, until
from tests.desktop.fake_engine import FakeEngine, model_info


async def loaded(open_parts: OpenParts) -> WindowParts:
    """The demo model is loaded."""
    parts = await open_parts()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    return parts


async def ask_for(parts: WindowParts, engine: FakeEngine, path: str) -> None:
    """Load another model, and stay in the middle of it."""
    before = len(engine.loads)
    parts.settings.set_model_path(path)
    parts.settings.load()
    # A load that this one takes the place of was let go to be cancelled.
    engine.may_load.clear()
    await until(lambda: len(engine.loads) > before)


async def test_a_load_takes_the_place_of_one_that_goes_on(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await loaded(open_parts)
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
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await loaded(open_parts)
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
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await loaded(open_parts)
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
