"""About names every package that Waymark is installed with, and its licence as the package says."""

from __future__ import annotations

from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from core.client.programs import ROOT
from desktop.window.help_dialogs import LICENCES

SYSTEMS = ("linux", "darwin", "win32")


def locked() -> set[str]:
    """The packages of requirements.lock that one of our systems installs, and torch."""
    text = (ROOT / "requirements.lock").read_text("utf-8")
    lines = [line.rstrip(" \\") for line in text.splitlines() if line[:1].isalnum()]
    found = map(Requirement, lines)
    wanted = (
        each.name
        for each in found
        if each.marker is None
        or any(
            each.marker.evaluate({"sys_platform": system, "python_full_version": version})
            for system in SYSTEMS
            for version in ("3.11.0", "3.13.0")
        )
    )
    return {canonicalize_name(name) for name in wanted} | {"torch"}


def test_every_package_that_is_installed_is_named() -> None:
    assert set(LICENCES) == locked() | {"waymark"}


@pytest.mark.parametrize("package", sorted(LICENCES))
def test_a_licence_is_what_the_package_says(package: str) -> None:
    try:
        found = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        pytest.skip("not installed on this system")
    expression = found.get_all("License-Expression") or found.get_all("License") or [""]
    # Older metadata may hold the whole text of a licence here.
    short = expression[0] if "\n" not in expression[0] else ""
    kinds = [each for each in found.get_all("Classifier") or () if each.startswith("License")]
    named = kinds[0].rpartition(" :: ")[2] if kinds else ""
    assert LICENCES[package] == (short or named)
