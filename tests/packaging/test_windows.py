"""The Windows installer's script, held to the app; check_under_wine.sh tries what it makes."""

from __future__ import annotations

import json

from core.client.programs import MARK
from desktop.store.folders import DATA_VARIABLE, Folders
from tests.packaging.scripts import INSTALLERS

WINDOWS = INSTALLERS / "windows"
SCRIPT = (WINDOWS / "waymark.iss").read_text("utf-8")


def directive(name: str) -> str:
    (value,) = (
        line.partition("=")[2] for line in SCRIPT.splitlines() if line.startswith(f"{name}=")
    )
    return value


def test_the_installer_agrees_with_the_app() -> None:
    assert directive("AppMutex") == MARK
    # Names are seen by one user's session unless they say that they are everyone's.
    assert "\\" not in MARK and "," not in MARK
    # Uninstalling names the folder that the app keeps its data in.
    assert r"ExpandConstant('{localappdata}\waymark')" in SCRIPT
    assert Folders.choose().data.name == "waymark"
    assert DATA_VARIABLE in SCRIPT


def test_it_needs_no_administrator() -> None:
    assert directive("PrivilegesRequired") == "lowest"
    assert "PrivilegesRequiredOverridesAllowed" not in SCRIPT


def test_the_compiler_is_one_package_whose_bytes_are_pinned() -> None:
    wanted = json.loads((WINDOWS / "package.json").read_text("utf-8"))["dependencies"]
    packages = json.loads((WINDOWS / "package-lock.json").read_text("utf-8"))["packages"]
    locked = {path.rpartition("/")[2]: package for path, package in packages.items() if path}
    assert {name: package["version"] for name, package in locked.items()} == wanted
    assert all(package["integrity"].startswith("sha512-") for package in locked.values())
