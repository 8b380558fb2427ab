"""Compiles the kernels in C for every level of processors, to go along with a wheel or installer.

    python packaging/native/libraries.py [SYSTEM-MACHINE ...] [--to FOLDER]

The compiler is a package of a fixed version, in an environment of its own under build/: of equal
sources it makes equal bytes wherever it runs. kernels/native/shipped.py says where the libraries
lie, and reads the manifest that is written beside them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from kernels.native.build import sources_digest
from kernels.native.levels import LEVELS, Level
from kernels.native.shipped import MANIFEST, SUFFIXES, TRIED, folder

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
CHECK = "native/check.c"
COMPILER = Path(__file__).with_name("compiler.txt")
BUILD = ROOT / "build" / "native"
TARGETS = {
    ("linux", "x86_64"): "x86_64-linux-gnu.2.28",
    ("linux", "arm64"): "aarch64-linux-gnu.2.28",
    ("windows", "x86_64"): "x86_64-windows-gnu",
    ("darwin", "arm64"): "aarch64-macos.13.0",
}
# Loops over weights wait for memory: unrolled further, or beginning anywhere, they are slower by a
# tenth to a third where a matrix comes from memory.
FLAGS = (
    *("-O3", "-std=gnu11", "-pthread", "-fno-math-errno", "-w", "-g0", "-s"),
    *("-mllvm", "-unroll-runtime=false", "-falign-loops=64"),
)


def main() -> None:
    names = {f"{system}-{machine}": (system, machine) for system, machine in TARGETS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wanted", nargs="*", metavar="SYSTEM-MACHINE", help=", ".join(names))
    parser.add_argument("--to", type=Path, help="instead of the folder from which they are loaded")
    chosen = parser.parse_args()
    if unknown := set(chosen.wanted) - set(names):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    compiler = installed()
    for name in chosen.wanted or names:
        system, machine = names[name]
        build(compiler, system, machine, chosen.to / name if chosen.to else folder(system, machine))


def installed() -> list[str]:
    """The command that compiles C; installs the compiler if needed."""
    wanted = hashlib.sha256(COMPILER.read_bytes()).hexdigest()[:16]
    home = BUILD / f"compiler-{wanted}"
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = home / "done"
    if not done.exists():
        venv.create(home, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(COMPILER)], check=True)
        done.touch()
    return [str(python), "-m", "ziglang", "cc"]


def build(
    compiler: list[str], system: str, machine: str, to: Path, wanted: list[Level] | None = None
) -> None:
    """All libraries for a system, the program that tries them, and the manifest, in place of what
    was there."""
    digests: dict[str, str] = {}
    flags: dict[str, list[str]] = {}
    command = [*compiler, "-target", TARGETS[system, machine], "-I", "."]
    if system == "windows":
        command += ["-include", "native/on_windows.h"]
    suffix = SUFFIXES[system]
    with tempfile.TemporaryDirectory() as scratch:
        made, library = Path(scratch), Path(scratch) / f"{TRIED}{suffix}"
        new = made / "new"
        new.mkdir()
        for level in wanted or levels(system, machine):
            print(f"{system}-{machine} {level.name}", flush=True)
            flags[level.name] = [*FLAGS, *level_flags(level)]
            objects = []
            for source in sources():
                objects.append(str(made / source.replace("/", "-")) + ".o")
                compile_c([*command, *flags[level.name], "-fPIC", "-c", source], objects[-1])
            # What the compiler adds of its own is for any processor, and made once.
            oldest = next(iter(flags.values()))
            compile_c([*command, *oldest, *shared(system, made), *objects], library)
            if not digests:  # any of them serves to link with
                program = made / ("check.exe" if system == "windows" else "check")
                linked = made / f"{TRIED}.lib" if system == "windows" else library
                compile_c([*command, *oldest, CHECK, str(linked)], program)
                digests[program.name] = moved(program, new / program.name)
            name = f"{level.name}{suffix}"
            digests[name] = moved(library, new / name)
        manifest = {
            "sources": sources_digest(),
            "compiler": re.findall(r"^\S+==\S+", COMPILER.read_text("utf-8"), re.MULTILINE),
            "flags": flags,
            "sha256": digests,
        }
        text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
        (new / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(new, to)


def levels(system: str, machine: str) -> list[Level]:
    """The levels with code of their own; the request for AMX tiles is specific to Linux."""
    found = [each for each in LEVELS if each.machine == machine]
    return [each for each in found if system == "linux" or not each.name.endswith("-amx")]


def level_flags(level: Level) -> list[str]:
    """The level's flags in this compiler's syntax: a processor's name, then features."""
    march, *more = level.flags
    base = march.removeprefix("-march=").replace("armv8.2-a", "generic+v8_2a")
    base = base.replace("armv8-a", "generic")
    features = "".join("+" + flag.removeprefix("-m") for flag in more)
    widest = ["-mprefer-vector-width=512"] if level.machine == "x86_64" else []
    return ["-mcpu=" + (base + features).replace("-", "_"), *widest]


def sources() -> list[str]:
    """Names relative to the kernels, so that paths of this machine are in no library."""
    found = (each.relative_to(KERNELS).as_posix() for each in KERNELS.glob("*/*.c"))
    return sorted(each for each in found if each != CHECK)


def shared(system: str, made: Path) -> list[str]:
    """Flags for a shared library that the test program finds in its current folder."""
    flags = ["-shared"]
    if system == "windows":
        return [*flags, f"-Wl,--out-implib,{made / TRIED}.lib"]
    if system == "darwin":
        return [*flags, f"-Wl,-install_name,@loader_path/{TRIED}.dylib"]
    return [*flags, f"-Wl,-soname,./{TRIED}.so", "-lm"]


def compile_c(command: list[str], to: Path | str) -> None:
    cache = str(BUILD / "cache")
    own = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    subprocess.run([*command, "-o", str(to)], cwd=KERNELS, env={**os.environ, **own}, check=True)


def moved(path: Path, to: Path) -> str:
    path.rename(to)
    return hashlib.sha256(to.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
