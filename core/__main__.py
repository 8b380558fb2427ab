"""`python -m core PROGRAM ...`: the installed app's executable runs a program as `python -m`
would."""

from __future__ import annotations

import runpy
import sys

from core.client.programs import PROGRAMS, restore_environment


def main() -> int:
    restore_environment()
    if sys.argv[1:2] == ["serve"]:
        sys.argv[1] = "core.server"
    if sys.argv[1:2] == [] or sys.argv[1] not in PROGRAMS:
        print(f"The first argument must be one of {', '.join(PROGRAMS)}.", file=sys.stderr)
        return 2
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
