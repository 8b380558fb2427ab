"""The files that desktops read match the app: one id, one version, one icon in all sizes."""

from __future__ import annotations

import configparser
import io
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image

from core.client.programs import ROOT
from desktop.app import APP_ID
from tests.packaging.scripts import INSTALLERS, script

SHARE = INSTALLERS / "linux" / "share"


def metainfo() -> ET.Element:
    return ET.parse(SHARE / "metainfo" / f"{APP_ID}.metainfo.xml").getroot()


def desktop_entry() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read(SHARE / "applications" / f"{APP_ID}.desktop", encoding="utf-8")
    return parser["Desktop Entry"]


def test_the_window_and_all_files_go_by_one_id() -> None:
    assert [path.name for path in (SHARE / "applications").iterdir()] == [f"{APP_ID}.desktop"]
    assert desktop_entry()["Icon"] == APP_ID == script("icons").APP_ID
    assert metainfo().findtext("id") == APP_ID
    assert metainfo().findtext("launchable") == f"{APP_ID}.desktop"
    assert metainfo().findtext("provides/binary") == desktop_entry()["Exec"] == "waymark"


def test_the_newest_release_is_the_version_that_is_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    newest = metainfo().find("releases/release")
    assert newest is not None and newest.get("version") == project["version"]
    assert metainfo().findtext("project_license") == project["license"]


@pytest.fixture
def icons(tmp_path: Path, qapp: object) -> Path:
    found = script("icons")
    found.write_theme(tmp_path / "hicolor")
    found.write_images(tmp_path / "a.ico", [found.drawn(found.tile(), 16 * n) for n in (1, 2)])
    found.write_images(
        tmp_path / "a.icns", [found.drawn(found.tile(0.1), n) for n in found.MACOS_SIZES]
    )
    return tmp_path


def test_the_icon_fills_its_tile_in_every_size(icons: Path) -> None:
    for size in (16, 22, 24, 32, 48, 64, 128, 256, 512):
        path = icons / "hicolor" / f"{size}x{size}" / "apps" / f"{APP_ID}.png"
        image = Image.open(io.BytesIO(path.read_bytes())).convert("RGBA")
        assert image.size == (size, size)
        # The corners are round, an edge's middle is the tile, and the signpost is white.
        assert image.getchannel("A").getpixel((0, 0)) != 255
        assert image.getpixel((0, size // 2)) == (0x0F, 0x76, 0x6E, 0xFF)
        assert (0xFF, 0xFF, 0xFF, 0xFF) in set(image.get_flattened_data()) or size < 48
    drawing = (icons / "hicolor" / "scalable" / "apps" / f"{APP_ID}.svg").read_text("utf-8")
    assert "currentColor" not in drawing and drawing.count("<path") == 3


def test_windows_and_macos_get_one_file_of_several_sizes(icons: Path) -> None:
    with Image.open(icons / "a.ico") as image:
        assert image.info["sizes"] == {(16, 16), (32, 32)}
    with Image.open(icons / "a.icns") as image:
        # Apple's sizes are points and pixels a point: 32 pixels are 16 points on a fine screen.
        pixels = {width * scale for width, _, scale in image.info["sizes"]}
        assert pixels == {32, 64, 128, 256, 512, 1024}
