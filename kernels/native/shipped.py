"""The shipped kernels: a library for each processor level, built by `packaging/native`.

One is loaded only if its manifest names these sources and its bytes, and a child process has run
all its kernels here.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from core.system.private_files import write_whole
from kernels.common.capability import processor_facts
from kernels.native.build import (
    DiedError,
    RunError,
    keep_to_ourselves,
    run,
    scratch_in,
    sources_digest,
)
from kernels.native.levels import Level, machine

MANIFEST = "manifest.json"
_SHIPPED = Path(__file__).with_name("shipped")
# Of a library and of the program that tries it: that program is linked with a library so named.
SUFFIXES = {"linux": ".so", "darwin": ".dylib", "windows": ".dll"}
TRIED = "kernels"
_LONGEST_S = 20.0  # for a self-test, which takes some hundredths of a second
# An instruction that the processor doesn't have, as POSIX and Windows say it: it will never have.
_ILLEGAL = (-4, 0xC000001D)


class NoneShippedError(Exception):
    """Why, for a person; empty if there are none."""


def folder(system: str = "", architecture: str = "") -> Path:
    return _SHIPPED / f"{system or platform.system().lower()}-{architecture or machine()}"


def usable(levels: Collection[Level], cache: Path, check: Callable[[], None] | None = None) -> Path:
    """The library of the newest of `levels` that passes its self-test, which `cache` remembers.

    Raises NoneShippedError, and CannotCompileError if others could change `cache`.
    """
    digests = _digests()
    try:
        keep_to_ourselves(cache)
        faults = []
        for level in reversed(tuple(levels)):
            path = folder() / f"{level.name}{_suffix()}"
            if path.name in digests:
                fault = _fault(path, digests, cache, check)
                if not fault:
                    return path
                faults.append(f"{level.name}: {fault}")
    except OSError as error:
        raise NoneShippedError(
            f"the kernels for this processor could not be tried: {error}"
        ) from error
    raise NoneShippedError("; ".join(faults) or "no kernels are there for this processor")


def _suffix() -> str:
    return SUFFIXES.get(platform.system().lower(), ".so")


def _digests() -> dict[str, str]:
    try:
        text = (folder() / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NoneShippedError from None
    except (OSError, UnicodeDecodeError) as error:
        raise NoneShippedError(f"their manifest can't be read: {error}") from error
    try:
        manifest: Any = json.loads(text)
        sources, digests = manifest["sources"], dict(manifest["sha256"])
    except (ValueError, TypeError, KeyError) as error:
        raise NoneShippedError("the manifest of the kernels that came along is damaged") from error
    if sources != sources_digest():
        raise NoneShippedError("the kernels that came along were made from other sources")
    return digests


def _fault(
    path: Path, digests: dict[str, str], cache: Path, check: Callable[[], None] | None
) -> str:
    """Why a library must not be loaded; empty if it may be."""
    program = path.with_name("check.exe" if sys.platform == "win32" else "check")
    files = {f"{TRIED}{path.suffix}": path, program.name: program}
    data = {}
    for name, file in files.items():
        data[name] = file.read_bytes()
        if hashlib.sha256(data[name]).hexdigest() != digests.get(file.name):
            return f"{file.name} is not as it was made"
    facts = (digests[path.name], digests[program.name], processor_facts())
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]
    remembered = cache / f"tried-{key}"
    try:
        return remembered.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        fault, lasts = _tried(data, program.name, cache, check)
    if lasts:
        write_whole(remembered, fault.encode())
    return fault


def _tried(
    data: dict[str, bytes], program: str, cache: Path, check: Callable[[], None] | None
) -> tuple[str, bool]:
    """The failure of `program`, which calls all kernels, and whether to remember it."""
    with scratch_in(cache) as scratch:
        for name, contents in data.items():
            (scratch / name).write_bytes(contents)
        command = scratch / program
        command.chmod(0o700)
        try:
            run([str(command)], scratch, time.monotonic() + _LONGEST_S, check)
        except DiedError as error:
            illegal = error.status in _ILLEGAL
            fault = (
                "this processor lacks an instruction"
                if illegal
                else f"its self-test failed ({error.status})"
            )
            return fault, illegal
        except RunError as error:
            return str(error), False
    return "", True
