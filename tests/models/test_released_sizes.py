"""What docs/models.md says of releases: parameters and bytes that follow from their config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.layers.memory import checkpoint_bytes, kv_bytes_per_token
from core.weights.spec import planned_bytes
from tests.bench.folders import RELEASED as QWEN3_5_SIZES
from tests.bench.folders import config_of
from tests.models.releases import FORMATS, RELEASED, WITH_EXPERTS, planned

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
NAMES = (
    *WITH_EXPERTS,
    "Ministral-3-8B",
    "Qwen3-VL-4B",
    "Falcon-H1-0.5B-Instruct",
    "Granite-4.0-H-350M",
    "Granite-4.0-H-Tiny",
    "Nemotron-Nano-9B-v2",
    "Nemotron-3-Nano-30B-A3B",
    "Jamba-1.5-Mini",
    "Olmo-Hybrid-7B",
    "Kimi-Linear-48B-A3B",
    "LFM2-1.2B",
    "LFM2-8B-A1B",
    "LFM2-VL-1.6B",
    "LFM3-1.7B",
    "LFM3-VL-2B",
    "Gemma-4-E2B",
    "Gemma-4-E4B",
    "Gemma-4-12B",
    "Gemma-4-26B-A4B",
    "Gemma-4-31B",
)
RELEASES: dict[str, dict[str, Any]] = {
    **{f"Qwen3.5-{size}": config_of(shape) for size, shape in QWEN3_5_SIZES.items()},
    **{name: RELEASED[name] for name in NAMES},
}


def spelled(parameters: int) -> str:
    """As the page has it."""
    millions = parameters / 1e6
    return f"{millions:.0f} M" if millions < 1000 else f"{millions / 1000:.2f} B"


def row(name: str) -> str:
    """The page's line on a release."""
    plan, model = planned(RELEASES[name])
    states, rows = checkpoint_bytes(model.layer_specs), kv_bytes_per_token(model.layer_specs)
    cells = [
        name,
        spelled(sum(spec.num_elements for spec in plan.values())),
        *(f"{planned_bytes(plan, formats) / 1e9:.2f}" for formats in FORMATS),
        f"{states / 2**20:.2f} MiB" if states else "none",
        f"{rows / 1024:.0f} KiB",
        f"{states / rows:,.0f}" if states else "",
    ]
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_takes_what_the_page_says(name: str) -> None:
    assert row(name) in PAGE.read_text(encoding="utf-8").splitlines()
