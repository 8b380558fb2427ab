"""The licences of a bundle: all that is in it is somebody's and has a text, or is named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.packaging.scripts import script

SITE = "site-packages"


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    return script("licences")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle of two distributions, Python, a library of the system, and what is ours."""
    folder = tmp_path / "waymark"
    for place in (
        "one/library.so", "two.libs/libpng16-0a1b2c3d.so.16.1", "base_library.zip",
        "libpython3.11.so.1.0", "libz.so.1", "resources/models/demo/config.json", "core/a.py",
        "resources/gguf/grids.npz",
    ):  # fmt: skip
        put(folder / "_internal" / place)
    (folder / "_internal" / "libpng16.so").symlink_to("two.libs/libpng16-0a1b2c3d.so.16.1")
    install(tmp_path, "One", {"one/library.so": b""}, licence="MIT", texts={"LICENSE": b"be fair"})
    install(
        tmp_path, "two", {"two/module.py": b"", "two.libs/libpng16-0a1b2c3d.so.16.1": b""},
        licence="BSD-3-Clause", texts={"third_party/png/COPYING": b"png", "NOTICE": b"two"},
    )  # fmt: skip
    return folder


def put(path: Path, data: bytes = b"data") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def install(
    root: Path,
    name: str,
    files: dict[str, bytes],
    licence: str = "",
    texts: dict[str, bytes] | None = None,
    lists: dict[str, Any] | None = None,
) -> None:
    info = f"{name.lower()}-1.2.dist-info"
    said = f"License-Expression: {licence}\n" if licence else ""
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.2\n{said}"
    inside = {f"{info}/licenses/{place}": text for place, text in (texts or {}).items()}
    for each, listed in (lists or {}).items():
        inside[f"{info}/sboms/{each}"] = json.dumps(listed).encode()
    inside[f"{info}/METADATA"] = metadata.encode()
    for place, data in (files | inside).items():
        put(root / SITE / place, data)
    record = "".join(f"{place},,\n" for place in files | inside)
    put(root / SITE / info / "RECORD", record.encode())


def described(licences: ModuleType, bundle: Path, modules: tuple[str, ...] = ()) -> dict[str, Any]:
    contents = dataclasses.replace(licences.read(bundle), modules=frozenset(modules))
    installed = licences.Installed([str(bundle.parent / SITE)])
    _, found = licences.described(contents, installed)
    return {component.name: component for component in found}


