"""What docs/models.md says of releases: parameters and bytes that follow from their config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.loaded import checkpoint_bytes, kv_bytes_per_token
from core.loading.registry import family_of
from core.models.decoder import Decoder
from core.weights.plan import Weights, plan_weights
from tests.models.test_falcon_h1_config import PUBLISHED as FALCON_H1
from tests.models.test_granite_hybrid_config import PUBLISHED as GRANITE
from tests.models.test_jamba_config import PUBLISHED as JAMBA
from tests.models.test_nemotron_h_config import PUBLISHED as NEMOTRON

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
RELEASES = {
    "Falcon-H1-0.5B-Instruct": FALCON_H1,
    "Granite-4.0-H-350M": GRANITE,
    "Nemotron-Nano-9B-v2": NEMOTRON,
    "Jamba-1.5-Mini": JAMBA,
}


def planned(config: dict[str, Any]) -> tuple[int, Decoder]:
    """How many parameters the plan of a config has, and the model without data."""
    family = family_of(config)
    parsed, built = family.parse(config), []

    def build(weights: Weights) -> None:
        model = family.build(parsed, weights, torch.device("cpu"))
        assert isinstance(model, Decoder)
        built.append(model)

    plan = plan_weights(build, torch.bfloat16)
    return sum(spec.num_elements for spec in plan.values()), built[0]


def spelled(parameters: int) -> str:
    """As the page has it."""
    millions = parameters / 1e6
    return f"{millions:.0f} M" if millions < 1000 else f"{millions / 1000:.2f} B"


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_takes_what_the_page_says(name: str) -> None:
    parameters, model = planned(RELEASES[name])
    states, rows = checkpoint_bytes(model.layer_specs), kv_bytes_per_token(model.layer_specs)
    expected = [
        name,
        spelled(parameters),
        f"{states / 2**20:.1f} MiB",
        f"{rows / 1024:.0f} KiB",
        f"{states / rows:,.0f}",
    ]
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert f"| {' | '.join(expected)} |" in lines
