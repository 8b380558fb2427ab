"""An engine in a process of its own, for its own memory: one JSON line a task, one back.

As a command it is that process; `Process` is the other end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

import psutil

from core.client.transport import worker_environment
from tests.bench.peer import Engine, Peer, Reading, Task


class Process:
    """A `Peer` (tests.bench.peer) elsewhere; every `load` starts a fresh process."""

    def __init__(self, engine: Engine, threads: int) -> None:
        self._engine = engine
        self._threads = threads
        self._child: subprocess.Popen[str] | None = None

    def run(self, task: Task, size: int) -> Reading:
        """Raises RuntimeError when the process dies; it has said why by then."""
        if task == "load":
            self.close()
            self._child = self._start()
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps({"task": task, "size": size}) + "\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._engine.name} ended with {child.wait()} in {task} {size}")
        fields: dict[str, Any] = json.loads(answer)
        return Reading(**fields | {"ids": tuple(fields["ids"])})

    def close(self) -> None:
        if self._child is not None:
            self._child.communicate()
            self._child = None

    def _start(self) -> subprocess.Popen[str]:
        engine = asdict(self._engine)
        given = json.dumps({name: _plain(value) for name, value in engine.items()})
        return subprocess.Popen(
            [sys.executable, "-m", "tests.bench.process", given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment(),
            text=True,
        )

    def _environment(self) -> dict[str, str]:
        """For Waymark what the app gives its worker; for others what there is, untuned."""
        environment = worker_environment()
        if self._engine.name != "waymark":
            environment = {**os.environ, "PYTHONPATH": environment["PYTHONPATH"]}
        return environment | {"OMP_NUM_THREADS": str(self._threads), "HF_HUB_OFFLINE": "1"}


def open_here(engine: Engine) -> Peer:
    """The engine in this process. What it needs is imported here: it counts as its memory."""
    if engine.name == "waymark":
        from tests.bench.waymark_peer import Waymark

        return Waymark(engine)
    from tests.bench.transformers_peer import Transformers

    return Transformers(engine)


def serve(engine: Engine, tasks: IO[str], answers: IO[str]) -> None:
    """Do task after task until their stream ends."""
    import torch  # what comes after it is beyond it

    before = psutil.Process().memory_info().rss
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
    if engine.name == "waymark":
        from core.engine.loaded import fix_threads

        fix_threads()
    peer, on_gpu = open_here(engine), engine.device == "cuda"
    for line in tasks:
        reading = peer.run(**json.loads(line))
        peak = torch.cuda.max_memory_allocated() if on_gpu else peak_bytes() - before
        answer = replace(reading, peak_bytes=peak)
        print(json.dumps(asdict(answer)), file=answers, flush=True)


def peak_bytes() -> int:
    """The most memory this process has held.

    Linux's own mark if there is one: `ru_maxrss` is inherited from the parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        mark = next(line for line in lines if line.startswith("VmHWM:"))
        return int(mark.split()[1]) * 1024
    import resource  # Windows has neither, and no Makefile

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    """Serve on the pipes; whatever libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    fields = json.loads(sys.argv[1])
    paths = {name: Path(fields[name]) for name in ("folder", "scratch")}
    serve(Engine(**fields | paths), sys.stdin, answers)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


if __name__ == "__main__":
    main()
