"""Compiles the C kernels with the system's compiler, once per processor.

Without one, plain torch computes the same operations more slowly.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil

from core.system.private_files import UNFINISHED, NotPrivateError, private_folder, rename
from kernels.common.capability import processor_facts
from kernels.native.levels import NoSuchLevelError, wished

_KERNELS = Path(__file__).parents[1]
_CHECK = _KERNELS / "native" / "check.c"
_COMPILERS = ("cc", "gcc", "clang")
# For all of a build: 15 seconds on an idle machine, several times that on a busy one.
_LONGEST_S = 180.0
_SCRATCH = "building-"
# Files of a killed build are older than any build can be.
_LEFT_BEHIND_S = 600.0
_DIGEST_CHARACTERS = 32
# Warnings are for us: before an error they would be all that the user gets to see of it.
_FLAGS = (
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-pthread",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-w",
)

_GLANCE_S = 0.05
_LONGEST_REASON = 400
# Windows would open a console beside the window.
_NO_CONSOLE = 0x08000000 if sys.platform == "win32" else 0

Check = Callable[[], None]


class CannotCompileError(Exception):
    """Its text is for people."""


class RunError(Exception):
    """Its text is for people."""


class DiedError(RunError):
    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def built(folder: Path, check: Check | None = None) -> Path:
    """The library for this processor in `folder`, compiled if it is missing or damaged.

    Its name ends in its digest: loading a truncated file would crash the process. `check` is called
    meanwhile. Raises CannotCompileError.
    """
    try:
        keep_to_ourselves(folder)
        found = _whole(folder)
        return found if found is not None else _made(folder, check)
    except OSError as error:
        raise CannotCompileError(f"{folder} can't be written: {error}") from error


def keep_to_ourselves(folder: Path) -> None:
    """Writable by this user only, because its libraries are executed."""
    try:
        private_folder(folder)
    except NotPrivateError as error:
        raise CannotCompileError(f"{error.filename} is not used: {error.strerror}") from error


def _whole(folder: Path) -> Path | None:
    """The library, if its bytes match its name; damaged ones are deleted."""
    for path in folder.glob(f"kernels-{_digest()}-*.so"):
        try:
            if not path.is_symlink() and path.stem.rpartition("-")[2] == _digest_of(path):
                return path
        except FileNotFoundError:
            continue  # another process found it damaged, too
        path.unlink(missing_ok=True)
    return None


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGEST_CHARACTERS]


def _made(folder: Path, check: Check | None) -> Path:
    with scratch_in(folder) as scratch:
        part = scratch / "kernels.so"
        try:
            _make(part, check)
        except RunError as error:
            raise CannotCompileError(str(error)) from error
        # Otherwise a power cut may leave a file that has its name and not all of its bytes.
        with part.open("rb") as file:
            os.fsync(file.fileno())
        path = folder / f"kernels-{_digest()}-{_digest_of(part)}.so"
        rename(part, path)  # whole or not at all, whoever else compiles meanwhile
    return path


@contextlib.contextmanager
def scratch_in(folder: Path) -> Iterator[Path]:
    """A temporary folder. Also removes folders that killed builds left."""
    _clear_left_behind(folder)
    # Windows keeps a program that has just run from being deleted, now and then.
    with tempfile.TemporaryDirectory(
        dir=folder, prefix=_SCRATCH, ignore_cleanup_errors=True
    ) as scratch:
        yield Path(scratch)


def _clear_left_behind(folder: Path) -> None:
    for left in (*folder.glob(f"{_SCRATCH}*"), *folder.glob(f"{UNFINISHED}*")):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime <= _LEFT_BEHIND_S:
                continue
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()


def _make(target: Path, check: Check | None) -> None:
    """Compile, then run every kernel in a child process, which may crash."""
    deadline = time.monotonic() + _LONGEST_S
    folder, compiler = target.parent, _compiler()
    # By a name without a folder, which some systems would write into the library.
    flags = [*_flags(), "-I", str(_KERNELS)]
    sources = sorted(str(each) for each in _KERNELS.glob("*/*.c") if each != _CHECK)
    library = [*compiler, *flags, *sources, "-o", f"./{target.name}", "-lm"]
    flags = ["-std=gnu11", "-w", "-I", str(_KERNELS)]
    program = [*compiler, *flags, str(_CHECK), f"./{target.name}", "-o", "./check"]
    for command in (library, program, ["./check"]):
        run(command, folder, deadline, check)


def _compiler() -> list[str]:
    try:
        wish = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise CannotCompileError(f"CC is no command: {error}") from error
    for name in (wish[:1] or _COMPILERS) if os.name == "posix" else ():
        found = shutil.which(name)
        if found is not None and not _is_stand_in(found):
            return [found, *wish[1:]]
    raise CannotCompileError("no C compiler was found")


def _is_stand_in(compiler: str) -> bool:
    """A Mac without the command line tools has stubs that offer to install them."""
    if platform.system() != "Darwin" or Path(compiler).parent != Path("/usr/bin"):
        return False
    command = ["xcode-select", "-p"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode != 0
    except (OSError, subprocess.TimeoutExpired):
        return True


def _flags() -> list[str]:
    arm = platform.machine() in {"aarch64", "arm64"}
    widest = [] if arm else ["-mprefer-vector-width=512"]
    try:
        level = wished()
    except NoSuchLevelError as error:
        raise CannotCompileError(str(error)) from error
    chosen = level.flags if level is not None else ("-mcpu=native" if arm else "-march=native",)
    return [*_FLAGS, *chosen, *widest]


def _digest() -> str:
    """Everything that decides the compiled code, except the compiler's version."""
    digest = hashlib.blake2b(digest_size=8)
    system = platform.system(), platform.machine(), processor_facts()
    for part in (*_flags(), *system, sources_digest()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def sources_digest() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted([*_KERNELS.glob("*/*.c"), *_KERNELS.glob("*/*.h")]):
        digest.update(file.relative_to(_KERNELS).as_posix().encode() + b"\0")
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def run(command: list[str], folder: Path, deadline: float, check: Check | None = None) -> None:
    """Run a program in `folder`, until `deadline` (time.monotonic) at most.

    It gets no input, and a session of its own, so that its children end with it. Raises
    RunError.
    """
    said = folder / "said"
    try:
        with said.open("wb") as errors:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, "TMPDIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                creationflags=_NO_CONSOLE,
            )
    except OSError as error:
        raise RunError(f"{command[0]} could not be run: {error}") from error
    try:
        _wait(process, command[0], deadline, check)
    except BaseException:
        _end(process)
        raise
    if process.returncode != 0:
        words = said.read_bytes().decode(errors="replace").strip()
        reason = words[-_LONGEST_REASON:] or f"nothing, and ended with {process.returncode}"
        raise DiedError(f"{command[0]} said: {reason}", process.returncode)


def _wait(
    process: subprocess.Popen[bytes],
    name: str,
    deadline: float,
    check: Check | None,
) -> None:
    while True:
        try:
            process.wait(_GLANCE_S)
        except subprocess.TimeoutExpired:
            if check is not None:
                check()
            if time.monotonic() > deadline:
                raise RunError(f"{name} did not end, so it was ended") from None
        else:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        started = []
    ends: list[Callable[[], None]] = [partial(_end_group, process)]
    for end in (*ends, *(each.kill for each in started)):
        try:
            end()
        except (OSError, psutil.Error):
            continue  # it ended by itself meanwhile
    process.wait()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()  # what it started goes one by one
    else:
        os.killpg(process.pid, signal.SIGKILL)
