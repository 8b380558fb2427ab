"""Which kernels the engine loads a model with, and what it remembers of having measured.

A measured choice is kept beside the contexts, because it is part of their fingerprint: measured
anew at every start, a busy moment would make all that was read before unusable.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import torch

from core.api.errors import UnsupportedDeviceError
from core.api.params import ModelSettings
from kernels.capability import processor_facts
from kernels.dispatch import DEFAULT_ROWS, Backend, BackendName, backend, fastest
from kernels.linear.cpu import can_pack
from kernels.linear.probe import CHOICES, best_rows

VARIABLE = "WAYMARK_KERNELS"
_FILE = "kernels.json"


def choose_backend(
    settings: ModelSettings,
    device: torch.device,
    dtype: torch.dtype,
    measure: Callable[[torch.dtype], int] = best_rows,
) -> Backend:
    """The backend that WAYMARK_KERNELS names, else the fastest for `device`.

    Raises UnsupportedDeviceError for a name that is none. `measure` is called where the settings
    ask for it and nothing is remembered.
    """
    name = _wished() or fastest(device)
    rows = DEFAULT_ROWS
    if name == "cpu" and settings.measure_kernels and can_pack(dtype):
        rows = _measured_rows(settings.cache_folder, dtype, measure)
    return backend(name, dtype, rows)


def _wished() -> BackendName | None:
    known: dict[str, BackendName] = {name: name for name in get_args(BackendName)}
    wish = os.environ.get(VARIABLE, "")
    if wish and wish not in known:
        raise UnsupportedDeviceError(
            f"{VARIABLE} names {wish[:40]!r}. There are: {', '.join(known)}."
        )
    return known.get(wish)


def _measured_rows(
    folder: str | None, dtype: torch.dtype, measure: Callable[[torch.dtype], int]
) -> int:
    """What was measured before under the same conditions; else measured now, and remembered."""
    if folder is None:
        return measure(dtype)
    path = Path(folder) / _FILE
    key = _conditions(dtype)
    remembered = _read(path)
    if remembered.get(key) not in CHOICES:
        remembered[key] = measure(dtype)
        _write(path, remembered)
    return remembered[key]


def _conditions(dtype: torch.dtype) -> str:
    return f"{torch.__version__}, {torch.get_num_threads()} threads, {dtype}, {processor_facts()}"


def _read(path: Path) -> dict[str, int]:
    """What the file says; nothing where there is none, or one that can't be understood."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, remembered: dict[str, int]) -> None:
    """Whole or not at all; where it can't be written, the next start measures again."""
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(remembered, indent=1), encoding="utf-8")
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
