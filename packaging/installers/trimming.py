"""What of Qt no one sees here is left out, and with it the libraries that only it needed."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from PyInstaller.depend.bindepend import get_imports

Entry = tuple[str, str, str]
"""Where it lies in the bundle, where it comes from, and its kind."""

# Kept are windows on X11, Wayland, Windows and macOS, or on none; the system's own file dialogs;
# the formats of pictures that people have. Left out are screens without a desktop, GTK's theme,
# which loads all of GTK, and translations of Qt, which a window without a translator never reads.
LEFT_OUT = re.compile(
    r"PySide6/(Qt/)?(translations/"
    r"|plugins/(egldeviceintegrations|generic|networkinformation|tls)/"
    r"|plugins/platforms/(lib)?q(eglfs|linuxfb|minimal|minimalegl|vkkhrdisplay|vnc)\b"
    r"|plugins/platformthemes/libqgtk3"
    r"|plugins/imageformats/(lib)?q(icns|pdf|tga|tiff|wbmp)\b)"
)


def trimmed(binaries: list[Entry], datas: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """What stays of both."""
    kept = [entry for entry in binaries if not left_out(entry)]
    needed = linked(kept)
    return (
        [entry for entry in kept if not is_shared(entry) or PurePath(entry[0]).name in needed],
        [entry for entry in datas if not left_out(entry)],
    )


def left_out(entry: Entry) -> bool:
    """Whether nothing of this is ever seen."""
    return LEFT_OUT.match(PurePath(entry[0]).as_posix()) is not None


def is_shared(entry: Entry) -> bool:
    """Whether it is there only for others that are linked with it: Qt's own, or the system's."""
    folder = PurePath(entry[0]).parent.as_posix()
    return folder in {".", "PySide6/Qt/lib"} and ".so" in entry[0]


def linked(entries: list[Entry]) -> set[str]:
    """The names of all libraries that those are linked with which are no mere libraries."""
    sources = {PurePath(target).name: source for target, source, _ in entries}
    found: set[str] = {name for name in sources if name.startswith("libpython")}
    waiting = [source for target, source, _ in entries if not is_shared((target, source, ""))]
    waiting += [sources[name] for name in found]
    while waiting:
        for name, _ in get_imports(waiting.pop()):
            if Path(name).name in sources and Path(name).name not in found:
                found.add(Path(name).name)
                waiting.append(sources[Path(name).name])
    return found
