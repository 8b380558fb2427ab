"""The macOS bundle's metadata, checked against its formats; none of it was run on macOS."""

from __future__ import annotations

import hashlib
import json
import plistlib
import runpy
from pathlib import Path

import pytest

from desktop.app import APP_ID
from tests.packaging.scripts import INSTALLERS, script

MACOS = INSTALLERS / "macos"


def test_the_bundle_is_a_program_with_a_window() -> None:
    info = plistlib.loads((MACOS / "Info.plist").read_bytes())
    assert info["LSBackgroundOnly"] is False
    assert info["NSHighResolutionCapable"] is True
    assert info["LSMinimumSystemVersion"] == "14.0"
    # What PyInstaller writes from its own arguments is not said twice.
    assert not [name for name in info if name.startswith("CFBundle")]


def test_the_entitlements_are_as_few_as_can_be() -> None:
    entitlements = plistlib.loads((MACOS / "entitlements.plist").read_bytes())
    assert entitlements == {"com.apple.security.cs.allow-unsigned-executable-memory": True}


def test_pyinstaller_is_told_who_signs_and_which_program_is_the_app(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = script("macos/app_arguments")
    monkeypatch.setenv("WAYMARK_SIGN_IDENTITY", "")
    assert told.executable_arguments()["codesign_identity"] is None
    monkeypatch.setenv("WAYMARK_SIGN_IDENTITY", "Developer ID Application: Somebody")
    signed = told.executable_arguments()
    assert signed["codesign_identity"] == "Developer ID Application: Somebody"
    assert signed["entitlements_file"] == str(MACOS / "entitlements.plist")
    bundle = told.bundle_arguments("1.2.3")
    assert bundle["bundle_identifier"] == APP_ID
    assert bundle["info_plist"]["CFBundleExecutable"] == "waymark"
    assert bundle["info_plist"]["LSBackgroundOnly"] is False


def test_the_image_holds_the_app_and_a_way_to_applications(tmp_path: Path) -> None:
    app = tmp_path / "Waymark.app"
    app.mkdir()
    defines = {"app": str(app), "icon": "waymark.icns"}
    settings = runpy.run_path(str(MACOS / "dmg_settings.py"), {"defines": defines})
    assert settings["files"] == [str(app)]
    assert settings["symlinks"] == {"Applications": "/Applications"}
    assert set(settings["icon_locations"]) == {"Waymark.app", "Applications"}
    app.rmdir()
    with pytest.raises(SystemExit, match="no app bundle"):
        runpy.run_path(str(MACOS / "dmg_settings.py"), {"defines": defines})


def test_the_manifest_of_signed_kernels_names_their_new_bytes(tmp_path: Path) -> None:
    def sign(path: Path) -> None:
        path.write_bytes(path.read_bytes() + b" signed")

    def listed(**files: bytes) -> dict[str, object]:
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        return {"sources": "s", "sha256": digests}

    (tmp_path / "neon").write_bytes(b"code")
    (tmp_path / "check").write_bytes(b"program")
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(listed(neon=b"code", check=b"program")), "utf-8")
    script("macos/sign_kernels").sign(tmp_path, sign)
    signed = listed(neon=b"code signed", check=b"program signed")
    assert json.loads(manifest.read_text("utf-8")) == signed

    (tmp_path / "check").write_bytes(b"another program")
    with pytest.raises(SystemExit, match="not what the manifest says"):
        script("macos/sign_kernels").sign(tmp_path, sign)
