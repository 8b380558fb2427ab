"""Engines of tests are forked or started like the app's."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from core.client.client import EngineClient
from tests.forked_engines import engines_are_started


def command_of_an_engine() -> str:
    async def scene() -> str:
        client = EngineClient()
        await client.start()
        command = Path(f"/proc/{client.worker_pid}/cmdline").read_text("utf-8")
        await client.close()
        return command

    return asyncio.run(asyncio.wait_for(scene(), 120))


@pytest.mark.skipif(sys.platform != "linux", reason="engines are forked on Linux only")
def test_an_engine_is_forked_unless_its_start_is_tested() -> None:
    with engines_are_started():
        assert "core.worker" in command_of_an_engine()
    assert "forked_engines" in command_of_an_engine()
