"""What docs/models.md says of releases: parameters and bytes that follow from their config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from core.layers.memory import checkpoint_bytes, kv_bytes_per_token
from core.loading.registry import family_of
from core.models.decoder import Decoder
from core.weights.plan import Weights, plan_weights
from core.weights.spec import WeightPlan, planned_bytes
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PlainFormat, WeightFormats
from tests.bench.folders import RELEASED as QWEN3_5_SIZES
from tests.bench.folders import config_of
from tests.models.test_expert_configs import RELEASED as WITH_EXPERTS
from tests.models.test_falcon_h1_config import PUBLISHED as FALCON_H1
from tests.models.test_granite_hybrid_config import PUBLISHED as GRANITE
from tests.models.test_granite_hybrid_config import TINY as GRANITE_TINY
from tests.models.test_jamba_config import PUBLISHED as JAMBA
from tests.models.test_lfm2_config import LFM2
from tests.models.test_lfm2_vl_config import LARGER as LFM2_VL
from tests.models.test_nemotron_h_config import NANO_3 as NEMOTRON_3
from tests.models.test_nemotron_h_config import PUBLISHED as NEMOTRON
from tests.models.test_qwen3_vl_config import FOUR_B as QWEN3_VL_4B

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
RELEASES: dict[str, dict[str, Any]] = {
    **{f"Qwen3.5-{size}": config_of(shape) for size, shape in QWEN3_5_SIZES.items()},
    **WITH_EXPERTS,
    "Qwen3-VL-4B": QWEN3_VL_4B,
    "Falcon-H1-0.5B-Instruct": FALCON_H1,
    "Granite-4.0-H-350M": GRANITE,
    "Granite-4.0-H-Tiny": GRANITE_TINY,
    "Nemotron-Nano-9B-v2": NEMOTRON,
    "Nemotron-3-Nano-30B-A3B": NEMOTRON_3,
    "Jamba-1.5-Mini": JAMBA,
    "LFM2-1.2B": LFM2,
    "LFM2-VL-1.6B": LFM2_VL,
}
# As the compiled kernels hold them: the table of embeddings stays in its file.
FORMATS = [
    WeightFormats(each, PlainFormat(), rows_from_file=True)
    for each in (PlainFormat(), Int8Format(None), Int4Format(packed=False))
]


def planned(values: dict[str, Any]) -> tuple[WeightPlan, Decoder]:
    """The plan of a config, and the model without data."""
    family = family_of(values)
    parsed, built = family.parse(values), []

    def build(weights: Weights) -> None:
        model = family.build(parsed, weights, torch.device("cpu"))
        assert isinstance(model, Decoder)
        built.append(model)

    return plan_weights(build, torch.bfloat16), built[0]


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
