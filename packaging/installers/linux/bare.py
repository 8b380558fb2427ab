"""A bare Debian in a folder, in which a trial installs the package."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[3]
TRIED = ROOT / "build" / "installers" / "tried"
SUITE = "bookworm"
HOME = Path("/home/person")
PICTURE = HOME / "three-shapes.png"

PATIENCE_S = 180.0
Found = TypeVar("Found")


class Failed(Exception):
    """An expectation of the trial was not met."""


def until(look: Callable[[], Found], what: str) -> Found:
    """Wait until `look` returns something true, and return it. Raises Failed after some minutes."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        if time.monotonic() > end:
            raise Failed(what)
        time.sleep(0.1)
    return found


def check(holds: bool, what: str) -> None:
    """Raises Failed unless it holds."""
    if not holds:
        raise Failed(what)


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    subprocess.run([str(word) for word in command], env=env, check=True)


class Bare:
    """A Debian of its own, with what the package depends on and nothing else."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.path = TRIED / "root"

    def make(self) -> None:
        """Unpack it anew; what it needs of the network is kept for the next time."""
        field = subprocess.check_output(["dpkg-deb", "-f", self.package, "Depends"], text=True)
        names = sorted({part.split()[0] for part in field.split(",")})
        kept = TRIED / f"{hashlib.sha256(' '.join(names).encode()).hexdigest()[:16]}.tar"
        if not kept.exists():
            TRIED.mkdir(parents=True, exist_ok=True)
            include = f"--include={','.join(names)}"
            made = kept.with_suffix(".part.tar")
            run("mmdebstrap", "--quiet", "--variant=minbase", include, SUITE, made)
            made.rename(kept)
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        run("tar", "-xpf", kept, "--numeric-owner", "-C", self.path)
        for name in ("python3", "cc", "gcc", "clang"):
            check(not self.has(name), f"a bare system has no {name}")
        self.call("useradd", "--create-home", "--uid", "1000", "person")
        shutil.copy(ROOT / "resources" / "samples" / PICTURE.name, self.at(PICTURE))

    def has(self, name: str) -> bool:
        return any((self.path / folder / name).exists() for folder in ("usr/bin", "usr/local/bin"))

    def at(self, inside: Path) -> Path:
        """The path outside of a path inside."""
        return self.path / inside.relative_to("/")

    def command(self, *words: str, user: int = 0, display: str = "") -> list[str]:
        """Runs words in it, without a network; all that they start ends with them."""
        mounts = (
            'mount -t proc proc "$0/proc";'
            'for each in sys dev; do mount --rbind "/$each" "$0/$each"; done;'
            'mkdir -p "$0/tmp/.X11-unix"; mount --bind /tmp/.X11-unix "$0/tmp/.X11-unix";'
            'exec chroot --userspec "$1" "$0" env -i "${@:2}"'
        )
        told = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(HOME) if user else "/root",
            "LANG": "C.UTF-8",
            "DISPLAY": display,
        }
        apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
        inside = ["bash", "-c", mounts, str(self.path), f"{user}:{user}"]
        return [*apart, *inside, *(f"{name}={value}" for name, value in told.items()), *words]

    def call(self, *words: str) -> None:
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"{' '.join(words)} succeeds: {done.stdout}{done.stderr}")

    def unpacked(self, archive: Path) -> str:
        """Unpack a portable archive as the user; returns the program that starts it."""
        folder = self.at(HOME / "a folder")
        folder.mkdir()
        run("tar", "-xf", archive, "-C", folder)
        run("chown", "-R", "1000:1000", folder)
        return f"{HOME}/{folder.name}/{archive.name.removesuffix('.tar.zst')}/AppRun"

    def files(self) -> set[str]:
        found = set()
        for folder, folders, names in os.walk(self.path):
            inside = Path("/", Path(folder).relative_to(self.path))
            found |= {str(inside / name) for name in (*folders, *names)}
        return {
            name for name in found if not name.startswith(("/proc", "/sys", "/dev", "/tmp/.X11"))
        }
