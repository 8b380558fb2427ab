"""`python -m tests.bench` without the packages that only tests need."""

from __future__ import annotations

import subprocess
import sys

from core.client.programs import ROOT

WITHOUT = """
import runpy, sys
sys.modules["pytest"] = sys.modules["transformers"] = None
sys.argv = ["tests.bench"]
runpy.run_module("tests.bench", run_name="__main__")
"""


def test_it_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "pip install -e '.[test]'" in done.stderr
    assert "Traceback" not in done.stderr
