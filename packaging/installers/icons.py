"""Draws the app's icon for each system from the drawing that the window uses.

    python packaging/installers/icons.py [TARGET_FOLDER] [--ico FILE] [--icns FILE]

TARGET_FOLDER gets a `hicolor` folder as icon themes have it, `--ico` writes Windows' file, and
`--icns` macOS' file.
"""

from __future__ import annotations

import argparse
import io
import os
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QGuiApplication, QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgRenderer

APP_ID = "io.github.waymark.Waymark"
RESOURCES = Path(__file__).resolve().parents[2] / "resources"
DRAWING = RESOURCES / "icons" / "waymark.svg"
THEME = RESOURCES / "themes" / "light.toml"
SVG = "http://www.w3.org/2000/svg"

LINUX_SIZES = (16, 22, 24, 32, 48, 64, 128, 256, 512)
WINDOWS_SIZES = (16, 20, 24, 32, 40, 48, 64, 256)
MACOS_SIZES = (32, 64, 128, 256, 512, 1024)
# The tile is 32 wide, so that 16 and 32 pixels meet its edges; the drawing in it is 24 wide.
TILE = 32
# macOS leaves a tenth of an icon's edge empty on each side, other systems do not.
MACOS_MARGIN = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", nargs="?", type=Path, help="gets the folder hicolor")
    parser.add_argument("--ico", type=Path, help="Windows' file to write")
    parser.add_argument("--icns", type=Path, help="macOS' file to write")
    chosen = parser.parse_args()
    if not (chosen.target or chosen.ico or chosen.icns):
        parser.error("nothing was asked for")
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QGuiApplication.instance() or QGuiApplication([])
    if chosen.target:
        write_theme(chosen.target / "hicolor")
    if chosen.ico:
        write_images(chosen.ico, (drawn(tile(), size) for size in WINDOWS_SIZES))
    if chosen.icns:
        write_images(chosen.icns, (drawn(tile(MACOS_MARGIN), size) for size in MACOS_SIZES))
    del application


def tile(margin: float = 0.0) -> bytes:
    """The icon as an SVG: the window's drawing in white on a tile of the accent's colour.

    The lone drawing is thin and of one colour: on a panel of that colour nobody would see it.
    """
    drawing = ET.parse(DRAWING).getroot()
    ET.register_namespace("", SVG)
    side = TILE / (1 - 2 * margin)
    edge = (side - TILE) / 2
    box = f"{0 - edge:g} {0 - edge:g} {side:g} {side:g}"
    root = ET.Element(f"{{{SVG}}}svg", {"viewBox": box, "width": "512", "height": "512"})
    accent = tomllib.loads(THEME.read_text("utf-8"))["accent"]
    whole = {"width": str(TILE), "height": str(TILE), "rx": "7", "fill": accent}
    ET.SubElement(root, f"{{{SVG}}}rect", whole)
    kept = {name: value for name, value in drawing.attrib.items() if name != "viewBox"}
    kept |= {"stroke": "#ffffff", "transform": "translate(4 4)"}
    ET.SubElement(root, f"{{{SVG}}}g", kept).extend(drawing)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def drawn(icon: bytes, size: int) -> bytes:
    image = QImage(size, size, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(icon)).render(painter)
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QImageWriter(buffer, QByteArray(b"png"))
    if not writer.write(image):
        raise OSError(f"the icon could not be written: {writer.errorString()}")
    return bytes(buffer.data().data())


def write_theme(folder: Path) -> None:
    icon = tile()
    files = {f"{size}x{size}/apps/{APP_ID}.png": drawn(icon, size) for size in LINUX_SIZES}
    files[f"scalable/apps/{APP_ID}.svg"] = icon
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_images(path: Path, pngs: Iterable[bytes]) -> None:
    """One file of several sizes, of the kind that its name says."""
    images = [Image.open(io.BytesIO(png)) for png in pngs]
    *smaller, largest = images
    path.parent.mkdir(parents=True, exist_ok=True)
    sizes = [image.size for image in images]
    if path.suffix == ".ico":
        largest.save(path, append_images=smaller, sizes=sizes)
    else:
        largest.save(path, append_images=smaller)


if __name__ == "__main__":
    main()
