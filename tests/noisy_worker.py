"""The real worker with a library that prints to descriptor 1, and a load that takes its time.

Once a model is there: NOISE before every load, and from then on at every clearing of the cache.
A model folder whose name starts with `slow` is never finished loading.
"""

from __future__ import annotations

import os
import time
from typing import Any

from core.engine import engine, loaded
from core.worker import __main__ as worker

NOISE = b"a library says something\n"


def main() -> None:
    real_load, real_clear = loaded.load, engine.Engine.clear_cache

    def load(settings: Any, progress: Any, check: Any, *rest: Any) -> Any:
        os.write(1, NOISE)
        while "slow" in settings.path.rpartition("/")[2]:
            progress(1, 2)
            check()
            time.sleep(0.01)
        return real_load(settings, progress, check, *rest)

    def clear(self: engine.Engine) -> None:
        print(NOISE.decode(), flush=True)
        os.write(1, NOISE * 1000)
        real_clear(self)

    setattr(engine, "load", load)  # noqa: B010 - a function
    setattr(engine.Engine, "clear_cache", clear)  # noqa: B010 - a method
    worker.main()


if __name__ == "__main__":
    main()
