"""How our processes are started, contained and ended, and where our programs and files are.

Python would import from the current folder and from folders that the environment names, so a
stranger's `json.py` could be run; our programs start without either, in the app's own folder. An
installed app is *frozen*: it has two executables, the window's and the engine's, and no Python.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO

from core.client.traces import report_uncaught

ROOT = Path(__file__).resolve().parents[2]
"""The folder our packages are imported from: a source tree or an installation."""
RESOURCES = ROOT / "resources"
"""Icons, themes, the demo model and the sample pictures."""

PROGRAMS = (
    "core.worker",
    "core.helper",
    "core.downloads",
    "core.library",
    "core.server",
    "core.remote",
    "core.replay",
    "core.selftest",
)
"""All that `python -m core` and the engine's executable run."""
MARK = "Waymark-5D2B6C1E-0B8A-4E0E-9C53-7A4E3D6F1B92"
"""The mutex that Windows' installer looks for (`AppMutex` in installers/windows/waymark.iss)."""
# Our own Qt finds its plugins without them, and another program's Qt would load ours.
_QT_FINDS = frozenset({"QT_PLUGIN_PATH", "QML2_IMPORT_PATH"})
_ENGINE = "waymark-engine.exe" if sys.platform == "win32" else "waymark-engine"

# Loaders run the code these name before a program's first line. Library search paths stay, as
# drivers are installed through them, but without entries that mean the current folder.
_NAME_CODE = frozenset({
    "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH", "OMP_TOOL_LIBRARIES",
    "CUDA_INJECTION32_PATH", "CUDA_INJECTION64_PATH", "OPENSSL_CONF", "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
})  # fmt: skip
_SEARCHED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "PATH")


def program(name: str, *arguments: str) -> list[str]:
    if is_frozen():
        return [str(Path(sys.executable).with_name(_ENGINE)), name, *arguments]
    return [sys.executable, "-P", "-m", "core", name, *arguments]


def is_frozen() -> bool:
    return bool(getattr(sys, "frozen", False))


def restore_environment() -> None:
    """Undo what a frozen executable's loader has set, or other programs would load our
    libraries."""
    if not is_frozen():
        return
    original = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if original is not None:
        os.environ["LD_LIBRARY_PATH"] = original
    for name in [name for name in os.environ if name.startswith("_PYI_") or name in _QT_FINDS]:
        del os.environ[name]


def clean_environment() -> dict[str, str]:
    """The environment without variables that name code."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith("PYTHON") and name not in _NAME_CODE
    }
    for name in _SEARCHED:
        if name in kept:
            entries = kept[name].split(os.pathsep)
            kept[name] = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}


def hidden_window() -> int:
    return 0x08000000 if sys.platform == "win32" else 0


def say_running() -> None:
    """Hold MARK until the process ends: Windows' installer can't replace files in use."""
    if sys.platform == "win32":
        import ctypes

        # The handle is never closed: the system does that, however the process ends. If the system
        # refuses, the installer finds files in use, as with any other program.
        ctypes.windll.kernel32.CreateMutexW(None, False, MARK)


def forbid_core_dumps() -> None:
    if sys.platform != "win32":
        import resource

        # At 1 byte Linux also starts no program that would be handed the dump.
        lower_limit(resource.RLIMIT_CORE, 1 if sys.platform == "linux" else 0)


def lower_limit(kind: int, wanted: int) -> None:
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(kind)
        lowest = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (lowest, lowest))


def die_with_parent() -> None:
    """Have Linux kill this process when its parent ends. Elsewhere its input ends."""
    if sys.platform != "linux":
        return
    import ctypes

    parent = os.getppid()
    set_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def become_child() -> tuple[BinaryIO, BinaryIO]:
    """Call first in a child process. Returns its input and output, taken before libraries can
    print."""
    die_with_parent()
    forbid_core_dumps()
    report_uncaught()
    say_running()
    # Ctrl-C in a terminal reaches the whole group; the parent decides when its children end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb"), output


def contain(pid: int, memory_bytes: int = 0) -> object | None:
    """On Windows, end process `pid` when the returned object goes, and bound its memory (0: no
    limit)."""
    if sys.platform == "win32":
        return _Job.around(pid, memory_bytes)
    return None


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _KILL_ON_CLOSE = 0x2000
    _PROCESS_MEMORY = 0x100
    _EXTENDED_LIMITS = 9
    _SET_QUOTA_AND_TERMINATE = 0x0100 | 0x0001

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    class _Job:
        """Windows closes it with its holder, and ends the process in it."""

        def __init__(self, kernel: ctypes.WinDLL, handle: int) -> None:
            self._kernel, self._handle = kernel, handle

        @classmethod
        def around(cls, pid: int, memory_bytes: int) -> _Job | None:
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            for name in ("CreateJobObjectW", "OpenProcess"):
                getattr(kernel, name).restype = wintypes.HANDLE
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_CLOSE
            if memory_bytes:
                limits.BasicLimitInformation.LimitFlags |= _PROCESS_MEMORY
                limits.ProcessMemoryLimit = memory_bytes
            handle = kernel.CreateJobObjectW(None, None)
            process = kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid)
            if not handle or not process:
                return None
            job = cls(kernel, handle)
            size = ctypes.sizeof(limits)
            held = wintypes.HANDLE(handle)
            done = kernel.SetInformationJobObject(
                held, _EXTENDED_LIMITS, ctypes.byref(limits), size
            ) and kernel.AssignProcessToJobObject(held, wintypes.HANDLE(process))
            kernel.CloseHandle(wintypes.HANDLE(process))
            return job if done else None

        def __del__(self) -> None:
            self._kernel.CloseHandle(wintypes.HANDLE(self._handle))
