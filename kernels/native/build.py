"""Compiling the kernels in C with the system's own compiler, once for each processor.

Knows compilers and where what they made is kept; what is in it is the library's. A machine without
a compiler has plain torch, which is slower and as right.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from kernels.capability import processor_facts

_KERNELS = Path(__file__).parents[1]
_CHECK = _KERNELS / "native" / "check.c"
_COMPILERS = ("cc", "gcc", "clang")
_LONGEST_S = 120
_LONGEST_REASON = 400
# Warnings are for us: before an error they would be all that the user gets to see of it.
_FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-fno-math-errno", "-w")


class CannotCompileError(Exception):
    """Why there are no compiled kernels, for a person to read."""


def built(folder: Path) -> Path:
    """The library for this processor in `folder`, compiled if it isn't there.

    Raises CannotCompileError without a compiler, or when what it makes can't be kept.
    """
    path = folder / f"kernels-{_digest()}.so"
    if path.exists():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            part = Path(scratch) / path.name
            _make(part)
            _settle(part)
            os.replace(part, path)  # whole or not at all, whoever else compiles meanwhile
    except OSError as error:
        raise CannotCompileError(f"{folder} can't be written: {error}") from error
    return path


def _settle(path: Path) -> None:
    """Without it a power cut could leave a file that has its name and not all of its bytes."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _make(target: Path) -> None:
    """With OpenMP, so that prompts run on torch's own threads; without where there is none."""
    try:
        _compile(target, "-fopenmp")
    except CannotCompileError:
        _compile(target)


def _compile(target: Path, *more: str) -> None:
    # By a name without a folder, which some systems would write into the library.
    flags = [*_flags(), *more, "-I", str(_KERNELS)]
    _run([*_compiler(), *flags, *_sources(), "-o", f"./{target.name}", "-lm"], target.parent)
    _check(target)


def _check(library: Path) -> None:
    """What a compiler made can still end a process, so it ends another one first."""
    flags = ["-std=gnu11", "-w", "-I", str(_KERNELS)]
    _run([*_compiler(), *flags, str(_CHECK), f"./{library.name}", "-o", "./check"], library.parent)
    _run(["./check"], library.parent)


def _run(command: list[str], folder: Path) -> None:
    """In a session of its own, so that what a compiler starts ends with it; it may say anything
    in any language, and must not read what our own input is for."""
    try:
        done = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CannotCompileError(f"{command[0]} could not be run: {error}") from error
    with done:
        try:
            _, said = done.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(done.pid, signal.SIGKILL)
            raise CannotCompileError(f"{command[0]} could not be run: {error}") from error
    if done.returncode != 0:
        reason = said.strip()[-_LONGEST_REASON:] or f"nothing, and ended with {done.returncode}"
        raise CannotCompileError(f"{command[0]} said: {reason}")


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
    """On a Mac without the command line tools the compilers only ask whether to install them."""
    if platform.system() != "Darwin" or Path(compiler).parent != Path("/usr/bin"):
        return False
    return subprocess.run(["xcode-select", "-p"], capture_output=True, check=False).returncode != 0


def _flags() -> list[str]:
    arm = platform.machine() in {"aarch64", "arm64"}
    widest = [] if arm else ["-mprefer-vector-width=512"]
    return [*_FLAGS, "-mcpu=native" if arm else "-march=native", *widest]


def _sources() -> list[str]:
    return sorted(str(each) for each in _KERNELS.glob("*/*.c") if each != _CHECK)


def _digest() -> str:
    """Of all that decides what the compiler makes, its own version apart."""
    files = sorted([*_KERNELS.glob("*/*.c"), *_KERNELS.glob("*/*.h")])
    digest = hashlib.blake2b(digest_size=8)
    for part in (*_flags(), platform.system(), platform.machine(), processor_facts()):
        digest.update(part.encode() + b"\0")
    for file in files:
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()
