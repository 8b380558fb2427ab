"""Tests the kernels and a conversation on emulated arm64 processors, on Linux for x86.

    python packaging/native/try_arm64.py [--cache FOLDER] [--workers N] [PYTEST-ARGUMENT ...]

It needs root, qemu-user-static, mmdebstrap and arch-test, and the network once: a Debian for arm64
with the locked packages is installed into the cache folder. Each step is either finished or absent,
so an interrupted run resumes. Every processor must choose its own level and pass the kernel tests;
the newest one also describes a picture and continues the chat after a restart. Emulation is exact
but says nothing about speed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from libraries import ROOT, build, installed
from packaging.requirements import Requirement

# What qemu calls a processor of each level; pointer authentication and SVE only take time.
PROCESSORS = {
    "arm64": "cortex-a72",  # Raspberry Pi 4
    "arm64-dot": "cortex-a76",  # Raspberry Pi 5, Apple M1
    "arm64-i8mm": "max,sve=off,pauth=off",  # Apple M2, Snapdragon X
}
PROGRAMS = {
    "qemu-aarch64-static": "qemu-user-static",
    "mmdebstrap": "mmdebstrap",
    "arch-test": "arch-test",  # which mmdebstrap asks for other processors
}
SUITE = "bookworm"
PYTHON = {"python_full_version": "3.11.2", "python_version": "3.11", "platform_machine": "aarch64"}
GLIBC = range(17, 37)  # minor versions that this Debian's 2.36 runs wheels of
# The newest torch whose build for arm64 on PyPI needs no CUDA. It lacks one function of the newer.
TORCH = (
    "torch==2.9.1 --hash=sha256:62b3fd888277946918cba4478cf849303da5359f0fb4e3bfb86b0533ba2eaf8d"
)
CAPABILITIES = """

def get_capabilities():
    import os
    return {"architecture": "aarch64", "neon": True, os.environ["QEMU_CPU"]: True}
"""
# Packages of the lock that neither kernels nor engine import.
UNUSED = re.compile(
    r"clang-format|ruff|(ast-)?serialize|mypy|librt|types-|import-linter|grimp|pyside6|shiboken6"
    r"|pytest-qt|qasync|triton|transformers|hf-xet|huggingface|httpx|httpcore|setuptools"
)
PYTEST = (
    *("-m", "pytest", "-q", "-m", "not gpu", "--import-mode=importlib", "--timeout=1200"),
    *("-c", "/dev/null", "--rootdir=/waymark", "-p", "no:cacheprovider"),  # not the project's
)
# They measure time, load all cores, or try the levels of other processors, which have their turn.
EXCEPT = ("test_cpu", "test_thread_pool", "test_levels")
BINFMT = Path("/proc/sys/fs/binfmt_misc")
# The start of every program for arm64, and the bits of it that count.
MAGIC = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe" + r"\xff" * 3
INSIDE = Path("/waymark")
PACKAGES = "usr/local/lib/python3.11/dist-packages"
QUESTION = "What is in the picture?"
SHAPES = ("circle", "star", "triangle")


class Failed(Exception):
    """An expectation was not met, or something is missing; for a person to read."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--workers", default="0", help="test processes, as pytest-xdist's -n")
    chosen, arguments = parser.parse_known_args()
    try:
        require()
        register()
        root = debian(chosen.cache.resolve())
        packages(root)
        sources(root)
        for level, processor in PROCESSORS.items():
            with_kernels(root, level, processor, ["-n", chosen.workers, *arguments])
        converse(root, PROCESSORS["arm64-i8mm"])
    except Failed as failed:
        print(f"FAILED: {failed}", file=sys.stderr)
        return 1
    print("The kernels are right on every level of arm64, and the engine answers.")
    return 0


def default_cache() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "waymark-arm64"


def require() -> None:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Failed("this emulates arm64 on Linux for x86; on arm64 run make test")
    missing = [package for name, package in PROGRAMS.items() if shutil.which(name) is None]
    if missing:
        raise Failed(f"programs are missing: sudo apt-get install {' '.join(missing)}")
    if os.geteuid() != 0:
        raise Failed("only root can register an emulator and enter another root: use sudo")


def register() -> None:
    """Let the kernel start programs for arm64, as the package does where systemd runs.

    `F` opens the emulator now, because there is none inside the other root.
    """
    if not (BINFMT / "register").exists():
        mounted = subprocess.run(["mount", "-t", "binfmt_misc", "none", BINFMT], check=False)
        if mounted.returncode:
            raise Failed("binfmt_misc can't be mounted; in a container, register qemu on the host")
    entries = [each.read_text() for each in BINFMT.glob("*-aarch64")]
    if not any("enabled" in each and re.search(r"^flags: .*F", each, re.M) for each in entries):
        print("registering qemu for arm64 until the next boot", flush=True)
        emulator = shutil.which("qemu-aarch64-static")
        (BINFMT / "register").write_text(f":waymark-aarch64:M::{MAGIC}:{MASK}:{emulator}:F")


def debian(cache: Path) -> Path:
    root, part = cache / "root", cache / "root.part"
    if not root.exists():
        print(f"installing Debian for arm64 into {root}", flush=True)
        shutil.rmtree(part, ignore_errors=True)
        cache.mkdir(parents=True, exist_ok=True)
        include = "--include=python3,ca-certificates,libgomp1"
        options = ("--quiet", "--architectures=arm64", "--variant=minbase", include)
        run("mmdebstrap", *options, SUITE, part)
        part.rename(root)
    return root


