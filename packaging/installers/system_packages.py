"""Libraries of the system that a bundle was built on, by package (Debian and its relatives).

On other systems no library comes from the system.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from components import Component, LicenceError

DOCS = Path("/usr/share/doc")
COMMON = Path("/usr/share/common-licenses")
LISTED = re.compile(r"^\s+(?P<name>\S+) \([^)]*x86-64[^)]*\) => (?P<path>/\S+)$", re.MULTILINE)


@cache
def libraries() -> dict[str, Path]:
    linker = shutil.which("ldconfig", path="/sbin:/usr/sbin:/usr/bin:/bin")
    listed = _said(linker, "-p") if linker else ""
    return {match["name"]: Path(match["path"]) for match in LISTED.finditer(listed)}


def package_of(library: str) -> str | None:
    path = libraries().get(library)
    if path is None or not shutil.which("dpkg-query"):
        return None
    # Packages list what they install by names from before /lib became a link to /usr/lib.
    for candidate in {path, path.resolve()}:
        for each in (candidate, _across(candidate)):
            if found := _said("dpkg-query", "--search", str(each)):
                return found.partition(":")[0]
    return None


def _across(path: Path) -> Path:
    inside = path.is_relative_to("/usr")
    return Path("/") / path.relative_to("/usr") if inside else Path("/usr") / path.relative_to("/")


def system_component(package: str, names: list[str]) -> Component:
    """A package's part in a bundle. Raises LicenceError where its text is not on this system."""
    text = DOCS / package / "copyright"
    if not text.is_file():
        raise LicenceError(f"{package} ({', '.join(sorted(names))}) has no {text}")
    fields = "${Version}\t${source:Package}\t${source:Version}\t${Architecture}"
    line = _said("dpkg-query", "--show", f"--showformat={fields}\n", package).splitlines()[0]
    version, source, source_version, architecture = line.split("\t")
    data = text.read_bytes()
    system = platform.freedesktop_os_release()
    return Component(
        package,
        version,
        _licences(data.decode("utf-8", "replace")),
        is_spdx=False,
        purl=f"pkg:deb/{system['ID']}/{package}@{version}?arch={architecture}",
        sources=f"the source package {source} {source_version} of {system['NAME']}",
        texts={"copyright": data, **_common(data)},
    )


def _licences(copyright_file: str) -> str:
    names = re.findall(r"^License:[ \t]*(\S.*?)\s*$", copyright_file, re.MULTILINE)
    return "; ".join(dict.fromkeys(names)) or "see its text"


def _common(data: bytes) -> dict[str, bytes]:
    """The texts that a copyright file refers to instead of quoting them."""
    names = re.findall(rb"common-licenses/([\w.+-]*\w)", data)
    paths = (COMMON / name.decode() for name in dict.fromkeys(names))
    return {f"common-licenses/{path.name}": path.read_bytes() for path in paths if path.is_file()}


def _said(*command: str) -> str:
    """A command's output, or '' if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
