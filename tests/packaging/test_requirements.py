"""A checkout and the installers install every declared package, each file by its hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from core.client.programs import ROOT
from tests.packaging.scripts import INSTALLERS

LOCKS = [*ROOT.glob("requirements*.lock"), *INSTALLERS.glob("*.txt")]
# Installed by itself: which build is right depends on the machine.
APART = {"torch", "waymark"}


def locked(path: Path) -> list[Requirement]:
    text = re.sub(r" *\\\n *", " ", path.read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    for line in lines:
        hashes = re.findall(r" --hash=(\S+)", line)
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), line
    return [Requirement(line.partition(" --hash=")[0]) for line in lines]


REQUIREMENTS = locked(INSTALLERS / "requirements.txt")
# What PyInstaller and keyring name for one system only: pip installs nothing but what is listed.
ONLY_THERE = {
    "linux": {"cffi", "cryptography", "jeepney", "secretstorage"},
    "win32": {"pefile", "pywin32-ctypes"},
    "darwin": {"macholib"},
}


@pytest.mark.parametrize("system", ONLY_THERE)
def test_what_one_system_needs_is_installed_there(system: str) -> None:
    here = {"sys_platform": system}
    marked = {each.name for each in REQUIREMENTS if each.marker and each.marker.evaluate(here)}
    assert marked == ONLY_THERE[system]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_version_is_fixed_and_every_file_has_a_hash(path: Path) -> None:
    found = locked(path)
    assert found and all(str(each.specifier).startswith("==") for each in found)


@pytest.mark.parametrize(
    ("lock", "extras"), [("requirements.lock", ()), ("requirements-check.lock", ("test", "check"))]
)
def test_a_lock_has_what_is_declared(lock: str, extras: tuple[str, ...]) -> None:
    """Whoever changes pyproject.toml runs `make lock`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [*project["dependencies"]]
    for extra in extras:
        declared += project["optional-dependencies"][extra]
    found = locked(ROOT / lock)
    for wanted in map(Requirement, declared):
        name = canonicalize_name(wanted.name)
        versions = [each for each in found if canonicalize_name(each.name) == name]
        assert versions or name in APART, f"{name} is not in {lock}: make lock"
        for each in versions:
            assert wanted.specifier.contains(str(each.specifier).removeprefix("=="))


def test_the_installers_are_built_from_what_a_checkout_runs() -> None:
    """A version that is tested in neither would be shipped."""
    tested: dict[str, set[str]] = {}
    for each in locked(ROOT / "requirements.lock"):
        tested.setdefault(canonicalize_name(each.name), set()).add(str(each.specifier))
    for each in REQUIREMENTS:
        assert str(each.specifier) in tested.get(canonicalize_name(each.name), str(each.specifier))


def test_the_installers_have_all_that_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {canonicalize_name(Requirement(each).name) for each in project["dependencies"]}
    assert declared <= {canonicalize_name(each.name) for each in REQUIREMENTS} | APART
