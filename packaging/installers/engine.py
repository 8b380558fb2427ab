"""The executable of the engine: worker, helper, and what is run without a window."""

import multiprocessing
import sys

if __name__ == "__main__":
    multiprocessing.freeze_support()
    from core.__main__ import main

    sys.exit(main())
