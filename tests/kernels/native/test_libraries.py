"""`make native` builds equal bytes from equal sources, and libraries that run."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from core.client.programs import ROOT
from kernels.native import shipped
from kernels.native.build import sources_digest
from kernels.native.levels import LEVELS

SCRIPT = ROOT / "packaging" / "native" / "libraries.py"
TARGETS = ("linux-x86_64", "linux-arm64", "windows-x86_64", "darwin-arm64")


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("libraries", SCRIPT)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def libraries() -> ModuleType:
    found = script()
    if not list(found.BUILD.glob("compiler-*/done")):
        pytest.skip("its compiler is not installed; `make native` does that")
    return found


@pytest.mark.timeout(900)  # libraries of the compiler's own are made twice
def test_equal_sources_make_equal_bytes_in_any_folder(
    libraries: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, oldest = libraries.installed(), LEVELS[0]
    found = []
    for name in ("first", "another folder/and deeper"):
        copy, to = tmp_path / name / "kernels", tmp_path / name / "out"
        shutil.copytree(ROOT / "kernels", copy, ignore=shutil.ignore_patterns("shipped", "*.py*"))
        monkeypatch.setattr(libraries, "KERNELS", copy)
        monkeypatch.setattr(libraries, "BUILD", tmp_path / name / "build")
        libraries.build(compiler, "linux", "x86_64", to, [oldest])
        found.append({each.name: each.read_bytes() for each in to.iterdir()})
    first, second = found
    assert set(first) == {"check", "manifest.json", f"{oldest.name}.so"}
    assert first == second


def test_each_level_is_built_for_each_system_that_has_it() -> None:
    module = script()
    names = {name: {level.name for level in module.levels(*name.split("-"))} for name in TARGETS}
    x86 = {level.name for level in LEVELS if level.machine == "x86_64"}
    assert names["linux-x86_64"] == x86
    assert names["windows-x86_64"] == x86 - {"x86-64-amx"}
    arm64 = {level.name for level in LEVELS if level.machine == "arm64"}
    assert names["linux-arm64"] == names["darwin-arm64"] == arm64
    assert {name for system in module.TARGETS for name in ["-".join(system)]} == set(TARGETS)


def test_a_level_is_the_compilers_in_its_words() -> None:
    words = {level.name: script().level_flags(level)[0] for level in LEVELS}
    assert words["x86-64-v3-vnni"] == "-mcpu=x86_64_v3+avxvnni"
    assert words["arm64"] == "-mcpu=generic"
    assert words["arm64-i8mm"] == "-mcpu=generic+v8_2a+dotprod+i8mm"
    assert words["x86-64-amx"].endswith("+avx512vnni+avx512bf16+amx_tile+amx_int8+amx_bf16")


def built_for(name: str) -> Path:
    folder = shipped.folder(*name.split("-"))
    if not folder.is_dir():
        pytest.skip("`make native` was not run here")
    if json.loads((folder / shipped.MANIFEST).read_text())["sources"] != sources_digest():
        pytest.skip("sources were changed since `make native` was run here")
    return folder


def test_all_together_are_small() -> None:
    total = sum(path.stat().st_size for name in TARGETS for path in built_for(name).iterdir())
    assert total < 10_000_000


@pytest.mark.timeout(600)  # wine makes a home for itself first
def test_windows_libraries_run_all_kernels_under_wine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every level that this processor has."""
    folder = built_for("windows-x86_64")
    if shutil.which("wine") is None:
        pytest.skip("there is no wine here")
    from kernels.native.levels import executable

    monkeypatch.setenv("WINEPREFIX", str(tmp_path / "wine"))
    monkeypatch.setenv("WINEDEBUG", "-all")
    shutil.copy(folder / "check.exe", tmp_path)
    levels = [level.name for level in executable() if level.name != "x86-64-amx"]
    for level in levels:
        shutil.copy(folder / f"{level}.dll", tmp_path / "kernels.dll")
        done = subprocess.run(
            ["wine", "./check.exe"], cwd=tmp_path, check=False, capture_output=True, timeout=300
        )
        assert done.returncode == 0, level
