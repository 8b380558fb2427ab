"""Python distributions and Python itself as components with their texts."""

from __future__ import annotations

import json
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path, PurePosixPath
from typing import Any

from components import Component, LicenceError, kept_texts, texts_for

# Their packages bring no text; what they are under is said in their metadata and their sources.
QT_TEXTS = ("qt-notice", "LGPL-3.0-only", "GPL-3.0-only", "qt-third-party", "Unicode-DFS-2016")
WITHOUT_TEXT = {
    "pyside6-essentials": ("LGPL-3.0-only", QT_TEXTS),
    "shiboken6": ("LGPL-3.0-only", ("qt-notice", "LGPL-3.0-only", "GPL-3.0-only")),
    "tokenizers": ("Apache-2.0", ("Apache-2.0",)),
    "latex2mathml": ("MIT", ("MIT",)),
}
# Metadata leaves out PyInstaller's exception, by which what it makes may be under any licence, and
# the libraries in pi-heif, whose licence its own text only names.
SAID = {
    "pyinstaller": "GPL-2.0-or-later WITH Bootloader-exception",
    "pi-heif": "BSD-3-Clause AND LGPL-3.0-or-later",
}
NAMED_TEXTS = {"pi-heif": ("LGPL-3.0-only", "GPL-3.0-only")}
QT_SOURCES = "https://download.qt.io/official_releases/QtForPython/pyside6/"
SOURCES = {
    "pyside6-essentials": QT_SOURCES,
    "shiboken6": QT_SOURCES,
    "pi-heif": "https://github.com/strukturag",
}
TEXT = re.compile(r"(licen[cs]e|copying|notice|copyright|authors)([-_.].*)?", re.IGNORECASE)
LIBRARY = re.compile(r"(lib)?(?P<name>[^/]+?)(-[0-9a-f]{8})?\.(so|dylib|dll)(\.|$).*")


def distribution_component(
    name: str, distribution: Distribution, files: Iterable[PurePosixPath]
) -> Component:
    """A distribution in a bundle. Raises LicenceError if it has no text."""
    texts = _texts(distribution)
    licence, is_spdx = _licence(distribution)
    if name in WITHOUT_TEXT and not texts:
        licence, kept = WITHOUT_TEXT[name]
        texts, is_spdx = kept_texts(*kept), True
    if name in SAID:
        licence, is_spdx = SAID[name], True
    texts |= kept_texts(*NAMED_TEXTS.get(name, ()))
    if not texts:
        raise LicenceError(f"{name} has no licence text")
    made = Component(
        name, distribution.version, licence, is_spdx, texts=texts,
        purl=f"pkg:pypi/{name}@{distribution.version.replace('+', '%2B')}",
        sources=SOURCES.get(name, ""),
    )  # fmt: skip
    made.parts = [*_listed(distribution, made), *_third_party(made), *_libraries(made, files)]
    return made


def _texts(distribution: Distribution) -> dict[str, bytes]:
    """Its texts, by where they lie in its metadata."""
    found = {}
    for file in distribution.files or ():
        if not file.parts[0].endswith(".dist-info"):
            continue
        inside = PurePosixPath(*file.parts[1:])
        if inside.parts[0] == "licenses" or TEXT.fullmatch(inside.name):
            place = inside.relative_to("licenses") if inside.parts[0] == "licenses" else inside
            found[str(place)] = Path(str(file.locate())).read_bytes()
    return found


def _licence(distribution: Distribution) -> tuple[str, bool]:
    """The licence in its metadata, and True if that is an SPDX expression."""
    metadata = distribution.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"], True
    # Older metadata may hold a whole text here.
    said = "; ".join(metadata.get_all("License") or ())
    if 0 < len(said) < 80 and "\n" not in said:
        return said, False
    kinds = [each for each in metadata.get_all("Classifier") or () if each.startswith("License")]
    return "; ".join(each.rpartition("::")[2].strip() for each in kinds) or "see its text", False


def _listed(distribution: Distribution, made: Component) -> list[Component]:
    """Parts compiled into it, from its own lists. Raises LicenceError for one without a text."""
    found = []
    for file in distribution.files or ():
        if file.parts[0].endswith(".dist-info") and "sboms" in file.parts:
            data = Path(str(file.locate())).read_bytes()
            made.texts[f"lists/{file.name}"] = data
            listed = [_part(each, made) for each in json.loads(data)["components"]]
            found += [part for part in listed if part is not None]
    return found


def _part(entry: dict[str, Any], made: Component) -> Component | None:
    """One that is not the distribution itself; the texts of crates are no part of its own text.

    What may have gone in is none: where it did, its library lies in the bundle and is seen there.
    """
    purl, version = entry.get("purl") or "", entry.get("version") or ""
    if purl.startswith(f"pkg:pypi/{made.name}@") or entry.get("scope") in ("optional", "excluded"):
        return None
    expression = _expression(entry)
    if purl.startswith("pkg:cargo/"):
        kept = texts_for(f"{made.name}'s {entry['name']}", expression)
        made.texts |= {f"crates/{name}": text for name, text in kept.items()}
        return Component(entry["name"], version, expression, purl=purl)
    licence = expression or f"see the text of {made.name}"
    return Component(entry["name"], version, licence, bool(expression), purl=purl)


def _expression(entry: dict[str, Any]) -> str:
    said = [
        each.get("expression")
        or each.get("license", {}).get("id")
        or each.get("license", {}).get("name", "")
        for each in entry.get("licenses") or ()
    ]
    return " AND ".join(said)


def _third_party(made: Component) -> list[Component]:
    folders = (PurePosixPath(name).parent for name in made.texts)
    names = {"/".join(each.parts[1:]) for each in folders if each.parts[:1] == ("third_party",)}
    return [Component(name, "", "see its text", is_spdx=False) for name in sorted(names - {""})]


def _libraries(made: Component, files: Iterable[PurePosixPath]) -> list[Component]:
    """Libraries of others that lie in it, whose texts its own text holds."""
    found = set()
    for place in files:
        is_theirs = place.parts[0].endswith(".libs") or ".dylibs" in place.parts
        if is_theirs or place.name.startswith("libicu"):
            match = LIBRARY.match(place.name)
            found.add(match["name"] if match else place.name)
    words = f"see the text of {made.name}"
    return [Component(name, "", words, is_spdx=False) for name in sorted(found)]


def python_component() -> Component:
    """Python, whose text lies in its own installation. Raises LicenceError where it does not."""
    version = platform.python_version()
    places = (
        Path(sysconfig.get_path("stdlib")) / "LICENSE.txt",
        Path(sys.base_prefix) / "LICENSE.txt",
        Path(f"/usr/share/doc/python{sysconfig.get_python_version()}/copyright"),
    )
    for place in places:
        if place.is_file():
            texts = {"LICENSE.txt": place.read_bytes()}
            purl = f"pkg:generic/cpython@{version}"
            return Component("CPython", version, "PSF-2.0", purl=purl, texts=texts)
    raise LicenceError("CPython has no licence text")
