"""Lets pytest import the scripts here as they import one another: by their bare names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
