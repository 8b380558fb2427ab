"""The executable of the window."""

import multiprocessing
import sys

if __name__ == "__main__":
    multiprocessing.freeze_support()
    from core.client.programs import restore_environment

    restore_environment()
    from desktop.app import main

    sys.exit(main())
