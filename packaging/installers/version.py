"""Prints the version that is built; with --tag, holds a release's tag to it.

python packaging/installers/version.py [--tag v1.2.3]
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tag", help="what the release is called")
    tag = parser.parse_args(arguments).tag
    found = version()
    if tag is not None and tag != f"v{found}":
        print(f"The tag {tag} is not of version {found} in pyproject.toml.", file=sys.stderr)
        return 1
    # Windows' installer can bear no other.
    if tag is not None and not re.fullmatch(r"\d+\.\d+\.\d+", found):
        print(f"The version {found} is not three numbers.", file=sys.stderr)
        return 1
    print(found)
    return 0


def version() -> str:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return str(said["project"]["version"])


if __name__ == "__main__":
    sys.exit(main())
