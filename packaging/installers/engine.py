"""The executable of the engine: worker, helper, replay and self-test."""

import multiprocessing
import sys

if __name__ == "__main__":
    multiprocessing.freeze_support()
    from core.__main__ import main

    sys.exit(main())
