"""A server that is stopped leaves none of its children behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.bench.server_process import ServerProcess

CHILD = "import sys, time; file = open(sys.argv[1], 'w'); print('up', file=file, flush=True);"
SERVER = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1] + "time.sleep(600)", sys.argv[2]])
"""


@pytest.mark.parametrize("kill", [True, False])
def test_its_children_end_with_it(tmp_path: Path, kill: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", SERVER, CHILD, str(pipe)]
    server = ServerProcess("server", command, tmp_path / "log")
    server.start()
    with pipe.open() as said:
        assert said.readline() == "up\n"
        server.stop(kill)
        # The end comes when the child's end of the pipe is closed.
        assert said.readline() == ""
