"""Parameters and bytes in docs/models.md follow from the config.json of the releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from core.cache.kv_buffer import KVBuffer
from core.layers.memory import checkpoint_bytes, kv_size
from core.weights.spec import planned_bytes
from tests.bench.folders import RELEASED as QWEN3_5_SIZES
from tests.bench.folders import config_of
from tests.models.releases import FORMATS, MINICPM_V, NEMOTRON_OMNI, RELEASED, WITH_EXPERTS, planned

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
    "gpt-oss-20B",
    "gpt-oss-120B",
)
RELEASES: dict[str, dict[str, Any]] = {
    **{f"Qwen3.5-{size}": config_of(shape) for size, shape in QWEN3_5_SIZES.items()},
    **{name: RELEASED[name] for name in NAMES},
    "MiniCPM-V-4.7-1B": MINICPM_V,
    "Nemotron-3-Nano-Omni-30B-A3B": NEMOTRON_OMNI,
}


def spelled(parameters: int) -> str:
    millions = parameters / 1e6
    return f"{millions:.0f} M" if millions < 1000 else f"{millions / 1000:.2f} B"


def row(name: str) -> str:
    """The page's line on a release."""
    plan, model = planned(RELEASES[name])
    states, rows = (
        checkpoint_bytes(model.layer_specs),
        kv_size(model.layer_specs).kv_bytes_per_token,
    )
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


CONTEXTS = 8_192, 32_768, 131_072


def test_L4_contexts_with_windows_take_what_is_said() -> None:
    every = {name: planned(config)[1].layer_specs for name, config in RELEASED.items()}
    windowed = {name: specs for name, specs in every.items() if kv_size(specs).window}
    assert windowed
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for name, specs in windowed.items():
        size, cells = kv_size(specs), [name]
        for context in (2_048, *CONTEXTS):
            kv_buffer = KVBuffer(specs, torch.device("meta"), context)
            kv_buffer.reserve(context)
            layers = (*kv_buffer.specs, *kv_buffer.windowed)
            taken = sum(rows.nbytes for layer in layers for rows in kv_buffer.rows(layer))
            assert taken == kv_buffer.num_bytes == size.context_bytes(context)
            whole = context * size.kv_bytes_per_token
            if size.slides(context):
                assert context <= size.context_within(taken) <= context + 1
                assert whole - taken > 0.75 * context * size.window_bytes_per_token
            else:
                assert taken == whole
            cells.append(f"{taken / 2**20:,.0f} of {whole / 2**20:,.0f} MiB")
        del cells[1]
        row = f"| {' | '.join(cells)} | {size.tail_bytes(CONTEXTS[-1]) / 2**20:,.0f} MiB |"
        assert row in lines
