"""The pipe's bad days: nobody reads it, somebody else holds it, the log can't be written."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from core.api.events import EVENTS, Event
from core.client.client import EngineClient
from core.client.transport import Transport, worker_environment

LIMIT_S = 60
ENDS_WITH_INPUT = """
import os, sys, threading
def flood():
    while True:
        os.write(1, bytes(65_536))
threading.Thread(target=flood, daemon=True).start()
sys.stdin.read()
os._exit(7)
"""
LEAVES_A_CHILD = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"], stdin=subprocess.DEVNULL)
sys.stdin.read()
"""
TALKS = "import sys; print('x' * 100_000, file=sys.stderr, flush=True); sys.stdin.read()"
MUTE = "import sys; sys.stdin.read()"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


async def spawned_from(program: str, log: Path | None = None) -> Transport[Event]:
    return await Transport.spawn(python(program), log, EVENTS, worker_environment())


def test_a_full_pipe_that_nobody_reads_does_not_keep_the_window_open() -> None:
    async def scene() -> None:
        transport = await spawned_from(ENDS_WITH_INPUT)
        # Far more than any buffer holds, and no one asks for it.
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await transport.stop(20)
        assert time.monotonic() - began < 20
        assert "exit code 7" in transport.describe_end()

    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


@pytest.mark.skipif(sys.platform == "win32", reason="handles are not inherited there")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_grandchild_that_holds_the_pipe_does_not_either() -> None:
    async def scene() -> None:
        transport = await spawned_from(LEAVES_A_CHILD)
        began = time.monotonic()
        await transport.stop(1)
        assert time.monotonic() - began < 20

    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


def test_a_start_that_is_cancelled_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned: list[Transport[Event]] = []
    real = Transport.spawn

    async def spawn(*arguments: object) -> Transport[Event]:
        spawned.append(await real(*arguments))  # type: ignore[arg-type]
        return spawned[-1]

    monkeypatch.setattr(Transport, "spawn", spawn)

    async def scene() -> None:
        client = EngineClient(command=python(MUTE))
        start = asyncio.ensure_future(client.start())
        while not spawned:  # noqa: ASYNC110 - it is a plain list
            await asyncio.sleep(0.01)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        with pytest.raises(ProcessLookupError):
            os.kill(spawned[0].pid, 0)

    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


@pytest.mark.parametrize("log", ["folder", "/nowhere/at/all/worker.log", "/dev/full"])
def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, log: str) -> None:
    path = tmp_path if log == "folder" else Path(log)
    if log == "/dev/full" and not path.exists():
        pytest.skip("only Linux has a device that is always full")

    async def scene() -> None:
        transport = await spawned_from(TALKS, path)
        while not transport._errors:  # noqa: ASYNC110 - it is a plain queue
            await asyncio.sleep(0.01)
        await transport.stop(20)
        assert "xxx" in transport.describe_end()

    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, {"GOMP_SPINCOUNT": "20000"}),
        ({"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": None}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"GLIBC_TUNABLES": ""}, {"GLIBC_TUNABLES": ""}),
        # A GPU's products must repeat, whatever the user has set.
        ({"CUBLAS_WORKSPACE_CONFIG": ":0:0"}, {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}),
    ],
)
def test_the_engine_gets_our_settings_unless_the_user_has_set_them(
    chosen: dict[str, str], expected: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    found = worker_environment()
    assert {name: found.get(name) for name in expected} == expected
    if "GLIBC_TUNABLES" not in chosen:
        # No caches of small blocks: slivers of aligned ones in them would keep holes apart.
        assert "glibc.malloc.tcache_count=0" in found["GLIBC_TUNABLES"].split(":")
        assert "glibc.malloc.trim_threshold=" in found["GLIBC_TUNABLES"]
