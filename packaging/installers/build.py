"""Makes the folder that every installer packs: two executables, our files, Python, torch and Qt.

    build/installers/environment/bin/python packaging/installers/build.py

Runs in the environment of requirements.txt, on the system that the folder is for, and leaves it in
build/installers/bundle. `make installer` makes the environment, calls this, and packs for Linux.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "installers"
NATIVE = ROOT / "packaging" / "native"
BUNDLE = BUILD / "bundle" / ("Waymark.app" if sys.platform == "darwin" else "waymark")
# Their symbol tables serve debuggers only: 110 MB. Stripping damages libraries that `auditwheel`
# has rewritten (numpy's, Pillow's), and compiled kernels must keep their digests.
STRIPPED = (
    *("torch/lib/*.so", "libpython*.so.*", "python3.*/lib-dynload/*.so", "pypdfium2_raw/*.so"),
    *("rpds/*.so", "safetensors/*.so", "tokenizers/*.so", "PySide6/Qt/lib/libicu*.so.*"),
)


def main() -> None:
    draw_icon()
    compile_kernels()
    freeze()
    if sys.platform == "linux":
        strip()
    run(sys.executable, HERE / "licences.py", BUNDLE)
    ask()
    megabytes = sum(path.lstat().st_size for path in files()) / 1e6
    print(f"{BUNDLE.relative_to(ROOT)}: {megabytes:.0f} MB")


def draw_icon() -> None:
    """Draw the executables' icon; on Linux the package has it."""
    kinds = {"win32": ("--ico", "waymark.ico"), "darwin": ("--icns", "waymark.icns")}
    if sys.platform in kinds:
        option, name = kinds[sys.platform]
        run(sys.executable, HERE / "icons.py", option, BUILD / name)


def compile_kernels() -> None:
    """Compile the C kernels for every processor level, unless the existing ones are current."""
    from kernels.native.shipped import MANIFEST, folder

    kernels, name = BUILD / "kernels", folder().name
    if not is_current(kernels / name / MANIFEST):
        run(sys.executable, NATIVE / "libraries.py", name, "--to", kernels)
    signer = os.environ.get("WAYMARK_SIGN_IDENTITY")
    if sys.platform == "darwin" and signer:
        run(sys.executable, HERE / "macos" / "sign_kernels.py", kernels / name, signer)


def is_current(manifest: Path) -> bool:
    """True if the kernels were compiled from these sources, by this compiler and with its flags."""
    from kernels.native.build import sources_digest

    if not manifest.exists():
        return False
    made = manifest.stat().st_mtime
    is_older = all(path.stat().st_mtime < made for path in NATIVE.glob("*.*"))
    return is_older and json.loads(manifest.read_text("utf-8"))["sources"] == sources_digest()


def freeze() -> None:
    shutil.rmtree(BUNDLE.parent, ignore_errors=True)
    folders = ("--distpath", BUNDLE.parent, "--workpath", BUILD / "work")
    quietly = ("--noconfirm", "--log-level", "WARN")
    run(sys.executable, "-m", "PyInstaller", *quietly, *folders, HERE / "waymark.spec")


def strip() -> None:
    inside = BUNDLE / "_internal"
    found = [path for pattern in STRIPPED for path in inside.glob(pattern)]
    run("strip", "--strip-unneeded", *(path for path in found if not path.is_symlink()))


def ask() -> None:
    """Have the engine look at a sample picture: worker, helper and kernels. Ends the build else."""
    programs = BUNDLE / "Contents" / "MacOS" if sys.platform == "darwin" else BUNDLE
    engine = programs / ("waymark-engine.exe" if sys.platform == "win32" else "waymark-engine")
    resources = ROOT / "resources"
    picture = {"image": str(resources / "samples" / "three-shapes.png")}
    content = [picture, {"text": "What is in this picture?"}]
    script = BUILD / "work" / "question.json"
    steps = [{"op": "send", "chat": "a", "content": content}]
    script.write_text(json.dumps({"sampling": {"temperature": 0}, "steps": steps}), "utf-8")
    options = ("--model", resources / "models" / "demo", "--device", "cpu")
    words = [str(word) for word in (engine, "core.replay", script, *options)]
    said = subprocess.run(words, stdout=subprocess.PIPE, timeout=300, check=True).stdout
    reply = json.loads(said)["reply"]
    if not all(shape in reply for shape in ("circle", "star", "triangle")):
        sys.exit(f"The engine that was built takes the sample picture for this: {reply}")


def files() -> Iterator[Path]:
    """All that is in the folder, each once."""
    return (path for path in BUNDLE.rglob("*") if path.is_file() and not path.is_symlink())


def run(*command: str | Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([str(part) for part in command], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
