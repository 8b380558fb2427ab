"""The files and modules of a finished bundle, and who made each of them.

A bundle is PyInstaller's folder on Linux and Windows, and macOS' app bundle. A file belongs to the
Python distribution that installed one at the same place, to Python, to us, or to the system's
package of a library of that name; anything else is reported.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath
from typing import Any

OURS = {"core", "desktop", "kernels", "resources"}
# The scripts that our executables begin with.
SCRIPTS = {"window", "engine"}
# What PyInstaller puts into every executable.
LOADER = re.compile(r"pyi(mod|boot|_rth|_splash)\w*|PyInstaller\b.*|_pyi_rth_utils\b.*")
# What Python's libraries are called, wherever a system keeps them.
PYTHON = re.compile(
    r"base_library\.zip|(python3[.\d]*/)?lib-dynload/.*|libpython3[^/]*|Python"
    r"|Python3?\.framework/.*|python3\d*\.dll|vcruntime\d+[^/]*\.dll|ucrtbase\.dll"
    r"|api-ms-win-[^/]*\.dll",
    re.IGNORECASE,
)
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
    """True if there are executables, and so a loader in them."""


def read(folder: Path) -> Contents:
    """A bundle's files, and the modules in its executables."""
    files = {place: path for root in _roots(folder) for place, path in _files(root)}
    executables = [path for path in _top_files(folder) if _is_executable(path)]
    modules = frozenset(name for path in executables for name in _modules(path))
    return Contents(files, modules, bool(executables))


def for_people(folder: Path) -> Path:
    """The folder of a bundle for files that no program needs."""
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


@dataclass
class Owners:
    """The makers of the parts of a bundle."""

    distributions: dict[str, list[PurePosixPath]] = field(default_factory=dict)
    """By name, with the files that are theirs; none where all are inside an executable."""
    system: dict[str, list[str]] = field(default_factory=dict)
    python: bool = False
    nobodys: list[str] = field(default_factory=list)


class Installed:
    """The distributions of an environment, by file and by module."""

    def __init__(self, folders: Iterable[str] | None = None) -> None:
        found = distributions(path=list(folders)) if folders is not None else distributions()
        self.by_name: dict[str, Distribution] = {}
        self._files: dict[PurePosixPath, str] = {}
        self._metadata: dict[str, str] = {}
        self._modules: dict[str, str] = {}
        self._shared: dict[str, str] = {}
        for distribution in found:
            name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
            if name != "waymark":
                self.by_name.setdefault(name, distribution)
                self._note(name, distribution)

    def _note(self, name: str, distribution: Distribution) -> None:
        for file in distribution.files or ():
            self._files.setdefault(PurePosixPath(file), name)
            # What was noted there of the installation itself is in no list.
            if file.parts[0].endswith(".dist-info"):
                self._metadata[file.parts[0]] = name
            if file.suffix in (".py", ".so", ".pyd"):
                parts = [*file.parts[:-1], file.name.partition(".")[0]]
                module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                self._modules.setdefault(module, name)
                # Of a package that several share, without a file of its own.
                for count in range(1, len(parts)):
                    self._shared.setdefault(".".join(parts[:count]), name)

    def of_file(self, place: PurePosixPath) -> str | None:
        return self._files.get(place) or self._metadata.get(place.parts[0])

    def of_module(self, module: str) -> str | None:
        """Also of one that is made as it is imported, in somebody's package."""
        name = module
        while name:
            if owner := self._modules.get(name):
                return owner
            name = name.rpartition(".")[0]
        return self._shared.get(module)


def owners(
    contents: Contents, installed: Installed, package_of: Callable[[str], str | None]
) -> Owners:
    """Find who made each file and module. `package_of` names the system package of a library."""
    found = Owners()
    for place in contents.files:
        if owner := installed.of_file(place):
            found.distributions.setdefault(owner, []).append(place)
        elif PYTHON.fullmatch(str(place)) or _is_beside_python(place):
            found.python = True
        elif len(place.parts) == 1 and (package := package_of(place.name)):
            found.system.setdefault(package, []).append(place.name)
        elif place.parts[0] not in OURS:
            found.nobodys.append(str(place))
    for module in contents.modules:
        top = module.partition(".")[0]
        if owner := installed.of_module(module):
            found.distributions.setdefault(owner, [])
        elif top in sys.stdlib_module_names or top.startswith("_sysconfigdata"):
            found.python = True
        elif top not in OURS | SCRIPTS and not LOADER.fullmatch(module):
            found.nobodys.append(f"the module {module}")
    if contents.is_frozen:
        found.distributions.setdefault("pyinstaller", [])
    return found


def _is_beside_python(place: PurePosixPath) -> bool:
    """True if Python's own installation has a library of this name, as on Windows."""
    base = Path(sys.base_prefix)
    near = (base / place.name, base / "DLLs" / place.name)
    return len(place.parts) == 1 and any(path.is_file() for path in near)
