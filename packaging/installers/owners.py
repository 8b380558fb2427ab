"""Who made what lies in a bundle: each file and module is given to one maker, or named as nobody's.

A file is of the Python distribution that installed one at the same place, of Python, of ours, or of
the system's package that a library of its name came from.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

from contents import Contents

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


@dataclass
class Owners:
    """Who has a part in a bundle."""

    distributions: dict[str, list[PurePosixPath]] = field(default_factory=dict)
    """By name, with the files that are theirs; none where all are inside an executable."""
    system: dict[str, list[str]] = field(default_factory=dict)
    python: bool = False
    nobodys: list[str] = field(default_factory=list)


class Installed:
    """What is installed in an environment, by files and by modules."""

    def __init__(self, folders: Iterable[str] | None = None) -> None:
        found = distributions(path=list(folders)) if folders is not None else distributions()
        self.by_name: dict[str, Distribution] = {}
        self._files: dict[PurePosixPath, str] = {}
        self._metadata: dict[str, str] = {}
        self._modules: dict[str, str] = {}
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

    def of_file(self, place: PurePosixPath) -> str | None:
        return self._files.get(place) or self._metadata.get(place.parts[0])

    def of_module(self, module: str) -> str | None:
        """Also of one that is made as it is imported, in somebody's package."""
        while module:
            if owner := self._modules.get(module):
                return owner
            module = module.rpartition(".")[0]
        return None


def owners(
    contents: Contents, installed: Installed, package_of: Callable[[str], str | None]
) -> Owners:
    """Who made each file and module. `package_of` names the system's package of a library."""
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
    """Whether Python's own installation has a library of this name, as on Windows."""
    base = Path(sys.base_prefix)
    near = (base / place.name, base / "DLLs" / place.name)
    return len(place.parts) == 1 and any(path.is_file() for path in near)
