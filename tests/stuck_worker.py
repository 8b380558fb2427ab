"""The real worker, whose replies hang: a call that holds Python's lock for ever, or one without it.

`lock` or `free` on the command line.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from core.engine import engine
from core.worker import __main__ as worker


def main() -> None:
    library = ctypes.PyDLL(None) if sys.argv[1] == "lock" else ctypes.CDLL(None)

    def generate(self: Any, command: Any, flag: Any, emit: Any) -> Any:
        library.sleep(3600)

    setattr(engine.Engine, "generate", generate)  # noqa: B010 - a method
    worker.main()


if __name__ == "__main__":
    main()
