"""Scripts under packaging/, which are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from core.client.programs import ROOT

INSTALLERS = ROOT / "packaging" / "installers"


def script(name: str) -> ModuleType:
    path = INSTALLERS / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"installers_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    # Its dataclasses look their own module up, and its siblings are imported by their plain names.
    sys.modules[spec.name] = found
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(found)
    finally:
        sys.path.remove(str(path.parent))
    return found
