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
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from bare import HOME, PICTURE, ROOT, Bare, Failed, check
from session import Screen, Session, screen

BUILD = ROOT / "build" / "installers"
# What it runs, and the Debian package of each.
PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "Xvfb": "xvfb",
    "xdotool": "xdotool",
    "import": "imagemagick",
    "dpkg-deb": "dpkg",
    "zstd": "zstd",
}
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


def main() -> int:
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
    if missing := packages_missing():
        parser.error(f"programs are missing: apt-get install {' '.join(missing)}")
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


def packages_missing() -> list[str]:
    """The Debian packages of the required programs that are not installed."""
    return [package for program, package in PROGRAMS.items() if shutil.which(program) is None]


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
    # From disk: when the answer begins, or while the question is written, which reads ahead.
    check(third["parts"][0]["on_disk"], f"it was restored from disk: {third}")
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
    """Check that no token of an earlier question and its picture was read again."""
    check(answer["images_encoded"] == 0, f"no picture was looked at again: {answer}")
    check(answer["reused_tokens"] >= earlier["prompt_tokens"], f"what was read is reused: {answer}")


def say(what: str) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    sys.exit(main())
