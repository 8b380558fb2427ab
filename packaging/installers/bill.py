"""The list of a bundle's components, as CycloneDX 1.6 and as text for people."""

from __future__ import annotations

import json
from typing import Any

from components import Component, LicenceError

SPEC = "1.6"


def bill(app: Component, components: list[Component]) -> str:
    listed = sorted(components, key=lambda each: each.key)
    whole = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
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
        raise LicenceError(f"the list is no valid CycloneDX {SPEC}: {fault}")


def index(app: Component, components: list[Component]) -> str:
    """The list as text: name, licence, sources, contents, and folder of texts."""
    lines = [
        f"{app.name} {app.version} is under the {app.licence} licence: {app.key}/",
        "",
        "It contains the work of others. Each has a folder here with its texts; what Debian's",
        "texts refer to lies in common-licenses/. waymark.cdx.json is the same for programs.",
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
