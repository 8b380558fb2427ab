"""The engine for the window: what starting it again does in each of its states."""

from __future__ import annotations

import pytest

from core.client.client import EngineState
from tests.desktop.conftest import OpenParts, until
from tests.desktop.fake_engine import FakeEngine


@pytest.mark.parametrize("state", [EngineState.STARTING, EngineState.RESTARTING])
async def test_an_engine_that_is_starting_is_not_started_again(
    open_parts: OpenParts, engine: FakeEngine, state: EngineState
) -> None:
    parts = await open_parts()
    await until(lambda: parts.engine.model)
    said: list[str] = []
    parts.engine.said.connect(said.append)
    engine.tell(state)
    said.clear()
    parts.engine.restart()
    assert said == ["The engine is being started already."]
    assert len(engine.loads) == 1
    engine.tell(EngineState.READY)


async def test_a_fallen_engine_is_started_and_loads_what_was_wanted(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await open_parts()
    await until(lambda: parts.engine.model)
    engine.tell(EngineState.FAILED, "It fell.")
    parts.engine.restart()
    await until(lambda: len(engine.loads) == 2)
    await until(lambda: parts.engine.model)
