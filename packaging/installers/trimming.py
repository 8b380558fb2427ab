"""Leaves out files that nothing needs, mostly of Qt, and the libraries that only they needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePath

Entry = tuple[str, str, str]
"""Its place in the bundle, its origin, and its kind."""

# Kept are windows on X11, Wayland, Windows and macOS, or on none; the system's own file dialogs;
# the formats of pictures that people have. Left out are screens without a desktop, GTK's theme,
# which loads all of GTK, and translations of Qt into languages that the window does not speak.
LEFT_OUT = re.compile(
    r"PySide6/(Qt/)?(translations/(?!qtbase_de\.qm)"
    r"|plugins/(egldeviceintegrations|generic|networkinformation|tls)/"
    r"|plugins/platforms/(lib)?q(eglfs|linuxfb|minimal|minimalegl|vkkhrdisplay|vnc)\b"
    r"|plugins/platformthemes/libqgtk3"
    r"|plugins/imageformats/(lib)?q(icns|pdf|tga|tiff|wbmp)\b)"
    # Of what pip writes, programs ask for versions and entry points.
    r"|waymark\.egg-info/|[^/]+\.dist-info/(RECORD$|licenses/|sboms/)"
)
# Every desktop has these, as new as its C library; older copies beside them, or newer ones that ask
# for a newer C library, would only do harm. The package depends on them. Without CUPS, which would
# bring 13 MB of libraries along, Qt prints into files only.
OF_THE_SYSTEM = re.compile(
    r"(libstdc\+\+|libgcc_s|libexpat|libfontconfig|libX11|libX11-xcb|libcups)\.so\."
)
# Of a library's own headers: `ldd` would add what libraries need that are left out.
NEEDED = re.compile(r"^ +NEEDED +(\S+)$", re.MULTILINE)


def trimmed(binaries: list[Entry], datas: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    kept = [entry for entry in binaries if not left_out(entry)]
    needed = linked(kept)
    kept = [entry for entry in kept if not is_shared(entry) or PurePath(entry[0]).name in needed]
    there = {PurePath(entry[0]) for entry in kept}
    return kept, [
        entry
        for entry in datas
        if not left_out(entry) and (entry[2] != "SYMLINK" or PurePath(entry[1]) in there)
    ]


def left_out(entry: Entry) -> bool:
    """True for files that nothing shows, and libraries that every system has."""
    path = PurePath(entry[0]).as_posix()
    return any(wanted.match(path) is not None for wanted in (LEFT_OUT, OF_THE_SYSTEM))


def is_shared(entry: Entry) -> bool:
    """True for libraries that are only linked by others: Qt's, or the system's."""
    folder = PurePath(entry[0]).parent.as_posix()
    is_module = entry[2] == "EXTENSION"
    return folder in {".", "PySide6/Qt/lib"} and ".so" in entry[0] and not is_module


def linked(entries: list[Entry]) -> set[str]:
    """The names of all shared libraries that the other files are linked with, directly or not.
    Raises OSError and CalledProcessError: without an answer, libraries would be left out."""
    files = [entry for entry in entries if entry[2] != "SYMLINK"]
    shared = {PurePath(entry[0]).name: entry[1] for entry in files if is_shared(entry)}
    # The executables load it by name.
    needed = {name for name in shared if name.startswith("libpython")}
    waiting = [entry[1] for entry in files if shared and not is_shared(entry)]
    waiting += [shared[name] for name in needed]
    while waiting:
        path = waiting.pop()
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        headers = subprocess.check_output(["objdump", "-p", path], text=True)
        found = (set(NEEDED.findall(headers)) & shared.keys()) - needed
        needed |= found
        waiting += [shared[name] for name in found]
    # A link at the top stands for a library below, which others are linked with.
    return needed | {PurePath(entry[0]).name for entry in files if not is_shared(entry)}
