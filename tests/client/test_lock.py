"""One app per data folder."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from core.api.errors import DataFolderBusyError
from core.client.lock import DataFolderLock

HOLD = """
import sys, time
from pathlib import Path
from core.client.lock import DataFolderLock
lock = DataFolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_app_is_refused_and_told_where(tmp_path: Path) -> None:
    lock = DataFolderLock(tmp_path)
    with pytest.raises(DataFolderBusyError, match=tmp_path.name):
        DataFolderLock(tmp_path)
    lock.release()
    lock.release()
    DataFolderLock(tmp_path).release()


def test_a_killed_app_leaves_no_lock_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    with pytest.raises(DataFolderBusyError):
        DataFolderLock(tmp_path)
    process.kill()
    process.wait()
    process.stdout.close()
    DataFolderLock(tmp_path).release()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks another way")
def test_a_file_system_without_locks_is_not_taken_for_another_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_handle: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(OSError, match="No locks available"):
        DataFolderLock(tmp_path)
    monkeypatch.undo()
    DataFolderLock(tmp_path).release()
