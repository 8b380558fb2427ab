"""An installed app is started from two executables; the rest of the code is the same."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import core.downloads.__main__ as downloads
import core.helper.__main__ as helper
import core.library.__main__ as library
import core.worker.__main__ as worker
from core.client import programs
from core.client.programs import (
    PROGRAMS,
    RESOURCES,
    ROOT,
    clean_environment,
    program,
    restore_environment,
)
from core.server import relayed
from desktop import app


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Pretend to be an installed app, whose executable is the window's; its folder is returned."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "waymark"))
    return tmp_path


def test_a_frozen_program_is_the_engine_beside_the_executable_that_runs(frozen: Path) -> None:
    command = program("core.helper", "400000000")
    assert [Path(command[0]).parent, Path(command[0]).stem] == [frozen, "waymark-engine"]
    assert command[1:] == ["core.helper", "400000000"]


def test_a_program_is_run_by_python_from_a_source_tree() -> None:
    assert program("core.helper", "7") == [sys.executable, "-P", "-m", "core", "core.helper", "7"]


def test_programs_that_are_not_ours_get_the_environment_that_the_app_was_started_in(
    frozen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "LD_LIBRARY_PATH": "/opt/waymark/_internal:/opt/cuda",
        "LD_LIBRARY_PATH_ORIG": "/opt/cuda",
        "_PYI_ARCHIVE_FILE": "/opt/waymark/waymark",
        "_PYI_PARENT_PROCESS_LEVEL": "0",
        "QT_PLUGIN_PATH": "/opt/waymark/_internal/PySide6/Qt/plugins",
        "QT_SCALE_FACTOR": "2",
    }
    monkeypatch.setattr(os, "environ", dict(given))
    with monkeypatch.context() as from_sources:
        from_sources.setattr(sys, "frozen", False)
        restore_environment()
    assert os.environ == given
    restore_environment()
    assert os.environ == {"LD_LIBRARY_PATH": "/opt/cuda", "QT_SCALE_FACTOR": "2"}
    del os.environ["LD_LIBRARY_PATH"]
    os.environ["LD_LIBRARY_PATH"] = "/opt/waymark/_internal"
    restore_environment()
    assert "LD_LIBRARY_PATH" not in os.environ


@pytest.mark.parametrize("named", [[], ["http.server"], ["core.engine"], ["-c", "print(1)"]])
def test_nothing_but_our_programs_is_run_by_name(named: list[str]) -> None:
    done = run([sys.executable, "-P", "-m", "core", *named])
    assert (done.returncode, done.stdout) == (2, "")
    assert all(name in done.stderr for name in PROGRAMS)


def test_a_program_gets_its_arguments_and_its_exit_code_comes_back() -> None:
    done = run(program("core.replay", "/nowhere/script.json", "--model", "/nowhere"))
    assert done.returncode == 2
    assert "/nowhere/script.json" in done.stderr


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_our_files_lie_beside_our_packages() -> None:
    assert Path(programs.__file__).is_relative_to(ROOT)
    assert {each.name for each in RESOURCES.iterdir()} >= {"icons", "models", "samples", "themes"}


def test_a_mark_of_the_installers_name_is_held_on_windows_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []
    kernel32 = SimpleNamespace(CreateMutexW=lambda *given: made.append(given))
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel32), raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    programs.say_running()
    monkeypatch.setattr(sys, "platform", "linux")
    programs.say_running()
    assert made == [(None, False, programs.MARK)]


class ToldError(Exception):
    """The mark was asked for; no more of a program is run."""


@pytest.mark.parametrize("program", [app, helper, worker, downloads, library, relayed])
def test_every_process_holds_it(program: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> None:
        raise ToldError

    for module in (program, programs):
        monkeypatch.setattr(module, "say_running", told, raising=False)
        monkeypatch.setattr(module, "die_with_parent", lambda: None, raising=False)
        monkeypatch.setattr(module, "forbid_core_dumps", lambda: None, raising=False)
        monkeypatch.setattr(module, "report_uncaught", lambda: None, raising=False)
    arguments: tuple[list[str], ...] = ([],) if program is app else ()
    with pytest.raises(ToldError):
        program.main(*arguments)  # type: ignore[attr-defined]
