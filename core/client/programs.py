"""Where our programs and files lie, and how processes of ours are started: from what was installed,
and from nothing else.

Python puts the current folder before everything when it runs a module by name, and reads variables
that name code to load. A program of ours is started without either, in a folder of the app's own: a
model folder, or one in which a stranger's `json.py` lies, is never searched for code. An installed
app is *frozen*: it has no Python to start, but two executables, the window's and the engine's.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""Where our packages are imported from: a source tree, or the folder they were installed into."""
RESOURCES = ROOT / "resources"
"""Icons, themes, the demo model and the sample pictures."""

PROGRAMS = ("core.worker", "core.helper", "core.replay", "core.selftest")
"""All that `python -m core` and the engine's executable run."""
# Our own Qt finds its plugins without them, and another program's Qt would load ours.
_QT_FINDS = frozenset({"QT_PLUGIN_PATH", "QML2_IMPORT_PATH"})
_ENGINE = "waymark-engine.exe" if sys.platform == "win32" else "waymark-engine"

# Loaders run what these name before a program's first line. The search paths for libraries stay, as
# drivers are installed through them, but without entries that mean the current folder.
_NAME_CODE = frozenset({
    "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH", "OMP_TOOL_LIBRARIES",
    "CUDA_INJECTION32_PATH", "CUDA_INJECTION64_PATH", "OPENSSL_CONF", "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
})  # fmt: skip
_SEARCHED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "PATH")


def program(name: str, *arguments: str) -> list[str]:
    """The command line that runs one of PROGRAMS."""
    if is_frozen():
        return [str(Path(sys.executable).with_name(_ENGINE)), name, *arguments]
    return [sys.executable, "-P", "-m", "core", name, *arguments]


def is_frozen() -> bool:
    """Whether this process was started from an executable of an installed app."""
    return bool(getattr(sys, "frozen", False))


def restore_environment() -> None:
    """Take back what a frozen executable has set for itself, before anything else is started.

    Its loader has read it by then. A compiler or a browser would load our libraries for its own,
    and our engine would take itself for a part of the process that started it.
    """
    if not is_frozen():
        return
    original = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if original is not None:
        os.environ["LD_LIBRARY_PATH"] = original
    for name in [name for name in os.environ if name.startswith("_PYI_") or name in _QT_FINDS]:
        del os.environ[name]


def clean_environment(inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment (this process's own by default) without what names code to load.

    Of Python's variables only ours are left, which make this very source tree importable; a frozen
    program reads none.
    """
    source = os.environ if inherited is None else inherited
    kept = {
        name: value
        for name, value in source.items()
        if not name.upper().startswith("PYTHON") and name not in _NAME_CODE
    }
    for name in _SEARCHED:
        if name in kept:
            entries = kept[name].split(os.pathsep)
            kept[name] = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}


def hidden_window() -> int:
    """Creation flags of a child: Windows would open a console beside the window."""
    return 0x08000000 if sys.platform == "win32" else 0


def forbid_core_dumps() -> None:
    """Have the system write none of this process's memory to a file when it crashes: it may hold
    what people wrote. For this process and those that it starts."""
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    # At 1 byte Linux also starts no program that would be handed the dump.
    wanted = 1 if sys.platform == "linux" else 0
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def die_with_parent() -> None:
    """Have the system end this process when the one that started it ends, whatever this one does.

    On Linux. Elsewhere the end of its input has to do, and on Windows a job object.
    """
    if sys.platform != "linux":
        return
    import ctypes

    parent = os.getppid()
    set_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
