"""A file that nobody may open, and the kernel's word on whether somebody has.

Python's audit hooks see only what Python opens, and Qt opens files itself. inotify sees both.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from types import TracebackType

import pytest

IN_OPEN = 0x20
IN_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


class Bait:
    def __init__(self, path: Path, content: bytes = b"* { color: red }") -> None:
        if sys.platform != "linux":
            pytest.skip("inotify is Linux's")
        self.path = path
        self._was_opened = False
        path.write_bytes(content)

    def __enter__(self) -> Bait:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(IN_NONBLOCK)
        assert libc.inotify_add_watch(self._descriptor, os.fsencode(self.path), IN_OPEN) >= 0
        return self

    @property
    def opened(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            self._was_opened = bool(os.read(self._descriptor, 4096)) or self._was_opened
        return self._was_opened

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)
