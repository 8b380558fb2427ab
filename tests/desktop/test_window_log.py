from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

from core.client.traces import trace_of
from desktop.window_log import kept_log, report_from_loop
from tests.desktop.conftest import Loop, until

SECRET = "zanzibar"
ROOT = Path(__file__).parents[2]


def fail() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise ValueError(f"about {SECRET}") from error


def failure() -> Exception:
    try:
        fail()
    except ValueError as error:
        return error
    raise AssertionError("it did not fail")


def test_a_trace_names_types_and_places() -> None:
    lines = trace_of(failure()).splitlines()
    assert [line.split(",")[0] for line in lines if not line.startswith(" ")] == [
        "ValueError",
        "KeyError",
    ]
    assert any("test_window_log.py" in line and line.endswith(" in fail") for line in lines)
    assert SECRET not in trace_of(failure())


def test_a_ring_of_causes_ends() -> None:
    one, other = ValueError(), KeyError()
    one.__cause__, other.__cause__ = other, one
    assert trace_of(one).count("raised at") == 2


def test_whoever_logs_an_error_logs_none_of_its_words(tmp_path: Path) -> None:
    file = tmp_path / "window.log"
    with kept_log(file):
        logging.getLogger("another.library").error("It failed", exc_info=failure())
    logged = file.read_text()
    assert "It failed" in logged and "ValueError, raised at" in logged and SECRET not in logged


async def test_a_task_that_nobody_waits_for_is_logged_without_words(
    tmp_path: Path, qloop: Loop
) -> None:
    file = tmp_path / "window.log"
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report_from_loop)
    with kept_log(file):
        loop.call_soon(fail)
        await until(lambda: file.exists() and "ValueError" in file.read_text())
    assert SECRET not in file.read_text()


UNCAUGHT = """
import sys, threading
from pathlib import Path
from core.client.traces import report_uncaught
from desktop.window_log import kept_log, log_uncaught
report_uncaught(log_uncaught)
class Late:
    def __del__(self):
        raise ValueError("zanzibar")
def fail():
    raise ValueError("zanzibar")
with kept_log(Path(sys.argv[1])):
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    late = Late()
    del late
    sys.excepthook(*(lambda error: (type(error), error, None))(KeyError("zanzibar")))
"""


def test_what_nobody_catches_is_reported_without_words(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNCAUGHT, str(tmp_path / "window.log")],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    logged = (tmp_path / "window.log").read_text()
    assert done.stderr.count("Waymark met an error: ValueError") == 2
    assert "KeyError" in done.stderr and logged.count("Uncaught error") == 3
    assert SECRET not in done.stderr + logged
