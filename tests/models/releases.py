"""The config.json of releases as published, with keys that nobody reads, and changes to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from core.loading.registry import FAMILIES, family_of
from core.models.decoder import Decoder
from core.weights.plan import Weights, plan_weights
from core.weights.spec import Shape, WeightPlan
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PlainFormat, WeightFormats
from tests.bench.folders import RELEASED as SIZES
from tests.bench.folders import config_of

RELEASED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "releases.json").read_text(encoding="utf-8")
)
# Of these only their text stacks and transformers' sizes of the towers are known.
NEMOTRON_OMNI: dict[str, Any] = {
    "model_type": "nemotron_h_omni",
    "llm_config": RELEASED["Nemotron-3-Nano-30B-A3B"],
}
MINICPM_V: dict[str, Any] = {
    "model_type": "minicpmv4_7",
    "text_config": config_of(SIZES["0.8B"])["text_config"],
    "tie_word_embeddings": True,
}
WITH_EXPERTS = ("Qwen3.5-35B-A3B", "Qwen3-Next-80B-A3B", "Qwen3-30B-A3B")
# As the compiled kernels store them: the table of embeddings stays in its file.
FORMATS = [
    WeightFormats(each, PlainFormat(), rows_from_file=True)
    for each in (PlainFormat(), Int8Format(None), Int4Format(packed=False))
]


def changed(config: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with keys set, whose names may be dotted, or removed for Ellipsis."""
    values = copy.deepcopy(dict(config))
    for path, value in change.items():
        *parents, key = path.split(".")
        inner = values
        for parent in parents:
            inner = inner[parent]
        if value is ...:
            del inner[key]
        else:
            inner[key] = value
    return values


def parse(config: Mapping[str, Any], **change: Any) -> Any:
    """The config as its family reads it."""
    values = dict(config) | change
    return FAMILIES[values["model_type"]].parse(values)


def planned(
    config: Mapping[str, Any], stored: Mapping[str, Shape] | None = None
) -> tuple[WeightPlan, Decoder]:
    """The plan of a config and the model without data; the folder has tensors with these endings,
    of these shapes."""
    family, built = family_of(config), []
    parsed = family.parse(config)

    def shape_of(name: str) -> Shape | None:
        return next((stored[end] for end in stored or {} if stored and name.endswith(end)), None)

    def build(weights: Weights) -> None:
        # MTP heads have tests of their own.
        weights.stored = lambda name: None if name.startswith("mtp.") else shape_of(name)
        built.append(family.build(parsed, weights, torch.device("cpu")))

    return plan_weights(build, torch.bfloat16), built[0]
