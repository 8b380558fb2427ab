"""Our code imports only declared dependencies, because `make run` installs nothing else."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "desktop", "kernels", "system")
# What a distribution is imported as, where that is another name.
IMPORTED_AS = {"pyside6_essentials": "pyside6", "pillow": "pil", "markdown_it_py": "markdown_it"}
# Published for some systems only; each place that imports it has a way without.
OPTIONAL = {"triton"}
# Parts of another one that is declared, which pins them.
BROUGHT_ALONG = {"jsonschema_specifications", "pydantic_core", "referencing", "shiboken6"}


def imported() -> set[str]:
    names: set[str] = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return {name.lower() for name in names - sys.stdlib_module_names - set(PACKAGES)}


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (re.match(r"[\w.-]+", each) for each in project["dependencies"])
    names = {match.group().lower().replace("-", "_") for match in found if match}
    return {IMPORTED_AS.get(name, name) for name in names}


def test_all_that_is_imported_is_declared() -> None:
    assert imported() - OPTIONAL - BROUGHT_ALONG <= declared()


def test_numpy_is_declared_because_others_hand_bytes_over_through_it() -> None:
    """`Tensor.numpy` and safetensors' writing raise without it: `--logits` ended so."""
    assert "numpy" in declared()
