"""Packs what build.py made for Linux: a package for Debian and its kin, and a portable archive.

    build/installers/environment/bin/python packaging/installers/linux/package.py

Both hold the same tree. The archive's is an AppDir: it runs where it is unpacked, and an AppImage
is made of it as it is. What the package depends on is read from what the libraries in it ask for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "installers"
BUNDLE = BUILD / "bundle" / "waymark"
APP_ID = "io.github.waymark.Waymark"
PROGRAMS = ("waymark", "waymark-engine")
ARCHITECTURE = "x86_64"

# Which package has a library that is not brought along.
PACKAGES = {
    "ld-linux-x86-64.so.2": "libc6",
    "libc.so.6": "libc6",
    "libdl.so.2": "libc6",
    "libm.so.6": "libc6",
    "libpthread.so.0": "libc6",
    "libresolv.so.2": "libc6",
    "librt.so.1": "libc6",
    "libutil.so.1": "libc6",
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libcups.so.2": "libcups2",
    "libdrm.so.2": "libdrm2",
    "libexpat.so.1": "libexpat1",
    "libfontconfig.so.1": "libfontconfig1",
    "libgcc_s.so.1": "libgcc-s1",
    "libstdc++.so.6": "libstdc++6",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libwayland-egl.so.1": "libwayland-egl1",
    "libxcb.so.1": "libxcb1",
}
# By GCC's release, which is what its library is versioned by.
LIBSTDCXX = {"3.4.29": "11", "3.4.30": "12", "3.4.32": "13", "3.4.33": "14"}

CONTROL = """\
Package: waymark
Version: {version}
Architecture: amd64
Maintainer: The Waymark authors <waymark@localhost>
Installed-Size: {kibibytes}
Depends: {depends}
Recommends: fonts-dejavu-core, xdg-utils
Section: utils
Priority: optional
Description: chat with vision-language models on your own computer
 Waymark runs hybrid vision-language models on this computer. What a model has read,
 it never reads again: not after an edit, not after a retry, not after a restart.
 A small demo model comes along. Nothing that is typed or shown leaves the computer.
"""


def main() -> None:
    version = subprocess.check_output(
        [sys.executable, HERE.parent / "version.py"], text=True
    ).strip()
    # All files bear the time of the last change, so that equal trees make equal packages.
    time = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True)
    os.environ["SOURCE_DATE_EPOCH"] = time.strip()
    tree = BUILD / "linux" / f"waymark-{version}-linux-{ARCHITECTURE}"
    shutil.rmtree(tree.parent, ignore_errors=True)
    for earlier in [*BUILD.glob("waymark_*.deb"), *BUILD.glob("waymark-*.tar.zst")]:
        earlier.unlink()
    os.umask(0o022)
    lay_out(tree / "usr")
    let_all_read(tree)
    package(tree / "usr", version)
    archive(tree)


def lay_out(usr: Path) -> None:
    home = usr / "lib" / "waymark"
    # Of the bundle's files, which nobody changes, these are further names.
    shutil.copytree(BUNDLE, home, symlinks=True, copy_function=os.link)
    (usr / "bin").mkdir()
    for name in PROGRAMS:
        (usr / "bin" / name).symlink_to(f"../lib/waymark/{name}")
    shutil.copytree(HERE / "share", usr / "share")
    icons = [sys.executable, str(HERE.parent / "icons.py"), str(usr / "share" / "icons")]
    subprocess.run(icons, check=True)
    document = usr / "share" / "doc" / "waymark"
    document.mkdir(parents=True)
    text = (ROOT / "LICENSE").read_text("utf-8")
    others = "Those of all that comes along lie in /usr/lib/waymark/licences.\n\n"
    (document / "copyright").write_text(others + text, encoding="utf-8")


def let_all_read(folder: Path) -> None:
    """Whoever starts what is packed must be able to read it, however private the builder's are."""
    subprocess.run(["chmod", "-R", "u=rwX,go=rX,a-s", str(folder)], check=True)


def package(usr: Path, version: str) -> None:
    """Pack the tree as a .deb."""
    root = usr.parent.parent / "package"
    (root / "DEBIAN").mkdir(parents=True)
    shutil.copytree(usr, root / "usr", symlinks=True, copy_function=os.link)
    kibibytes = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    control = CONTROL.format(version=version, kibibytes=kibibytes, depends=", ".join(depends(usr)))
    (root / "DEBIAN" / "control").write_text(control, encoding="utf-8")
    target = BUILD / f"waymark_{version}_amd64.deb"
    packing = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1"]
    subprocess.run([*packing, "--build", str(root), str(target)], check=True)
    say(target)


def archive(tree: Path) -> None:
    (tree / "AppRun").symlink_to("usr/bin/waymark")
    share = tree / "usr" / "share"
    shutil.copy(share / "applications" / f"{APP_ID}.desktop", tree)
    shutil.copy(share / "icons" / "hicolor" / "256x256" / "apps" / f"{APP_ID}.png", tree)
    (tree / ".DirIcon").symlink_to(f"{APP_ID}.png")
    target = BUILD / f"{tree.name}.tar.zst"
    when = f"--mtime=@{os.environ['SOURCE_DATE_EPOCH']}"
    equal = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", when]
    squeezed = "--use-compress-program=zstd -12 -T0 --long=27 --quiet"
    subprocess.run(
        ["tar", squeezed, "-cf", target, *equal, "-C", tree.parent, tree.name], check=True
    )
    say(target)


def depends(usr: Path) -> list[str]:
    """The Debian packages that the included libraries need."""
    needed: set[str] = set()
    brought: set[str] = set()
    symbols: set[str] = set()
    for path in libraries(usr):
        headers = subprocess.check_output(["objdump", "-p", path], text=True)
        needed |= set(re.findall(r"NEEDED +(\S+)", headers))
        symbols |= set(re.findall(r" (GLIBC(?:XX)?_[0-9.]+)$", headers, re.MULTILINE))
        brought |= {path.name, *re.findall(r"SONAME +(\S+)", headers)}
    missing = needed - brought
    if unknown := missing - PACKAGES.keys():
        sys.exit(f"No package is known for {', '.join(sorted(unknown))}.")
    asked = newest(symbols, "GLIBCXX_")
    if asked not in LIBSTDCXX:
        sys.exit(f"No release of GCC is known for GLIBCXX_{asked}.")
    versions = {"libc6": newest(symbols, "GLIBC_"), "libstdc++6": LIBSTDCXX[asked]}
    names = sorted({PACKAGES[library] for library in missing})
    return [f"{name} (>= {versions[name]})" if name in versions else name for name in names]


def newest(symbols: set[str], prefix: str) -> str:
    found = [each.removeprefix(prefix) for each in symbols if each.startswith(prefix)]
    return max(found, key=lambda version: [int(part) for part in version.split(".")])


def libraries(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def say(target: Path) -> None:
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
