"""Writes every lock file: `make lock`; with ARGS=--upgrade versions become the newest allowed ones.

    requirements.lock            what `make run` installs, from pyproject.toml
    requirements-check.lock      what `make test` and `make check` install
    packaging/installers/*.txt   what the installers are built from, each from its .in file

Every version and hash is PyPI's, for all systems and Python versions; pip compares the files. A
checkout's torch is in no lock, and what only its CUDA build needs neither: which build is right
depends on the machine (install_torch.sh). The installers' torch is in torch.txt, by hand: PyPI has
no CPU build for Linux.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLERS = ROOT / "packaging" / "installers"
COMMAND = "make lock"
# Brought along by torch's CUDA build; triton is also what tests run GPU kernels with.
WITH_TORCH = re.compile(r"(torch|nvidia-\S+|cuda-\S+)==")
WITH_TORCH_OR_TESTS = re.compile(r"(torch|triton|nvidia-\S+|cuda-\S+)==")


def main() -> int:
    check, run = ROOT / "requirements-check.lock", ROOT / "requirements.lock"
    project = str(ROOT / "pyproject.toml")
    resolve(check, project, "--extra", "check", "--python-version", "3.11")
    # The same versions for both, so that `make test` after `make run` changes none.
    resolve(run, project, "--constraint", str(check), "--python-version", "3.11")
    for lock, left_out in ((check, WITH_TORCH), (run, WITH_TORCH_OR_TESTS)):
        lock.write_text(without(lock.read_text("utf-8"), left_out), "utf-8")
    for source in sorted(INSTALLERS.glob("*.in")):
        resolve(source.with_suffix(".txt"), str(source), "--no-deps", "--python-version", "3.11")
    return 0


def resolve(lock: Path, *arguments: str) -> None:
    """Write a lock file; versions in the one that is there stay while they may."""
    uv = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config"]
    how = ["--universal", "--generate-hashes", "--no-annotate", "--only-binary", ":all:"]
    where = ["--default-index", "https://pypi.org/simple", "--custom-compile-command", COMMAND]
    command = [*uv, *how, *where, *arguments, *sys.argv[1:], "--output-file", str(lock)]
    subprocess.run(command, check=True, cwd=ROOT)


def without(text: str, names: re.Pattern[str]) -> str:
    """A lock file without the requirements whose line matches."""
    blocks = re.split(r"^(?=\S)", text, flags=re.MULTILINE)
    return "".join(block for block in blocks if not names.match(block))


if __name__ == "__main__":
    sys.exit(main())
