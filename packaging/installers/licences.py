"""Gives a finished bundle the licence texts of everything in it, and a list of it all.

    python packaging/installers/licences.py BUNDLE_FOLDER

Runs in the environment that the bundle was built from. Writes the folder `licences` into the bundle
(into its resources in a macOS app): LICENCES.txt for people, waymark.cdx.json for programs, and a
folder of texts for each component. A file that nobody is known to have made, or a component without
a text, is named, and nothing is written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from components import APACHE, Component, LicenceError, kept_texts
from distributions import distribution_component, python_component
from owners import LICENCES, Contents, Installed, Owners, for_people, owners, read
from system_packages import package_of, system_component

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = PurePosixPath("kernels/native/shipped")
# Tables made by packaging/tables/gguf_grids.py, from this version of the `gguf` package.
GRIDS, GRIDS_VERSION = PurePosixPath("resources/gguf"), "0.19.0"

CYCLONEDX = "1.6"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path, metavar="BUNDLE_FOLDER")
    folder = parser.parse_args().bundle
    try:
        contents = read(folder)
        app, components = described(contents, Installed())
        text = bill(app, components)
        validate(text)
    except LicenceError as error:
        print(f"{folder} can't be described:\n{error}", file=sys.stderr)
        return 1
    target = for_people(folder) / LICENCES
    write(target, [app, *components])
    (target / "LICENCES.txt").write_text(index(app, components), encoding="utf-8", newline="\n")
    (target / "waymark.cdx.json").write_text(text, encoding="utf-8", newline="\n")
    print(f"{target}: {len(components)} components, {sum(len(c.texts) for c in components)} texts")
    return 0


def described(contents: Contents, installed: Installed) -> tuple[Component, list[Component]]:
    """The app, and each part with a licence of its own. Raises LicenceError, which names all
    faults."""
    found = owners(contents, installed, package_of)
    absent = set(found.distributions) - set(installed.by_name)
    faults = [f"nobody is known to have made {what}" for what in sorted(found.nobodys)]
    faults += [f"{name} is in the bundle and not in this environment" for name in sorted(absent)]
    components = own_parts(contents)
    for make in makers(contents, found, installed):
        try:
            components.append(make())
        except LicenceError as error:
            faults.append(str(error))
    if faults:
        raise LicenceError("\n".join(faults))
    return app(), components


def makers(
    contents: Contents, found: Owners, installed: Installed
) -> Iterator[Callable[[], Component]]:
    for name, files in found.distributions.items():
        if name in installed.by_name:
            yield partial(distribution_component, name, installed.by_name[name], files)
    for package, libraries in found.system.items():
        yield partial(system_component, package, libraries)
    if found.python:
        yield python_component
    if any(place.is_relative_to(SHIPPED) for place in contents.files):
        yield partial(compiler_component, contents)
    if any(place.is_relative_to(GRIDS) for place in contents.files):
        yield grids_component


def app() -> Component:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    texts = {"LICENSE": APACHE.read_bytes()}
    return Component(
        "Waymark", project["version"], project["license"], kind="application", texts=texts
    )


def own_parts(contents: Contents) -> list[Component]:
    """Our parts that are no programs, if the bundle contains them."""
    kinds = {
        "resources/models/demo": ("Waymark demo model", "machine-learning-model"),
        "resources/icons": ("Waymark icons", "data"),
        "resources/samples": ("Waymark sample pictures", "data"),
        "resources/themes": ("Waymark themes", "data"),
        str(SHIPPED): ("Waymark compiled kernels", "library"),
    }
    whole = app()
    return [
        Component(name, whole.version, whole.licence, kind=kind, texts=whole.texts)
        for folder, (name, kind) in kinds.items()
        if any(place.is_relative_to(folder) for place in contents.files)
    ]


def grids_component() -> Component:
    return Component(
        "ggml quantization tables", GRIDS_VERSION, "MIT", kind="data",
        purl=f"pkg:pypi/gguf@{GRIDS_VERSION}", texts=kept_texts("ggml"),
    )  # fmt: skip


def compiler_component(contents: Contents) -> Component:
    """Runtime code that the compiler adds to kernels. Raises LicenceError without its text."""
    manifests = [
        path
        for place, path in contents.files.items()
        if place.is_relative_to(SHIPPED) and place.name == "manifest.json"
    ]
    pins = {pin for path in manifests for pin in json.loads(path.read_text("utf-8"))["compiler"]}
    name, _, version = "; ".join(sorted(pins)).partition("==")
    found = sorted((ROOT / "build" / "native").glob("compiler-*/**/ziglang/LICENSE"))
    if name != "ziglang" or not found:
        raise LicenceError(f"the kernels' compiler ({name or 'not named'}) has no licence text")
    mingw = found[0].parent.glob("lib/libc/mingw/COPYING")
    texts = {"LICENSE": found[0].read_bytes(), **{f"mingw-{p.name}": p.read_bytes() for p in mingw}}
    return Component(
        "Zig runtime routines", version, "MIT", purl=f"pkg:pypi/ziglang@{version}", texts=texts
    )


def bill(app: Component, components: list[Component]) -> str:
    """The list as CycloneDX."""
    listed = sorted(components, key=lambda each: each.key)
    whole = {
        "$schema": f"http://cyclonedx.org/schema/bom-{CYCLONEDX}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": CYCLONEDX,
        "version": 1,
        "metadata": {"component": _entry(app, app.key)},
        "components": [_entry(each, each.key) for each in listed],
        "dependencies": [{"ref": app.key, "dependsOn": [each.key for each in listed]}],
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _entry(component: Component, reference: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": component.kind,
        "bom-ref": reference,
        "name": component.name,
        "licenses": _licences(component),
    }
    if component.version:
        entry["version"] = component.version
    if component.purl:
        entry["purl"] = component.purl
    if component.sources.startswith("https://"):
        entry["externalReferences"] = [{"type": "source-distribution", "url": component.sources}]
    elif component.sources:
        entry["properties"] = [{"name": "waymark:source", "value": component.sources}]
    if component.parts:
        entry["components"] = [
            _entry(part, f"{reference}/{number}-{part.key}")
            for number, part in enumerate(component.parts)
        ]
    return entry


def _licences(component: Component) -> list[dict[str, Any]]:
    if component.is_spdx:
        return [{"expression": component.licence}]
    return [{"license": {"name": name}} for name in component.licence.split("; ")]


def validate(text: str) -> None:
    """Hold a list to the format's own schema. Raises LicenceError."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        raise LicenceError(f"the list is no valid CycloneDX {CYCLONEDX}: {fault}")


def index(app: Component, components: list[Component]) -> str:
    """The list as text: name, licence, sources, contents, and folder of texts."""
    lines = [
        f"{app.name} {app.version} is under the {app.licence} licence: {app.key}/",
        "",
        "It contains the work of others. Each has a folder here with its texts; what Debian's",
        "texts refer to is in common-licenses/. waymark.cdx.json is the same for programs.",
        "",
    ]
    for each in sorted(components, key=lambda each: each.key):
        lines.append(f"{each.name} {each.version}".rstrip())
        lines.append(f"    licence: {each.licence}")
        if each.sources:
            lines.append(f"    sources: {each.sources}")
        if each.parts:
            inside = ", ".join(f"{part.name} {part.version}".rstrip() for part in each.parts)
            lines.append(f"    contains: {inside}")
        lines.append(f"    texts: {each.key}/")
    return "\n".join(lines) + "\n"


def write(target: Path, components: list[Component]) -> None:
    """Write the texts, one folder for each component; texts that many refer to are written once."""
    shutil.rmtree(target, ignore_errors=True)
    for component in components:
        for name, data in component.texts.items():
            shared = name.startswith("common-licenses/")
            path = target / name if shared else target / component.key / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
