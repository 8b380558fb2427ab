from __future__ import annotations

import pytest

from core.client.life import EngineState
from desktop.engine.engine_status import Phase
from desktop.window.window_parts import WindowParts
from tests.desktop.conftest import OpenParts, until
from tests.desktop.fake_engine import FakeEngine


@pytest.mark.parametrize("state", [EngineState.STARTING, EngineState.RESTARTING])
async def test_an_engine_that_is_starting_is_not_started_again(
    parts: WindowParts, engine: FakeEngine, state: EngineState
) -> None:
    await until(lambda: parts.engine.model)
    said: list[str] = []
    parts.engine.said.connect(said.append)
    engine.tell(state)
    said.clear()
    parts.engine.restart()
    assert said == ["The engine is already starting."]
    assert len(engine.loads) == 1
    engine.tell(EngineState.READY)


@pytest.mark.parametrize("at_start", [True, False])
async def test_a_restart_while_a_model_loads_keeps_that_model(
    open_parts: OpenParts, engine: FakeEngine, at_start: bool
) -> None:
    """Twice: of the load that was asked for, and of the one that follows the restart."""
    if at_start:
        engine.may_load.clear()
    parts = await open_parts()
    failed: list[object] = []
    parts.engine.load_failed.connect(failed.append)
    if not at_start:
        await until(lambda: parts.engine.model)
        engine.may_load.clear()
        parts.settings.set_model_path("/models/b")
        parts.settings.load()
    asked = parts.settings.loaded
    for _ in range(2):
        await until(lambda: parts.engine.status.phase is Phase.LOADING and engine.wanted == asked)
        parts.engine.restart()
        await until(lambda: parts.engine.status.phase is Phase.RESTARTING)
    await until(lambda: parts.engine.status.phase is Phase.LOADING)
    engine.may_load.set()
    await until(lambda: parts.engine.model)
    assert parts.engine.status.phase is Phase.READY and failed == []
    assert parts.engine.loaded == parts.settings.loaded == asked
    assert not parts.settings.needs_load


async def test_a_requested_restart_is_no_news_and_a_failed_engine_starts_again(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await until(lambda: parts.engine.model)
    said: list[str] = []
    parts.engine.said.connect(said.append)
    parts.engine.restart()
    await until(lambda: parts.engine.status.phase is Phase.RESTARTING)
    await until(lambda: parts.engine.model)
    assert said == []
    await engine.die("It fell.")
    assert said == ["It fell."]
    loads = len(engine.loads)
    engine.tell(EngineState.FAILED, "It failed.")
    parts.engine.restart()
    await until(lambda: len(engine.loads) == loads + 1 and parts.engine.model)
