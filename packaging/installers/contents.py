"""What lies in a finished bundle: its files, and the modules inside its executables.

Understands the folder that PyInstaller makes on Linux and Windows, and macOS' app bundle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

# What is written about a bundle into it is no part of it.
LICENCES = "licences"
# How PyInstaller spells dots in names of folders in a macOS bundle.
DOT = "__dot__"


@dataclass(frozen=True)
class Contents:
    """Files by their place below the folder that Python imports from, and names of modules."""

    files: dict[PurePosixPath, Path]
    modules: frozenset[str]
    is_frozen: bool
    """Whether there are executables, and so a loader in them."""


def read(folder: Path) -> Contents:
    """A bundle's files, and the modules in its executables."""
    files = {place: path for root in _roots(folder) for place, path in _files(root)}
    executables = [path for path in _top_files(folder) if _is_executable(path)]
    modules = frozenset(name for path in executables for name in _modules(path))
    return Contents(files, modules, bool(executables))


def for_people(folder: Path) -> Path:
    """Where in a bundle files lie that no program needs."""
    inside = folder / "Contents" / "Resources"
    return inside if inside.is_dir() else folder


def _roots(folder: Path) -> list[Path]:
    inside = folder / "Contents"
    if inside.is_dir():
        return [inside / "Frameworks", inside / "Resources"]
    return [folder / "_internal"]


def _top_files(folder: Path) -> list[Path]:
    programs = folder / "Contents" / "MacOS"
    return sorted((programs if programs.is_dir() else folder).iterdir())


def _is_executable(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    return path.suffix == ".exe" or (not path.suffix and os.access(path, os.X_OK))


def _files(root: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    """Links are left out: what they name lies in the bundle as well."""
    for path in sorted(root.rglob("*")):
        place = PurePosixPath(path.relative_to(root).as_posix().replace(DOT, "."))
        if path.is_file() and not path.is_symlink() and place.parts[0] != LICENCES:
            yield place, path


def _modules(executable: Path) -> Iterator[str]:
    """All that Python imports from inside an executable, and the scripts that it begins with."""
    from PyInstaller.archive.readers import CArchiveReader

    archive: Any = CArchiveReader(str(executable))
    for name, entry in archive.toc.items():
        if entry[-1] == "z":
            yield from archive.open_embedded_archive(name).toc
        elif entry[-1] in "sm":
            yield name
