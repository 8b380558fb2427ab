"""Linux packages can be read by all users and declare their dependencies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.packaging.scripts import script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="packed on Linux, by its tools")


@pytest.fixture
def package() -> ModuleType:
    return script("linux/package")


def test_what_a_builder_keeps_to_himself_is_read_by_whoever_installs_it(
    package: ModuleType, tmp_path: Path
) -> None:
    folder, data, program = tmp_path / "usr", tmp_path / "usr" / "data", tmp_path / "usr" / "run"
    folder.mkdir()
    for path, mode in ((data, 0o600), (program, 0o700), (folder, 0o2700)):
        path.touch()
        path.chmod(mode)
    package.let_all_read(folder)
    assert [path.stat().st_mode & 0o7777 for path in (folder, data, program)] == [
        0o755, 0o644, 0o755,
    ]  # fmt: skip


def depends(package: ModuleType, monkeypatch: pytest.MonkeyPatch, headers: str) -> list[str]:
    monkeypatch.setattr(package, "libraries", lambda folder: [folder / "library.so"])
    monkeypatch.setattr(subprocess, "check_output", lambda command, text: headers)
    found: list[str] = package.depends(Path("usr"))
    return found


def test_a_package_asks_for_the_newest_versions_that_its_libraries_do(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = (
        "  NEEDED  libc.so.6\n  NEEDED  libstdc++.so.6\n"
        " 0x1 0x00 05 GLIBC_2.9\n 0x1 0x00 05 GLIBC_2.34\n 0x1 0x00 05 GLIBCXX_3.4.29\n"
    )
    assert depends(package, monkeypatch, headers) == ["libc6 (>= 2.34)", "libstdc++6 (>= 11)"]


@pytest.mark.parametrize(
    ("library", "version", "named"),
    [("libodd.so.1", "3.4.29", "libodd"), ("libc.so.6", "3.4.99", "GLIBCXX_3.4.99")],
)
def test_what_no_package_is_known_for_ends_the_build(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch, library: str, version: str, named: str
) -> None:
    headers = f"  NEEDED  {library}\n 0x1 0x00 05 GLIBC_2.34\n 0x1 0x00 05 GLIBCXX_{version}\n"
    with pytest.raises(SystemExit, match=named):
        depends(package, monkeypatch, headers)


def test_the_trial_of_a_package_says_which_programs_are_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = script("linux/try_installed")
    monkeypatch.setattr(trial.os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "argv", ["try_installed.py"])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit):
        trial.main()
    assert "apt-get install mmdebstrap xvfb" in capsys.readouterr().err