@pytest.fixture(autouse=True)
def zlib_of_the_system(licences: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """One package of the system; whether it is looked up rightly is tested by itself."""
    monkeypatch.setattr(licences, "package_of", {"libz.so.1": "zlib1g"}.get)
    made = licences.Component("zlib1g", "1", "Zlib", texts={"copyright": b"zlib"})
    monkeypatch.setattr(licences, "system_component", lambda package, names: made)


def test_every_part_of_a_bundle_is_listed_with_its_text(
    licences: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    found = described(licences, bundle, ("two.module", "json", "core.api", "window"))
    tables = found.pop("ggml quantization tables")
    assert (tables.licence, b"permission notice" in tables.texts["ggml.txt"]) == ("MIT", True)
    assert set(found) == {"one", "two", "CPython", "zlib1g", "Waymark demo model"}
    assert found["one"].texts == {"LICENSE": b"be fair"}
    assert [part.name for part in found["two"].parts] == ["png", "png16"]
    assert found["Waymark demo model"].kind == "machine-learning-model"
    licences.write(tmp_path / "out", [*found.values()])
    assert (tmp_path / "out/two/third_party/png/COPYING").read_bytes() == b"png"
    assert (tmp_path / "out/zlib1g/copyright").read_bytes() == b"zlib"


def test_the_list_names_each_part_once_and_is_the_same_each_time(
    licences: ModuleType, bundle: Path
) -> None:
    parts = list(described(licences, bundle).values())
    text = licences.bill(licences.app(), parts)
    assert text == licences.bill(licences.app(), parts[::-1])
    listed = json.loads(text)
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    references = [each["bom-ref"] for each in listed["components"]]
    assert references == sorted(set(references)) == listed["dependencies"][0]["dependsOn"]
    assert {"one", "two", "cpython", "zlib1g"} < set(references)
    assert "    contains: png, png16\n" in licences.index(licences.app(), parts)


def test_the_list_is_valid_by_the_formats_own_schema(licences: ModuleType, bundle: Path) -> None:
    pytest.importorskip("cyclonedx", reason="installed by `make installer`, which validates too")
    text = licences.bill(licences.app(), list(described(licences, bundle).values()))
    licences.validate(text)
    with pytest.raises(licences.LicenceError, match="no valid CycloneDX"):
        licences.validate(text.replace('"type": "application"', '"type": "thing"'))


def test_a_package_that_several_share_is_somebodys(
    licences: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    text = {"LICENSE": b"be fair"}
    install(tmp_path, "half", {"both/half/one.py": b""}, licence="MIT", texts=text)
    assert "half" in described(licences, bundle, ("both", "both.half", "both.half.one"))


def test_what_nobody_made_and_what_has_no_text_is_named_at_once(
    licences: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    put(bundle / "_internal" / "libmystery.so.4")
    put(bundle / "_internal" / "three" / "data.bin")
    install(tmp_path, "three", {"three/data.bin": b""}, licence="MIT")
    with pytest.raises(licences.LicenceError) as caught:
        described(licences, bundle, ("strange.module",))
    assert str(caught.value).splitlines() == [
        "nobody is known to have made libmystery.so.4",
        "nobody is known to have made the module strange.module",
        "three has no licence text",
    ]


def test_a_bundle_with_a_fault_gets_no_list(
    licences: ModuleType,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(bundle / "_internal" / "libmystery.so.4")
    monkeypatch.setattr("sys.argv", ["licences.py", str(bundle)])
    installed = licences.Installed([str(bundle.parent / SITE)])
    monkeypatch.setattr(licences, "Installed", lambda: installed)
    assert licences.main() == 1
    assert "libmystery.so.4" in capsys.readouterr().err
    assert not (bundle / "licences").exists()


def test_qt_comes_with_both_texts_a_notice_and_its_sources(
    licences: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    qt = {"PySide6/Qt/lib/libQt6Core.so.6": b"", "PySide6/Qt/lib/libicudata.so.73": b""}
    install(tmp_path, "PySide6_Essentials", qt)
    for place in qt:
        put(bundle / "_internal" / place)
    found = described(licences, bundle)["pyside6-essentials"]
    assert {"LGPL-3.0-only.txt", "GPL-3.0-only.txt", "qt-notice.txt"} < set(found.texts)
    assert b"You may replace the libraries" in found.texts["qt-notice.txt"]
    assert found.sources.startswith("https://")
    assert [part.name for part in found.parts] == ["icudata"]


def test_libraries_whose_licence_is_only_named_come_with_its_text(
    licences: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    library = "pi_heif.libs/libheif-0a1b2c3d.so.1.23.0"
    install(tmp_path, "pi_heif", {library: b""}, texts={"LICENSES_bundled.txt": b"LGPLv3"})
    put(bundle / "_internal" / library)
    found = described(licences, bundle)["pi-heif"]
    assert {"LGPL-3.0-only.txt", "GPL-3.0-only.txt"} < set(found.texts)
    assert (found.licence, found.sources) == (
        "BSD-3-Clause AND LGPL-3.0-or-later", "https://github.com/strukturag",
    )  # fmt: skip
    assert [part.name for part in found.parts] == ["heif"]


def test_what_is_compiled_into_a_distribution_is_listed_as_its_own_list_says(
    licences: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    def crate(name: str, expression: str) -> dict[str, Any]:
        purl, licence = f"pkg:cargo/{name}@1", [{"expression": expression}]
        return {"name": name, "version": "1", "purl": purl, "licenses": licence}

    put(bundle / "_internal" / "rusty.so")
    left_out = {"name": "quantiser", "scope": "optional", "licenses": []}
    crates = [crate("either", "MIT OR Apache-2.0"), crate("both", "Zlib AND MIT"), left_out]
    text = {"LICENSE": b"rusty"}
    lists = {"rusty.cdx.json": {"components": crates}}
    install(tmp_path, "rusty", {"rusty.so": b""}, "MIT", text, lists)
    found = described(licences, bundle)["rusty"]
    assert [part.name for part in found.parts] == ["either", "both"]
    assert {"crates/MIT.txt", "crates/Apache-2.0.txt", "crates/Zlib.txt"} < set(found.texts)

    for odd in ("Odd-1.0", "MIT AND Odd-1.0"):
        lists["rusty.cdx.json"]["components"][3:] = [crate("odd", odd)]
        install(tmp_path, "rusty", {"rusty.so": b""}, "MIT", text, lists)
        with pytest.raises(licences.LicenceError, match=f"rusty's odd is under {odd}"):
            described(licences, bundle)


def test_the_loader_is_listed_with_the_exception_that_lets_others_use_it(
    licences: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    install(tmp_path, "pyinstaller", {"PyInstaller/a.py": b""}, texts={"COPYING.txt": b"but"})
    contents = dataclasses.replace(licences.read(bundle), is_frozen=True)
    _, found = licences.described(contents, licences.Installed([str(tmp_path / SITE)]))
    loader = next(component for component in found if component.name == "pyinstaller")
    assert loader.licence == "GPL-2.0-or-later WITH Bootloader-exception"


def test_a_macos_bundle_is_read_where_it_keeps_its_files(
    licences: ModuleType, tmp_path: Path
) -> None:
    inside = tmp_path / "Waymark.app" / "Contents"
    put(inside / "Frameworks" / "two__dot__libs" / "libpng.dylib")
    put(inside / "Resources" / "resources" / "icons" / "chat.svg")
    put(inside / "Resources" / "licences" / "LICENCES.txt")
    (inside / "Resources" / "two.libs").symlink_to("../Frameworks/two__dot__libs")
    (inside / "MacOS").mkdir()
    places = {str(place) for place in licences.read(tmp_path / "Waymark.app").files}
    assert places == {"two.libs/libpng.dylib", "resources/icons/chat.svg"}
    assert licences.for_people(tmp_path / "Waymark.app") == inside / "Resources"


def test_a_copyright_file_brings_the_texts_that_it_refers_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system = script("system_packages")
    monkeypatch.setattr(system, "DOCS", tmp_path / "docs")
    with pytest.raises(Exception, match=r"lib \(lib.so.1\) has no .*copyright"):
        system.system_component("lib", ["lib.so.1"])
    put(tmp_path / "common" / "GPL-2", b"the GPL")
    put(tmp_path / "docs" / "lib" / "copyright", b"License: GPL-2+\n"
        b"License: GPL-2+\nLicense: MIT\n see /usr/share/common-licenses/GPL-2.\n")  # fmt: skip
    monkeypatch.setattr(system, "COMMON", tmp_path / "common")
    monkeypatch.setattr(system, "_said", lambda *command: "1-2\tsource\t1\tamd64\n")
    monkeypatch.setattr(
        system.platform, "freedesktop_os_release", lambda: {"ID": "debian", "NAME": "Debian"}
    )
    found = system.system_component("lib", ["lib.so.1"])
    assert (found.licence, found.purl) == ("GPL-2+; MIT", "pkg:deb/debian/lib@1-2?arch=amd64")
    assert found.texts["common-licenses/GPL-2"] == b"the GPL"


def test_a_library_is_of_the_package_that_installed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the package's list has the place under /usr and the linker says it without."""
    system = script("system_packages")
    asked = []

    def said(*command: str) -> str:
        asked.append(command[-1])
        return "zlib1g:amd64: /usr/lib/libz.so.1\n" if command[-1].startswith("/usr") else ""

    monkeypatch.setattr(system, "libraries", lambda: {"libz.so.1": Path("/lib/libz.so.1")})
    monkeypatch.setattr(system, "_said", said)
    monkeypatch.setattr(system.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert system.package_of("libz.so.1") == "zlib1g"
    assert system.package_of("libother.so.1") is None
    assert set(asked) >= {"/usr/lib/libz.so.1"}
