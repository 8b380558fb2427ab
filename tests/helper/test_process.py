"""The helper process: it answers, it stays within its limits, and its death costs one request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from core.api.errors import TemplateError
from core.client.codec import Fields, frame
from core.client.programs import clean_environment, program
from core.helper import process
from core.helper.process import Helper, HelperFailedError

MEMORY = 400 * 2**20
ENDLESS = b"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
BUSY_PARENT = """
from core.helper.process import Helper
helper = Helper(400 * 2**20)
helper.ask("template.compile", {}, b"{%% for a in range(99999) %%}{%% for b in range(99999) %%}"
           b"{%% endfor %%}{%% endfor %%}", seconds=60)
print(helper.pid, flush=True)
helper.ask("template.render", {"variables": {}, "created": 0}, seconds=60)
""".replace("%%", "%")


@pytest.fixture
def helper() -> Iterator[Helper]:
    made = Helper(MEMORY)
    yield made
    made.close()


def compile_template(helper: Helper, source: bytes) -> None:
    helper.ask("template.compile", {}, source, seconds=5)


def rendered(helper: Helper, seconds: float = 5, **variables: object) -> str:
    fields: Fields = {"variables": variables, "created": 0}
    return helper.ask("template.render", fields, seconds=seconds)[1].decode()


def test_a_task_or_a_named_error_is_answered_and_the_process_stays(helper: Helper) -> None:
    assert helper.pid is None
    compile_template(helper, b"{{ x }}")
    pid = helper.pid
    texts = ["a", "b", "\u00e9" * 100_000]
    assert [rendered(helper, x=each) for each in texts] == texts
    with pytest.raises(TemplateError, match="Line 1"):
        compile_template(helper, b"{% if %}")
    compile_template(helper, b"fine")
    assert rendered(helper) == "fine"
    assert helper.pid == pid is not None


def test_what_has_no_name_is_a_failure_without_words(helper: Helper) -> None:
    """A library's words may quote a conversation."""
    with pytest.raises(HelperFailedError, match=r"^raised$"):
        helper.ask("picture.resize", {"width": 1, "height": 1, "resample": 0}, seconds=5)
    with pytest.raises(HelperFailedError, match=r"^raised$"):
        helper.ask("template.nothing", {}, seconds=5)


@pytest.mark.parametrize(
    ("source", "seconds", "limit"),
    [(ENDLESS, 0.2, "time"), (b"{% set x = 'a' * 999999999 %}{{ x | length }}", 5, "memory")],
)
def test_H3_time_and_memory_are_limited(
    helper: Helper, source: bytes, seconds: float, limit: str
) -> None:
    compile_template(helper, source)
    with pytest.raises(HelperFailedError, match=f"^{limit}$"):
        rendered(helper, seconds)
    compile_template(helper, b"back")
    assert rendered(helper) == "back"


@pytest.mark.skipif(sys.platform == "win32", reason="no process can be stopped there")
def test_H3_a_helper_that_stands_still_is_replaced(
    helper: Helper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START_S", 0.5)
    compile_template(helper, b"{{ x }}")
    assert helper.pid is not None
    os.kill(helper.pid, signal.SIGSTOP)
    # More than a pipe holds: the write itself would wait for ever.
    with pytest.raises(HelperFailedError, match=r"^time$"):
        rendered(helper, seconds=0.1, x="a" * 1_000_000)
    compile_template(helper, b"back")
    assert rendered(helper) == "back"


@pytest.mark.skipif(sys.platform == "win32", reason="the signal is POSIX's")
def test_a_helper_that_is_killed_at_work_costs_that_task(helper: Helper) -> None:
    compile_template(helper, ENDLESS)
    pid = helper.pid
    assert pid is not None
    threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(HelperFailedError, match=r"^ended$"):
        rendered(helper, seconds=30)
    compile_template(helper, b"back")
    assert rendered(helper) == "back"


def test_callers_of_several_threads_get_their_own_answers(helper: Helper) -> None:
    compile_template(helper, b"{{ x }}")
    wrong: list[str] = []

    def ask(name: str) -> None:
        wrong.extend(name for _ in range(50) if rendered(helper, x=name) != name)

    threads = [threading.Thread(target=ask, args=(str(index),)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_waiting_can_be_given_up_also_for_a_turn(helper: Helper) -> None:
    class GivenUpError(Exception):
        pass

    def give_up() -> None:
        raise GivenUpError

    def endless() -> None:
        with pytest.raises(HelperFailedError):
            rendered(helper, seconds=1)

    compile_template(helper, ENDLESS)
    first = threading.Thread(target=endless)
    first.start()
    while not helper._lock.locked():
        time.sleep(0.001)
    with pytest.raises(GivenUpError):
        helper.ask("template.compile", {}, b"next", seconds=5, check=give_up)
    first.join()


@pytest.mark.parametrize(
    "answer",
    [b"", b"\0\0\0\1", b"\xff" * 100, frame(b"nonsense"), frame(b'{"error": "SystemExit"}')],
    ids=["nothing", "torn", "lying", "no JSON", "an error nobody knows"],
)
def test_an_answer_that_makes_no_sense_is_no_answer(
    answer: bytes, helper: Helper, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = f"import sys; sys.stdout.buffer.write({answer!r}); sys.stdout.flush(); input()"
    command = [sys.executable, "-c", written]
    monkeypatch.setattr(process, "program", lambda *_: command)
    monkeypatch.setattr(process, "START_S", 0.3)
    monkeypatch.setattr(process, "PATIENCE", 0.0)
    with pytest.raises(HelperFailedError):
        compile_template(helper, b"x")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the end of its input has to do")
def test_H6_a_helper_at_work_ends_with_its_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", BUSY_PARENT], stdout=subprocess.PIPE, env=clean_environment()
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    child.wait(20)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is kept there")
def test_a_helper_can_write_no_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("written") / "file"
    tries = (
        "from core.helper.__main__ import limit_process\n"
        "limit_process(2**30)\n"
        f"file = open({str(path)!r}, 'wb')\n"
        "try:\n    file.write(b'x'); file.flush()\n"
        "except OSError:\n    import os; os._exit(7)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", tries], env=clean_environment(), check=False, timeout=60
    )
    assert (ended.returncode, path.read_bytes()) == (7, b"")


def test_a_helper_loads_no_torch() -> None:
    loads = (
        "import sys\n"
        "import core.helper.__main__, core.helper.pictures, core.helper.templates\n"
        "import core.helper.tokenizer\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", loads], env=clean_environment(), check=True, timeout=60)


def test_a_helper_ends_at_the_end_of_its_input() -> None:
    with subprocess.Popen(
        program("core.helper", str(MEMORY)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=clean_environment(),
    ) as started:
        assert started.stdin is not None
        started.stdin.close()
        assert started.wait(30) == 0
