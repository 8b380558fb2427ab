"""A server of another project in a process of its own, on a loopback port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx2

KEY = "key-of-the-bench"
START_S = 300.0
_STOP_S = 20.0
_MOST_SAID = 2_000


class ServerProcess:
    """`command` gets a host and a port; `log` gets what it says. A stopped one can be started again
    at the same port."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, more: Mapping[str, str] | None = None
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.name, self.url = name, f"http://127.0.0.1:{self.port}"
        self._command = [*command, "--host", "127.0.0.1", "--port", str(self.port)]
        self._log, self._environment = log, {**os.environ, **(more or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ServerProcess:
        try:
            self.start()
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self._environment, start_new_session=True,
            )  # fmt: skip

    def wait(self) -> None:
        """Until it lists its models. Raises RuntimeError."""
        end = time.monotonic() + START_S
        headers = {"Authorization": f"Bearer {KEY}"}
        assert self._process is not None
        with httpx2.Client(headers=headers, trust_env=False) as client:
            while time.monotonic() < end and self._process.poll() is None:
                try:
                    if client.get(f"{self.url}/v1/models").status_code == 200:
                        return
                except httpx2.TransportError:
                    pass
                time.sleep(0.2)
        said = self._log.read_text(errors="replace")[-_MOST_SAID:]
        raise RuntimeError(f"{self.name} did not start: {said}")

    def stop(self, kill: bool = False) -> None:
        """With its children, which outlive a server that is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            if not kill:
                process.terminate()
                process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
