"""The watch itself: a test that rests on it would pass for ever if it saw nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.client.programs import ROOT
from tests.hostile.watch import grows_less_than, opened_elsewhere
from tests.hostile.watched_helper import VIOLATION

TRIES = {
    "a file": "open('/etc/passwd')",
    "an address": "import socket; socket.create_connection(('127.0.0.1', 9))",
    "a program": "import subprocess; subprocess.run(['true'])",
}


def test_a_file_elsewhere_is_seen_and_one_at_home_is_not(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for each in (home, elsewhere):
        each.mkdir()
        (each / "file").touch()
    with opened_elsewhere(home) as found:
        (home / "file").read_bytes()
        assert found == []
        (elsewhere / "file").read_bytes()
    assert len(found) == 1 and "elsewhere" in found[0]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets a peak back")
def test_memory_is_seen_though_an_earlier_peak_was_higher() -> None:
    assert len(b"a" * 2**28) == 2**28
    with pytest.raises(AssertionError), grows_less_than(2**26):
        assert len(b"a" * 2**27) == 2**27


@pytest.mark.parametrize("what", TRIES)
def test_a_helper_that_asks_for_anything_is_ended(what: str) -> None:
    program = (
        f"import sys, tests.hostile.watched_helper as w; sys.addaudithook(w.watch); {TRIES[what]}"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, timeout=60)
    assert ended.returncode == VIOLATION
