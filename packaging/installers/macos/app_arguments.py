"""PyInstaller's arguments that make an app of its folder, for waymark.spec on macOS.

The identity to sign with is the variable WAYMARK_SIGN_IDENTITY; without it code is signed for
nobody, which macOS wants at least, and the hardened runtime stays off.
"""

from __future__ import annotations

import os
import plistlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[2] / "build" / "installers"
IDENTITY = "WAYMARK_SIGN_IDENTITY"


def executable_arguments() -> dict[str, Any]:
    """Of each EXE; what is collected beside it is signed in the same way."""
    entitlements = str(HERE / "entitlements.plist")
    return {
        "codesign_identity": os.environ.get(IDENTITY) or None,
        "entitlements_file": entitlements,
    }


def bundle_arguments(version: str) -> dict[str, Any]:
    info = plistlib.loads((HERE / "Info.plist").read_bytes())
    # PyInstaller would name whichever executable it meets first, and writes no CFBundleVersion.
    info |= {"CFBundleExecutable": "waymark", "CFBundleVersion": version}
    return {
        "name": "Waymark.app",
        "icon": str(BUILD / "waymark.icns"),
        "bundle_identifier": "io.github.waymark.Waymark",
        "version": version,
        "info_plist": info,
    }
