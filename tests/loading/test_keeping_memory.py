"""A load that keeps what it quantised takes no more memory, nor does one from what is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.loading.keeping import settle
from tests.loading.test_load_memory import LOADER, write_big_model

# Loads as LOADER does, but keeps what it quantises in argv[4].
KEEPER = LOADER.replace(
    "kernels=kernels)",
    'kernels=kernels, keeping=keeping_in(Path(sys.argv[4])))\nprint(loaded.from_disk, end=" ")',
).replace(
    "import torch\n",
    "import torch\n\nfrom kernels.linear import int4, int8, native\n"
    "from tests.loading.keeping import keeping_in\n"
    # On a busy machine two processes may measure differently, and what one has kept the other
    # would not look for.
    "for each in (int4, int8, native):\n    each.keeps_up = lambda *products: True\n",
    1,
)
assert KEEPER.count("keeping_in") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("precision", [pytest.param("int8", marks=pytest.mark.slow), "int4"])
def test_keeping_takes_no_second_copy(tmp_path: Path, precision: str) -> None:
    model, kept = tmp_path / "model", tmp_path / "kept"
    model.mkdir()
    write_big_model(model, 30_000, 6, "BF16")
    settle(model)
    found = []
    for _ in range(2):
        process = subprocess.run(
            [sys.executable, "-c", KEEPER, str(model), precision, "cpu", str(kept)],
            capture_output=True,
            text=True,
            check=True,
        )
        from_disk, growth, estimate = process.stdout.split()
        found.append((from_disk, int(growth) < 1.15 * int(estimate)))
    assert found == [("False", True), ("True", True)]