def packages(root: Path) -> None:
    """Install the locked packages for arm64, again if the lock has changed."""
    lock = f"{TORCH}\n{locked()}"
    digest = hashlib.sha256(lock.encode()).hexdigest()
    folder, part = root / PACKAGES, root / "packages.part"
    stamp = folder / "digest"
    if stamp.exists() and stamp.read_text() == digest:
        return
    print("installing the locked packages for arm64", flush=True)
    for each in (folder, part):
        shutil.rmtree(each, ignore_errors=True)
    wanted = root / "lock.txt"
    wanted.write_text(lock)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    wheels = [f"--platform=manylinux_2_{minor}_aarch64" for minor in reversed(GLIBC)]
    wheels += ["--platform=manylinux2014_aarch64", "--python-version=3.11", "--implementation=cp"]
    exactly = ("--require-hashes", "--no-deps", "--only-binary=:all:")
    run(*pip, *exactly, *wheels, "--target", part, "-r", wanted)
    with (part / "torch" / "cpu" / "__init__.py").open("a") as file:
        file.write(CAPABILITIES)
    (part / "waymark.pth").write_text(f"{INSIDE}\n")
    (part / "digest").write_text(digest)
    part.rename(folder)


def locked() -> str:
    """The lock's entries for that Python and processor, without their conditions."""
    text = (ROOT / "requirements-check.lock").read_text("utf-8")
    found = []
    for entry in re.findall(r"^\w.*(?:\n +--hash=.*)+", text, re.M):
        first, *hashes = entry.split(" \\\n")
        wanted = Requirement(first)
        holds = wanted.marker is None or wanted.marker.evaluate(PYTHON)
        if holds and not UNUSED.match(wanted.name):
            found.append(" \\\n".join([f"{wanted.name}{wanted.specifier}", *hashes]))
    return "\n".join(found) + "\n"


def sources(root: Path) -> None:
    """Copy the working tree, and compile its kernels for every level."""
    to = root / INSIDE.relative_to("/")
    shutil.rmtree(to, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)
    build(installed(), "linux", "arm64", to / "kernels/native/shipped/linux-arm64")


def with_kernels(root: Path, level: str, processor: str, arguments: Sequence[str]) -> None:
    """The processor chooses its level, and the kernel tests pass with it."""
    choice = (
        "from pathlib import Path; from kernels.native import levels, shipped;"
        "print(shipped.usable(levels.executable(), Path('/tmp/cache')).stem)"
    )
    chosen = inside(root, processor, "-c", choice).strip()
    check(chosen == level, f"{processor} uses {level}, not {chosen}")
    began = time.monotonic()
    inside(root, processor, *PYTEST, *arguments, *kernel_tests(), shown=True)
    print(f"{level} on {processor}: {time.monotonic() - began:.0f} s", flush=True)


def kernel_tests() -> list[str]:
    """The tests that call compiled kernels, but for EXCEPT."""
    found = sorted((ROOT / "tests" / "kernels").rglob("test_*.py"))
    calling = [each for each in found if "NEEDS_COMPILER" in each.read_text("utf-8")]
    return [str(each.relative_to(ROOT)) for each in calling if each.stem not in EXCEPT]


def converse(root: Path, processor: str) -> None:
    """A picture is described, a second question continues, and a restart changes nothing."""
    picture = str(INSIDE / "resources/samples/three-shapes.png")
    steps: list[dict[str, object]] = [
        {"op": "send", "chat": "a", "content": [{"image": picture}, {"text": QUESTION}]},
        {"op": "send", "chat": "a", "content": "How many shapes are there?"},
        {"op": "settle", "chat": "a"},
        {"op": "restart"},
        {"op": "regenerate", "chat": "a"},
    ]
    script = {"sampling": {"temperature": 0, "max_tokens": 48}, "steps": steps}
    (root / INSIDE.relative_to("/") / "script.json").write_text(json.dumps(script))
    began = time.monotonic()
    options = ("--model", "resources/models/demo", "--device", "cpu", "--dtype", "int8")
    said = inside(root, processor, "-m", "core.replay", "script.json", *options)
    print(f"a conversation on {processor}: {time.monotonic() - began:.0f} s", flush=True)
    first, second, *_, again = [json.loads(line) for line in said.splitlines()]
    print(f"{QUESTION} {first['reply']}", flush=True)
    check(all(shape in first["reply"] for shape in SHAPES), f"the picture has {SHAPES}")
    check(second["reused_tokens"] > 0, "the second question reuses what the first one read")
    check(again["restored_from"] == "disk", "the chat continues from disk after a restart")
    check(again["reply_ids"] == second["reply_ids"], "a restart does not change the reply")


def inside(root: Path, processor: str, *words: str, shown: bool = False) -> str:
    """Run Python in the root, without a network; all that it starts ends with it."""
    mounts = (
        'mount -t tmpfs tmpfs "$0/tmp"; mount -t proc proc "$0/proc";'
        'for each in sys dev; do mount --rbind "/$each" "$0/$each"; done;'
        'chroot "$0" env -i -C /waymark "$@"; exit $?'
    )
    given = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "QEMU_CPU": processor,
        "XDG_CACHE_HOME": f"/tmp/{processor}",
    }
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    settings = [f"{name}={value}" for name, value in given.items()]
    command = [*apart, "sh", "-ec", mounts, str(root), *settings, "python3", *words]
    done = subprocess.run(
        command, stdout=None if shown else subprocess.PIPE, text=True, check=False
    )
    check(done.returncode == 0, f"{' '.join(words)} succeeds on {processor}")
    return done.stdout or ""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)


def run(*command: str | Path) -> None:
    if subprocess.run(command, check=False).returncode:
        raise Failed(f"{' '.join(map(str, command))} failed")


if __name__ == "__main__":
    sys.exit(main())
