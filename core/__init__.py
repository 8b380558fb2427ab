"""The engine of Waymark, without a window. docs/architecture.md has the map of its packages."""

import os
import sys

# `python -m` searches the current folder first, so a stranger's `json.py` there would be run. This
# package is imported before anything else that our programs need.
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if sys.argv[:1] == ["-m"] and sys.path[:1] == [os.getcwd()] and sys.path[0] != _ROOT:
    del sys.path[0]
