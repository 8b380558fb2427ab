"""Watching what is opened: Python tells of every file, address and program before it is used."""

from __future__ import annotations

import os
import resource
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Modules, and what the system tells of itself.
_ALWAYS = tuple(
    os.path.realpath(each)
    for each in (str(ROOT), sys.prefix, sys.base_prefix, *sysconfig.get_paths().values())
)
_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/null", "/dev/urandom", "/etc/localtime")
_FORBIDDEN = ("socket.connect", "socket.bind", "subprocess.Popen", "os.system", "os.exec")

_watched: list[tuple[tuple[str, ...], list[str]]] = []


@contextmanager
def opened_elsewhere(*folders: Path) -> Iterator[list[str]]:
    """Collect what this process opens, connects to or starts outside `folders`."""
    _install()
    allowed = tuple(str(folder.resolve()) for folder in folders)
    _watched.append((allowed, []))
    try:
        yield _watched[-1][1]
    finally:
        _watched.pop()


@contextmanager
def grows_less_than(limit: int) -> Iterator[None]:
    # Or the peak of an earlier test would hide that of this one. Linux sets it back.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = _peak()
    yield
    assert _peak() - before < limit


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def is_elsewhere(path: object, allowed: tuple[str, ...]) -> bool:
    """True for a path outside the folders, our own programs and the system's own files."""
    if isinstance(path, int) or path is None:
        return False
    name = os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type]
    return not name.startswith((*allowed, *_ALWAYS, *_OF_THE_SYSTEM))


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    allowed, found = _watched[-1]
    if event in _FORBIDDEN or (event == "open" and is_elsewhere(arguments[0], allowed)):
        found.append(f"{event} {arguments[:1]!r}")


def _install() -> None:
    # A hook can't be taken out again.
    if not getattr(sys, "_waymark_watches", False):
        sys._waymark_watches = True  # type: ignore[attr-defined]
        sys.addaudithook(_hook)
