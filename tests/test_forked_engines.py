"""Engines of tests are forked or started like the app's."""

from __future__ import annotations

import asyncio
import sys

import psutil
import pytest

from core.client.client import EngineClient
from tests.forked_engines import engines_are_forked, engines_are_started


def command_of_an_engine() -> list[str]:
    async def scene() -> list[str]:
        client = EngineClient()
        await client.start()
        command = psutil.Process(client.worker_pid).cmdline()
        await client.close()
        return command

    return asyncio.run(asyncio.wait_for(scene(), 120))


@pytest.mark.skipif(sys.platform != "linux", reason="engines are forked on Linux only")
def test_an_engine_is_forked_unless_its_start_is_tested() -> None:
    with engines_are_started():
        assert "core.worker" in command_of_an_engine()
    # Those of the session have the environment of its first engine, which may be another one.
    with engines_are_forked():
        assert "core.worker" not in command_of_an_engine()
