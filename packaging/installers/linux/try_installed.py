"""Tries the package as a person would, in a bare Debian: no network, no Python, no compiler.

    sudo python packaging/installers/linux/try_installed.py [--keep] [--pictures FOLDER]

Installs the package into a new root (mmdebstrap), starts the window there as an ordinary user on a
screen of its own (Xvfb), drops a sample picture on it, asks, and checks the answer and what was
reused in the file of chats; starts anew and goes on; removes the package and looks what is left;
goes on with the portable archive, unpacked by that user.

It needs root, for the root and its mounts; mmdebstrap, Xvfb, xdotool and ImageMagick; the network
once, for the root's packages; 3 GB under build/. Pointer and keys are all that it moves.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "installers"
TRIED = BUILD / "tried"
SUITE = "bookworm"
HOME = Path("/home/person")
PICTURE = HOME / "three-shapes.png"
# What a person has when there was a program: chats and settings, and what is made again when lost.
THEIRS = [
    re.compile(str(HOME / name) + r"(/|$)")
    for name in (".local/share/waymark", ".config/waymark", ".cache")
]
# The folders above, and what Debian itself writes of every package that comes and goes.
PASSING = re.compile(
    rf"{HOME}/(\.local(/share)?|\.config)$|/var/lib/dpkg/|/var/log/|/var/cache/(ldconfig|fontconfig)"
    r"|/etc/ld\.so\.cache$"
)
PATIENCE_S = 180.0
Found = TypeVar("Found")


class Failed(Exception):
    """What was not as it should be."""


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
        """Whether there is such a program."""
        return any((self.path / folder / name).exists() for folder in ("usr/bin", "usr/local/bin"))

    def at(self, inside: Path) -> Path:
        """Where a path of it lies for us."""
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
        """Run something as its root."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"{' '.join(words)} succeeds: {done.stdout}{done.stderr}")

    def unpacked(self, archive: Path) -> str:
        """What starts a portable archive that its person has unpacked."""
        folder = self.at(HOME / "a folder")
        folder.mkdir()
        run("tar", "-xf", archive, "-C", folder)
        run("chown", "-R", "1000:1000", folder)
        return f"{HOME}/{folder.name}/{archive.name.removesuffix('.tar.zst')}/AppRun"

    def files(self) -> set[str]:
        """All there are."""
        found = set()
        for folder, folders, names in os.walk(self.path):
            inside = Path("/", Path(folder).relative_to(self.path))
            found |= {str(inside / name) for name in (*folders, *names)}
        return {
            name for name in found if not name.startswith(("/proc", "/sys", "/dev", "/tmp/.X11"))
        }


class Screen:
    """A screen that nobody sees, with pointer and keys."""

    def __init__(self, display: str, pictures: Path | None) -> None:
        self.display = display
        self._pictures = pictures
        self._taken = 0

    def __call__(self, *words: str | int) -> str:
        """What xdotool says to this."""
        command = ["xdotool", *map(str, words)]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, check=True
        ).stdout.strip()

    def environment(self) -> dict[str, str]:
        return {**os.environ, "DISPLAY": self.display}

    def window(self, name: str) -> int:
        """The window of this name, once it can be seen."""

        def found() -> str:
            with contextlib.suppress(subprocess.CalledProcessError):
                return self("search", "--onlyvisible", "--name", f"^{name}$").split()[0]
            return ""

        return int(until(found, f"a window {name} is seen"))

    def picture(self, name: str) -> None:
        """Take one, if pictures were asked for."""
        if self._pictures is not None:
            self._taken += 1
            self._pictures.mkdir(parents=True, exist_ok=True)
            target = self._pictures / f"{self._taken}-{name}.png"
            run("import", "-window", "root", target, env=self.environment())

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """With the button held, in steps, as a hand does."""
        self("mousemove", *start, "mousedown", 1)
        for step in range(1, 21):
            at = [a + (b - a) * step // 20 for a, b in zip(start, end, strict=True)]
            self("mousemove", *at)
            time.sleep(0.03)
        time.sleep(0.3)
        self("mouseup", 1)


@contextlib.contextmanager
def screen(pictures: Path | None) -> Iterator[Screen]:
    """One that ends with the block."""
    read, write = os.pipe()
    # Left by its last client it would begin anew, and whoever connects meanwhile is thrown out.
    options = ["-screen", "0", "1280x860x24", "-ac", "-noreset"]
    command = ["Xvfb", "-displayfd", str(write), *options]
    process = subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL)
    try:
        os.close(write)
        with os.fdopen(read) as number:
            yield Screen(f":{number.readline().strip()}", pictures)
    finally:
        process.terminate()
        process.wait()


