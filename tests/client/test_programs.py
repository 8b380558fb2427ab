"""H2: our processes run what was installed, wherever and however they are started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.api.params import ModelSettings
from core.client.client import EngineClient
from core.client.programs import ROOT, clean_environment, program
from core.client.transport import worker_environment

DEMO = ROOT / "resources" / "models" / "demo"
# Names that our programs import early, late, and only for some files.
SHADOWED = ("json", "pathlib", "struct", "torch", "pydantic", "jinja2", "tokenizers", "PIL", "re")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    note = "open(%r, 'a').write(__name__ + '\\n')\n"
    for name in (*SHADOWED, "startup", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(note % str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def were_run(trap: Path) -> str:
    note = trap / "run"
    return note.read_text() if note.exists() else ""


@pytest.mark.parametrize("module", ["core.replay", "core.worker", "core.helper", "desktop"])
def test_H2_a_program_started_by_name_runs_nothing_from_the_current_folder(
    trap: Path, module: str
) -> None:
    """The README starts them like this. Their answers to nonsense don't matter here."""
    arguments = {"core.replay": ["--help"], "core.helper": ["400000000"], "desktop": ["--help"]}
    subprocess.run(
        [sys.executable, "-m", module, *arguments.get(module, [])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    assert were_run(trap) == ""


@pytest.mark.usefixtures("started_engines")
def test_H2_the_engine_and_its_helper_run_nothing_from_the_current_folder(
    trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor from folders and files that the environment names as code."""
    monkeypatch.setenv("PYTHONPATH", str(trap))
    monkeypatch.setenv("PYTHONSTARTUP", str(trap / "startup.py"))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore::startup.Warning")

    async def scene() -> None:
        client = EngineClient()
        await client.start()
        assert client.worker_pid is not None
        if sys.platform == "linux":
            assert os.readlink(f"/proc/{client.worker_pid}/cwd") == str(ROOT)
        settings = ModelSettings(path=str(DEMO), device="cpu", precision="float32")
        await client.load(settings)
        await client.close()

    asyncio.run(asyncio.wait_for(scene(), 120))
    assert were_run(trap) == ""


def test_H2_what_names_code_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "PYTHONPATH": "/tmp/x",
        "PYTHONHOME": "/tmp/x",
        "PYTHONINSPECT": "1",
        "LD_PRELOAD": "/tmp/x.so",
        "DYLD_INSERT_LIBRARIES": "/tmp/x.dylib",
        "LD_LIBRARY_PATH": os.pathsep.join(("", "/usr/lib/cuda", ".", "relative")),
        "HOME": "/home/somebody",
        "OMP_NUM_THREADS": "1",
    }
    monkeypatch.setattr(os, "environ", given)
    assert clean_environment() == {
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",
        "LD_LIBRARY_PATH": "/usr/lib/cuda",
        "HOME": "/home/somebody",
        "OMP_NUM_THREADS": "1",
    }
    assert "LD_PRELOAD" not in worker_environment()


@pytest.mark.skipif(sys.platform != "linux", reason="limits are read from /proc")
@pytest.mark.parametrize("arguments", [("core.worker",), ("core.helper", "500000000")])
def test_no_engine_process_leaves_its_memory_in_a_file(arguments: tuple[str, ...]) -> None:
    """At 1 byte Linux writes no core dump, and starts no program that takes them."""
    process = subprocess.Popen(
        program(*arguments), cwd=ROOT, env=clean_environment(), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    import resource

    try:
        end = time.monotonic() + 60
        while resource.prlimit(process.pid, resource.RLIMIT_CORE) not in ((1, 1), (0, 0)):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
