"""llama.cpp's programs for a processor level, built once from the source package of
llama-cpp-python, with build tools from the package index in an environment of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import platformdirs
from filelock import FileLock

from tests.bench.levels import LEVELS, Level

PACKAGE = "llama_cpp_python-0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
TOOLS = ("cmake==3.31.10", "ninja==1.13.0")
PROGRAMS = ("llama-bench", "llama-quantize", "llama-results", "llama-server")
NATIVE = "native"  # where no level has a name
LONGEST_S = 3600.0  # all of it; two cores compile it in some minutes
_LEFT_OUT = ("CURL", "OPENSSL", "BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_APP")


class BuildError(Exception):
    """Why there is no llama.cpp, for a person to read."""


def usual_folder() -> Path:
    return platformdirs.user_cache_path("waymark", appauthor=False) / "llama.cpp"


class Build:
    """llama.cpp for one level in `folder`; levels share all but the kernels and the programs."""

    def __init__(self, folder: Path, level: Level | None, say: Callable[[str], None]) -> None:
        self.home = folder.absolute() / PACKAGE
        self.level = NATIVE if level is None else level.name
        self._flags = flags(level)
        self._say = say
        self._end = time.monotonic() + LONGEST_S

    @property
    def source(self) -> Path:
        """The sources, which hold llama.cpp's converter of models too."""
        return self.home / "source"

    def program(self, name: str) -> Path:
        return self.home / "bin" / f"{name}-{self.level}"

    def build(self, jobs: int, programs: Collection[str] = PROGRAMS) -> None:
        """Build what isn't there yet. Raises BuildError."""
        self.home.mkdir(parents=True, exist_ok=True)
        with FileLock(self.home / "lock"):
            if not self.has(programs):
                self._say(f"building llama.cpp for {self.level} in {self.home}: minutes, once")
                self._build(jobs, programs)

    def has(self, programs: Collection[str]) -> bool:
        return all(self.program(name).exists() for name in programs)

    def _build(self, jobs: int, programs: Collection[str]) -> None:
        if not self.source.exists():
            self._fetch()
        tools, made = self._tools(), self.home / "build"
        cmake = [str(tools / "cmake"), "-S", str(self.source), "-B", str(made), "-G", "Ninja"]
        self.run([*cmake, f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", *self._flags])
        self.run([str(tools / "ninja"), "-C", str(made), "-j", str(jobs), *programs])
        (self.home / "bin").mkdir(exist_ok=True)
        for name in programs:
            part = self.program(name).with_suffix(".part")
            shutil.copy2(made / "bin" / name, part)
            part.replace(self.program(name))

    def run(self, command: list[str], more: Mapping[str, str] | None = None) -> None:
        """Run a command for LONGEST_S at most, with `more` in its environment, and keep its output.
        Raises BuildError."""
        log = self.home / "log"
        with log.open("ab") as said:
            try:
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=True,
                    env={**os.environ, **(more or {})},
                    timeout=max(0.0, self._end - time.monotonic()),
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError) as error:
                raise BuildError(f"llama.cpp was not built; {log} says more: {error}") from error

    def _fetch(self) -> None:
        """The source package, whose bytes are the known ones or none."""
        with tempfile.TemporaryDirectory(dir=self.home) as place:
            scratch = Path(place)
            wish = scratch / "wish.txt"
            wish.write_text(f"{PACKAGE.replace('-', '==')} --hash=sha256:{SHA256}\n")
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
            self.run([*pip, "--no-binary", "llama-cpp-python", "-r", str(wish), "-d", place])
            with tarfile.open(scratch / f"{PACKAGE}.tar.gz") as archive:
                archive.extractall(scratch, filter="data")
            (scratch / PACKAGE / "vendor" / "llama.cpp").rename(self.source)

    def _tools(self) -> Path:
        """The folder of cmake and ninja."""
        place = self.home / "tools"
        venv.create(place, with_pip=True)
        binaries = place / "bin"
        self.run([str(binaries / "python"), "-m", "pip", "install", *TOOLS])
        return binaries


def flags(level: Level | None) -> Iterable[str]:
    """Options of cmake: the instructions of the level and no others."""
    chosen = {name for each in LEVELS for name in each.llama}
    wanted = () if level is None else level.llama
    given = {f"GGML_{name}": name in wanted for name in sorted(chosen) if level is not None}
    given |= {f"LLAMA_{name}": False for name in _LEFT_OUT}
    # A folder that an earlier version configured has it off.
    given["LLAMA_BUILD_SERVER"] = True
    given |= {"GGML_NATIVE": level is None, "GGML_CCACHE": False, "BUILD_SHARED_LIBS": False}
    switches = [f"-D{name}={'ON' if value else 'OFF'}" for name, value in given.items()]
    return ["-DCMAKE_BUILD_TYPE=Release", *switches]
