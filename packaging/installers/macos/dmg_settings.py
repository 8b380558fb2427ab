"""Settings of dmgbuild: an image from which the app is dragged to Applications.

    dmgbuild -s dmg_settings.py -D app=dist/Waymark.app -D icon=waymark.icns Waymark waymark.dmg

dmgbuild runs this file with `defines`, which holds what -D says, and reads the names it leaves.
"""

from __future__ import annotations

from pathlib import Path

defines: dict[str, str] = globals()["defines"]

_app = Path(defines["app"])
if not _app.is_dir():
    raise SystemExit(f"There is no app bundle {_app}.")

# Compressed by LZMA, which every macOS that the app runs on can read; the size is found out.
format = "ULMO"
filesystem = "APFS"
files = [str(_app)]
symlinks = {"Applications": "/Applications"}
icon = defines["icon"]

default_view = "icon-view"
window_rect = ((200, 200), (540, 340))
icon_size = 112
icon_locations = {_app.name: (140, 150), "Applications": (400, 150)}
