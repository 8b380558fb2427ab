"""Signs compiled kernels before they go into a bundle, and writes their new digests down.

    python packaging/installers/macos/sign_kernels.py FOLDER IDENTITY

FOLDER is what `make native` built for macOS. Apple refuses a bundle with code that is not signed,
and a hardened app refuses to load it. Signing changes a library's bytes, which the manifest beside
it names: so it is done before, and PyInstaller is given them as plain files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

MANIFEST = "manifest.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("identity", help="a Developer ID Application in the keychain")
    chosen = parser.parse_args()
    sign(chosen.folder, lambda path: codesign(path, chosen.identity))


def codesign(path: Path, identity: str) -> None:
    """Sign one file for the hardened runtime. Raises CalledProcessError."""
    command = ["codesign", "--force", "--timestamp", "--options", "runtime", "--sign", identity]
    subprocess.run([*command, str(path)], check=True)


def sign(folder: Path, each: Callable[[Path], None]) -> None:
    """Have every file that the manifest names signed, and the manifest name the new bytes."""
    manifest_file = folder / MANIFEST
    manifest = json.loads(manifest_file.read_text("utf-8"))
    for name, digest in manifest["sha256"].items():
        path = folder / name
        if digest_of(path) != digest:
            raise SystemExit(f"{path} is not what the manifest says; build it again.")
        each(path)
        manifest["sha256"][name] = digest_of(path)
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    manifest_file.write_text(text, encoding="utf-8", newline="\n")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
