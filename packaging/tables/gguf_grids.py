"""Writes resources/gguf/grids.npz, the tables of IQ1, IQ2 and IQ3, from the `gguf` package.

python packaging/tables/gguf_grids.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import quants

TARGET = Path(__file__).resolve().parents[2] / "resources" / "gguf" / "grids.npz"
NAMES = ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")


def grids() -> dict[str, npt.NDArray[np.int8]]:
    """Each type's table: rows of eight small integers, or of four."""
    found = {}
    for name in NAMES:
        kind: Any = getattr(quants, name)
        kind.init_grid()
        found[name] = kind.grid.reshape(kind.grid_shape).astype(np.int8)
        assert np.array_equal(found[name], kind.grid.reshape(kind.grid_shape))
    return found


def main() -> int:
    TARGET.parent.mkdir(exist_ok=True)
    np.savez_compressed(TARGET, allow_pickle=False, **grids())
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
