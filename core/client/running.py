"""Tells Windows' installer that Waymark runs, so that it asks for it to be closed.

A running program's files can't be replaced there. Each process of ours holds a mark that the
installer looks for (`AppMutex` in packaging/installers/windows/waymark.iss) until the process ends.
"""

from __future__ import annotations

import sys

MARK = "Waymark-5D2B6C1E-0B8A-4E0E-9C53-7A4E3D6F1B92"


def say_running() -> None:
    """Hold the mark from now on. Elsewhere than on Windows nobody asks for it."""
    if sys.platform == "win32":
        import ctypes

        # Its handle is never closed: the system does that, however the process ends. Where the
        # system refuses, the installer meets files in use, as it does with any other program.
        ctypes.windll.kernel32.CreateMutexW(None, False, MARK)
