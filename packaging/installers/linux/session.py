"""The window on a virtual screen, controlled by pointer and keys alone."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bare import HOME, TRIED, Bare, Failed, check, run, until

# From a window that can be seen to one that has its chats, on a machine with other things to do.
LISTED_S = 5
# From a reply to the end of the window: meanwhile it is settled, which nothing outside shows.
READ_S = 10


class Screen:
    """A screen that nobody sees, with pointer and keys."""

    def __init__(self, display: str, pictures: Path | None) -> None:
        self.display = display
        self._pictures = pictures
        self._taken = 0

    def __call__(self, *words: str | int) -> str:
        command = ["xdotool", *map(str, words)]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, check=True
        ).stdout.strip()

    def environment(self) -> dict[str, str]:
        return {**os.environ, "DISPLAY": self.display}

    def window(self, name: str) -> int:

        def found() -> str:
            with contextlib.suppress(subprocess.CalledProcessError):
                return self("search", "--onlyvisible", "--name", f"^{name}$").split()[0]
            return ""

        return int(until(found, f"a window {name} is seen"))

    def picture(self, name: str) -> None:
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
        # It is there a moment after the window, and nothing outside tells when.
        time.sleep(LISTED_S)
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
        """By its key, once the reply was read, and as it should."""
        time.sleep(READ_S)
        self._shown("windowfocus", "--sync", self._window)
        self._shown("key", "ctrl+q")
        code = self._process.wait(timeout=60)
        said = self._errors.read_text()
        check(code == 0, f"it ends well: {code}, {said[-2000:]}")
