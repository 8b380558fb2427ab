"""Sees to the system libraries that Qt needs and its wheels do not carry.

Usage: qt_libraries.py headless|window|bundle

Asks the dynamic linker what is really missing, installs it where that is allowed (apt, as root or
by sudo), and otherwise prints exactly what to install. Fails only if Qt cannot start: offscreen for
the tests, on the user's display for the window, on every display for what is packed into an
installer. Needs PySide6 and the standard library only.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

# The library files each purpose loads, relative to the PySide6 package.
OFFSCREEN_FILES = (
    "QtWidgets.abi3.so",
    "QtSvg.abi3.so",
    "QtNetwork.abi3.so",
    "Qt/plugins/platforms/libqoffscreen.so",
)
XCB_FILES = ("Qt/plugins/platforms/libqxcb.so",)
WAYLAND_FILES = ("Qt/plugins/platforms/libqwayland.so",)

# Which Debian or Ubuntu package holds a library. Newer releases call some `...t64`; apt follows.
PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libGLX.so.0": "libgl1",
    "libX11.so.6": "libx11-6",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
}
FONT_PACKAGE = "fonts-dejavu-core"
FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
FONT_SUFFIXES = {".ttf", ".otf", ".ttc", ".pfb"}

START_OFFSCREEN = "from PySide6.QtWidgets import QApplication; QApplication([])"


def main(purpose: str) -> int:
    """Return the exit status for `headless` (the tests), `window` (the app) or `bundle` (what is
    packed into an installer)."""
    if sys.platform != "linux":
        return 0
    plugins = {"headless": (), "window": display_files(), "bundle": XCB_FILES + WAYLAND_FILES}
    files = OFFSCREEN_FILES + plugins[purpose]
    libraries = missing_libraries(files)
    packages = packages_for(libraries)
    if not has_fonts():
        packages.append(FONT_PACKAGE)
    if packages or libraries:
        if apt_install(packages):
            libraries = missing_libraries(files)
        if libraries or not has_fonts():
            print_what_to_install(libraries)
    if not starts_offscreen():
        return 1
    if plugins[purpose] and missing_libraries(plugins[purpose]):
        print("Without these libraries Qt cannot open a window on a display.", file=sys.stderr)
        return 1
    return 0


def display_files() -> tuple[str, ...]:
    if os.environ.get("QT_QPA_PLATFORM", "").startswith(("offscreen", "minimal", "vnc")):
        return ()
    return WAYLAND_FILES if os.environ.get("WAYLAND_DISPLAY") else XCB_FILES


def missing_libraries(files: Iterable[str]) -> list[str]:
    spec = importlib.util.find_spec("PySide6")
    if spec is None or spec.origin is None or shutil.which("ldd") is None:
        return []
    folder = Path(spec.origin).parent
    paths = [str(folder / name) for name in files if (folder / name).exists()]
    found = subprocess.run(["ldd", *paths], capture_output=True, text=True, check=False)
    lines = found.stdout.splitlines()
    return sorted({line.split()[0] for line in lines if line.endswith("=> not found")})


def packages_for(libraries: Iterable[str]) -> list[str]:
    return sorted({PACKAGES[name] for name in libraries if name in PACKAGES})


def has_fonts() -> bool:
    """Without any font Qt draws boxes and warns."""
    folders = [Path(name).expanduser() for name in FONT_FOLDERS]
    return any(
        path.suffix.lower() in FONT_SUFFIXES for folder in folders for path in folder.rglob("*")
    )


def apt_install(packages: Sequence[str]) -> bool:
    """Install packages if this user may; return whether apt succeeded."""
    root = root_command()
    if not packages or shutil.which("apt-get") is None or root is None:
        return False
    print(
        f"Qt needs packages of the system that are missing: {' '.join(packages)}.\n"
        f"Installing them with {' '.join([*root, 'apt-get'])}; Ctrl-C stops it ...",
        flush=True,
    )
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o=Dpkg::Use-Pty=0"]
    # A list of packages that is a little old still serves: a failing update is no reason to stop.
    subprocess.run([*apt, "update"], check=False)
    install = [*apt, "install", "-y", "--no-install-recommends", *packages]
    return subprocess.run(install, stdout=subprocess.DEVNULL, check=False).returncode == 0


def root_command() -> list[str] | None:
    """The prefix that runs a command as root, or None if that is impossible."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    quiet = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    return ["sudo"] if quiet or sys.stdin.isatty() else None


def print_what_to_install(libraries: Sequence[str]) -> None:
    """Print the exact commands for the system at hand."""
    packages = packages_for(libraries)
    if not has_fonts():
        packages.append(FONT_PACKAGE)
    if libraries:
        print(f"Qt needs system libraries that are missing: {' '.join(libraries)}", file=sys.stderr)
    else:
        print("No fonts are installed; Qt would draw boxes instead of letters.", file=sys.stderr)
    if shutil.which("dnf"):
        wanted = [f"'{name}()(64bit)'" for name in libraries]
        print(
            f"Install them with: sudo dnf install {' '.join(wanted or ['dejavu-sans-fonts'])}",
            file=sys.stderr,
        )
    else:
        print(f"On Debian and Ubuntu: sudo apt-get install {' '.join(packages)}", file=sys.stderr)


def starts_offscreen() -> bool:
    """Start Qt without a display, in a process of its own: a missing plugin aborts the process."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", START_OFFSCREEN]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(
            f"Qt does not start even without a display:\n{result.stderr.strip()}", file=sys.stderr
        )
    return result.returncode == 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in {"headless", "window", "bundle"}:
        sys.exit("usage: qt_libraries.py headless|window|bundle")
    sys.exit(main(sys.argv[1]))
