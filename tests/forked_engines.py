"""Engine processes forked from one that has imported torch, which takes over a second.

A forked engine is a child of the test process as any other: the process that forked it is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

from core.client.programs import ROOT
from core.client.transport import default_command

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans of its children become its own
# Read by an engine as it runs. Libraries read any other variable when they are loaded.
_FREE = ("PYTEST_CURRENT_TEST", "HOME", "WAYMARK_DATA", "XDG_")
_MOST_BYTES = 2**20
# Private, so the type stubs lack it.
_execute_child: Any = getattr(subprocess.Popen, "_execute_child")  # noqa: B009


def _fixed(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_FREE)}


class _Forge:
    """The process that forks engines, started in the environment of the first one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = _fixed(environment)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", "-c", "from tests.forked_engines import serve; serve()"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=dict(environment), stdin=theirs.fileno()
        )
        theirs.close()
        self._socket, self._lock = ours, threading.Lock()

    def fork(self, environment: Mapping[str, str], files: list[int]) -> int:
        become_reaper, asked = ctypes.CDLL(None).prctl, json.dumps(dict(environment)).encode()
        with self._lock:
            become_reaper(_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._socket, [asked], files)
                return int(self._socket.recv(100))
            finally:
                become_reaper(_SUBREAPER, 0, 0, 0, 0)

    def close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()


def serve() -> None:
    import core.engine.engine  # noqa: F401  (what every engine would import)

    asked = socket.socket(fileno=os.dup(0))
    while True:
        data, files, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        if not data:
            return
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == between:
                os.sched_yield()
            _become_engine(asked, json.loads(data), files)
        os.waitpid(between, 0)
        for each in files:
            os.close(each)


def _become_engine(asked: socket.socket, environment: dict[str, str], files: list[int]) -> None:
    for place, each in enumerate(files):
        os.dup2(each, place)
        os.close(each)
    asked.send(str(os.getpid()).encode())
    asked.close()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["core", "core.worker"]
    runpy.run_module("core", run_name="__main__", alter_sys=True)
    sys.exit()


@contextlib.contextmanager
def engines_are_forked() -> Iterator[None]:
    forge: list[_Forge] = []

    def start(process: Any, arguments: Any, *more: Any) -> Any:
        environment, files = more[5], more[9:15]
        if list(arguments) != default_command() or environment is None:
            return _execute_child(process, arguments, *more)
        if not forge:
            forge.append(_Forge(environment))
        if _fixed(environment) != forge[0].environment:
            return _execute_child(process, arguments, *more)
        process.pid = forge[0].fork(environment, [files[0], files[3], files[5]])
        process._child_created = True
        return process._close_pipe_fds(*files)

    with patch.object(subprocess.Popen, "_execute_child", start):
        yield
    for each in forge:
        each.close()


@contextlib.contextmanager
def engines_are_started() -> Iterator[None]:
    """Start engines as the app does, for tests of their start and end."""
    with patch.object(subprocess.Popen, "_execute_child", _execute_child):
        yield
