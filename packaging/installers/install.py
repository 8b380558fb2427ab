"""Installs what the installers are built from into the environment that runs this, on every system.

Each file is compared with its written hash before anything of it runs, and nothing else is
installed. torch comes first: PyPI has no CPU build of it for Linux.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PYTORCH = (
    "--retries",
    "1",
    "--timeout",
    "30",
    "--index-url",
    "https://download.pytorch.org/whl/cpu",
)


def main() -> int:
    if install("torch.txt") and install("torch.txt", *PYTORCH):
        return 1
    return install("requirements.txt") or install("validation.txt")


def install(lock: str, *options: str) -> int:
    """Install what a lock file of this folder names; returns pip's exit status."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    how = ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    return subprocess.run([*pip, *how, *options, "-r", str(HERE / lock)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
