"""H9: showing a stranger's words opens no file of theirs and no address, as the kernel saw it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.desktop.fake_engine import png

ROOT = Path(__file__).parents[2]
OPENED = re.compile(r'\bopen(?:at)?2?\((?:AT_FDCWD, )?"((?:[^"\\]|\\.)*)"[^)]*?(O_[A-Z_|]+)')
CONNECTED = re.compile(r"\bconnect\([^)]*sa_family=(AF_INET6?)\b")
WRITES = re.compile("O_WRONLY|O_RDWR|O_CREAT")


def traced(folder: Path, *arguments: str) -> str:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = folder / "calls"
    calls = "trace=open,openat,openat2,connect"
    command = [strace, "-f", "-s", "4096", "-e", calls, "-o", str(log), sys.executable, "-Bm"]
    done = subprocess.run(
        [*command, "tests.desktop.hostile_chat", *arguments],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("this system lets no process be traced")
    assert done.returncode == 0, done.stderr
    return log.read_text(errors="replace")


@pytest.mark.slow
def test_H9_nothing_is_opened_for_a_strangers_words(tmp_path: Path) -> None:
    bait, control, data = tmp_path / "bait.png", tmp_path / "control.png", tmp_path / "data"
    for path in (bait, control):
        path.write_bytes(png())
    calls = traced(tmp_path, str(data), str(bait), str(control))
    opened = OPENED.findall(calls)
    names = [name for name, _flags in opened]
    # What Qt does open when it is let, so that silence means something.
    assert str(control) in names
    assert not any("bait" in name for name in names)
    assert CONNECTED.findall(calls) == []
    written = [name for name, flags in opened if WRITES.search(flags)]
    allowed = (str(data), str(tmp_path), "/dev/", "/proc/self/", str(Path.home() / ".cache"))
    assert [name for name in written if not name.startswith(allowed)] == []
