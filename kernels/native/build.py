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
import subprocess
import tempfile
from pathlib import Path

from kernels.capability import processor_facts

_KERNELS = Path(__file__).parents[1]
_CHECK = _KERNELS / "native" / "check.c"
_COMPILERS = ("cc", "gcc", "clang")
_LONGEST_S = 120
# An old or strange compiler may know some instructions and not others; the plain ones all know.
_FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-fno-math-errno")


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
            os.replace(part, path)  # whole or not at all, whoever else compiles meanwhile
    except OSError as error:
        raise CannotCompileError(f"{folder} can't be written: {error}") from error
    return path


def _make(target: Path) -> None:
    """With OpenMP, so that prompts run on torch's own threads; without where there is none."""
    try:
        _compile(target, "-fopenmp")
    except CannotCompileError:
        _compile(target, "-Wno-unknown-pragmas")


def _compile(target: Path, flag: str) -> None:
    flags = [*_flags(), flag, "-I", str(_KERNELS)]
    _run([*_compiler(), *flags, *_sources(), "-o", str(target), "-lm"])
    _check(target)


def _check(library: Path) -> None:
    """What a compiler made can still end a process, so it ends another one first."""
    program = library.with_name("check")
    flags = ["-std=gnu11", "-I", str(_KERNELS)]
    _run([*_compiler(), *flags, str(_CHECK), str(library), "-o", str(program)])
    _run([str(program)])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LONGEST_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCompileError(f"{command[0]} could not be run: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip()[:400] or f"nothing, and ended with {done.returncode}"
        raise CannotCompileError(f"{command[0]} said: {said}")


def _compiler() -> list[str]:
    wish = shlex.split(os.environ.get("CC", ""))
    for name in (wish[:1] or _COMPILERS) if os.name == "posix" else ():
        found = shutil.which(name)
        if found is not None:
            return [found, *wish[1:]]
    raise CannotCompileError("no C compiler was found")


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