class Session:
    """The window in the bare system, from its start to its end, and the hand that moves it."""

    def __init__(self, bare: Bare, shown: Screen, program: str = "waymark") -> None:
        self._bare, self._shown = bare, shown
        command = bare.command(program, user=1000, display=shown.display)
        self._errors = TRIED / "window.txt"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdout=errors, stderr=errors)
        try:
            self._window = shown.window("Waymark")
        except Failed as failed:
            raise Failed(f"{failed}; it said: {self._errors.read_text()[-2000:]}") from None
        shown("windowfocus", "--sync", self._window)

    def drop(self, path: Path) -> None:
        """Drag a file's picture from another window onto the conversation."""
        source = [sys.executable, str(Path(__file__).with_name("drag_source.py")), str(path)]
        process = subprocess.Popen(source, env=self._shown.environment())
        self._shown.window("Drag source")
        self._shown.drag((1215, 825), (580, 300))
        check(process.wait(timeout=20) == 0, "the picture was taken where it was dropped")

    def ask(self, question: str) -> None:
        """Write it into the message field and send it."""
        self._shown("windowfocus", "--sync", self._window)
        self._shown("key", "ctrl+l")
        self._shown("type", "--delay", 20, question)
        self._shown("key", "Return")

    def open_newest(self) -> None:
        """The first chat of the list."""
        self._shown("mousemove", "--window", self._window, 110, 195, "click", 1)

    def answers(self, number: int) -> list[dict[str, Any]]:
        """All finished replies, once there are so many: text and the engine's counters."""
        return until(lambda: self._finished(number), f"reply {number} is finished")

    def _finished(self, number: int) -> list[dict[str, Any]]:
        check(self._process.poll() is None, f"the window stays: {self._errors.read_text()[-2000:]}")
        file = self._bare.at(HOME / ".local/share/waymark/chats.db")
        if not file.exists():
            return []
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "SELECT chat, text, finish_reason, stats FROM replies"
                " JOIN messages ON id = message WHERE finish_reason IS NOT NULL ORDER BY id"
            ).fetchall()
        found = [
            {"chat": row[0], "text": row[1], "end": row[2], **json.loads(row[3])} for row in rows
        ]
        return found if len(found) >= number else []

    def quit(self) -> None:
        """By its key, and as it should."""
        self._shown("windowfocus", "--sync", self._window)
        self._shown("key", "ctrl+q")
        code = self._process.wait(timeout=60)
        said = self._errors.read_text()
        check(code == 0, f"it ends well: {code}, {said[-2000:]}")


def main() -> int:
    """Run the trial; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="leave the root where it is")
    parser.add_argument(
        "--pictures", type=Path, help="take pictures of the screen into this folder"
    )
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("only root can make a root")
    found = sorted(BUILD.glob("waymark_*_amd64.deb"))
    archives = sorted(BUILD.glob("waymark-*-linux-x86_64.tar.zst"))
    if len(found) != 1 or len(archives) != 1:
        parser.error("build/installers has not one of each file: run make installer")
    bare = Bare(found[0])
    try:
        with screen(chosen.pictures) as shown:
            trial(bare, archives[0], shown)
    except Failed as failed:
        print(f"FAILED: {failed}", file=sys.stderr)
        return 1
    if not chosen.keep:
        shutil.rmtree(bare.path)
    print("The package does what it should.")
    return 0


def trial(bare: Bare, archive: Path, shown: Screen) -> None:
    """From the first start to the last trace. Raises Failed."""
    say("A bare Debian")
    bare.make()
    before = bare.files()
    say(f"Install {bare.package.name}")
    shutil.copy(bare.package, bare.path / "tmp")
    bare.call("dpkg", "--install", f"/tmp/{bare.package.name}")
    (bare.path / "tmp" / bare.package.name).unlink()
    say("The first start: a picture and a question, and one more")
    session = Session(bare, shown)
    shown.picture("first-start")
    session.drop(PICTURE)
    shown.picture("dropped")
    session.ask("What is in this picture?")
    first = session.answers(1)[0]
    check(first["images_in_prompt"] == 1, f"the picture is in the prompt: {first}")
    shapes = ("circle", "star", "triangle")
    check(all(shape in first["text"] for shape in shapes), f"the reply names {shapes}: {first}")
    shown.picture("answered")
    session.ask("Which of them is red?")
    second = session.answers(2)[1]
    reused_all_but_new(second, first)
    session.quit()
    say("The second start: the chat goes on")
    session = Session(bare, shown)
    session.open_newest()
    time.sleep(1)
    shown.picture("second-start")
    session.ask("And which one is blue?")
    third = session.answers(3)[2]
    check(third["chat"] == first["chat"], "it is the same chat")
    check(third["restored_from"] == "disk", f"it was restored from disk: {third}")
    reused_all_but_new(third, second)
    shown.picture("went-on")
    session.quit()
    say("Remove it")
    bare.call("dpkg", "--purge", "waymark")
    left = [name for name in bare.files() - before if not PASSING.search(name)]
    strange = sorted(name for name in left if not any(each.match(name) for each in THEIRS))
    check(not strange, f"nothing else is left: {strange[:20]}")
    check(not before - bare.files(), "nothing that was there is gone")
    check(bare.at(HOME / ".local/share/waymark/chats.db").exists(), "the chats are")
    say("The portable archive, unpacked in a folder of the user's")
    session = Session(bare, shown, bare.unpacked(archive))
    session.open_newest()
    session.ask("Is there a square?")
    fourth = session.answers(4)[3]
    check(fourth["chat"] == first["chat"], "it is the same chat")
    reused_all_but_new(fourth, third)
    session.quit()


def reused_all_but_new(answer: dict[str, Any], earlier: dict[str, Any]) -> None:
    """What an earlier question and its picture were is not read again."""
    check(answer["images_encoded"] == 0, f"no picture was looked at again: {answer}")
    check(answer["reused_tokens"] >= earlier["prompt_tokens"], f"what was read is reused: {answer}")


def until(look: Callable[[], Found], what: str) -> Found:
    """What is found there once something is. Raises Failed after some minutes."""
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


def say(what: str) -> None:
    """Where the trial is."""
    print(what, flush=True)


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    """A program that must succeed."""
    subprocess.run([str(word) for word in command], env=env, check=True)


if __name__ == "__main__":
    sys.exit(main())
