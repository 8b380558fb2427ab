"""What the installers are built from, on the systems where nobody has built one yet."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from tests.packaging.scripts import INSTALLERS

LINES = (INSTALLERS / "requirements.txt").read_text("utf-8").splitlines()
REQUIREMENTS = [Requirement(line) for line in LINES if line and not line.startswith("#")]
# What PyInstaller names for one system only: pip installs nothing but what the file lists.
ONLY_THERE = {"linux": set(), "win32": {"pefile", "pywin32-ctypes"}, "darwin": {"macholib"}}


@pytest.mark.parametrize("system", ONLY_THERE)
def test_what_pyinstaller_needs_of_one_system_is_installed_there(system: str) -> None:
    marked = [each for each in REQUIREMENTS if each.marker is not None]
    wanted = {
        each.name
        for each in marked
        if each.marker is not None and each.marker.evaluate({"sys_platform": system})
    }
    assert wanted == ONLY_THERE[system]


def test_every_version_is_fixed() -> None:
    assert all(str(each.specifier).startswith("==") for each in REQUIREMENTS)
