"""The families of models that Waymark runs, by `model_type` of config.json."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from core.api.errors import UnknownArchitectureError
from core.models import (
    falcon_h1,
    gemma3,
    granite_hybrid,
    jamba,
    lfm2,
    lfm2_vl,
    llama,
    nemotron_h,
    qwen3_5,
    qwen3_5_moe,
    qwen3_moe,
    qwen3_next,
    qwen3_vl,
    qwen3_vl_moe,
)
from core.models.model import Model
from core.weights.plan import Weights
from core.weights.safetensors_file import shown


@dataclass(frozen=True, slots=True)
class Family:
    parse: Callable[[Mapping[str, Any]], Any]
    published_names: Callable[[Any, Collection[str]], Callable[[str], str]]
    build: Callable[[Any, Weights, torch.device], Model]


def _as_asked(config: object, found: Collection[str]) -> Callable[[str], str]:
    return lambda name: name


_QWEN3_5 = Family(qwen3_5.parse_config, qwen3_5.published_names, qwen3_5.Qwen3_5Model)
_QWEN3_5_MOE = Family(
    qwen3_5_moe.parse_config, qwen3_5.published_names, qwen3_5_moe.Qwen3_5MoeModel
)
_QWEN3_NEXT = Family(qwen3_next.parse_config, qwen3_5.published_names, qwen3_next.Qwen3NextModel)
_LLAMA = Family(llama.parse_config, _as_asked, llama.LlamaModel)
_QWEN3_MOE = Family(qwen3_moe.parse_config, _as_asked, qwen3_moe.Qwen3MoeModel)
_GEMMA3 = Family(gemma3.parse_config, gemma3.published_names, gemma3.Gemma3Model)
_FALCON_H1 = Family(falcon_h1.parse_config, _as_asked, falcon_h1.FalconH1Model)
_GRANITE_HYBRID = Family(
    granite_hybrid.parse_config, granite_hybrid.published_names, granite_hybrid.GraniteHybridModel
)
_JAMBA = Family(jamba.parse_config, _as_asked, jamba.JambaModel)
_NEMOTRON_H = Family(nemotron_h.parse_config, nemotron_h.published_names, nemotron_h.NemotronHModel)
_QWEN3_VL = Family(qwen3_vl.parse_config, _as_asked, qwen3_vl.Qwen3VLModel)
_QWEN3_VL_MOE = Family(qwen3_vl_moe.parse_config, _as_asked, qwen3_vl_moe.Qwen3VLMoeModel)
_LFM2 = Family(lfm2.parse_config, lfm2.published_names, lfm2.Lfm2Model)
_LFM2_VL = Family(lfm2_vl.parse_config, lfm2_vl.published_names, lfm2_vl.Lfm2VlModel)
FAMILIES = {
    "qwen3_5": _QWEN3_5,
    "qwen3_5_text": _QWEN3_5,
    "qwen3_5_moe": _QWEN3_5_MOE,
    "qwen3_5_moe_text": _QWEN3_5_MOE,
    "qwen3_next": _QWEN3_NEXT,
    "llama": _LLAMA,
    "qwen3": _LLAMA,
    "qwen3_moe": _QWEN3_MOE,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "falcon_h1": _FALCON_H1,
    "granitemoehybrid": _GRANITE_HYBRID,
    "jamba": _JAMBA,
    "nemotron_h": _NEMOTRON_H,
    "qwen3_vl": _QWEN3_VL,
    "qwen3_vl_moe": _QWEN3_VL_MOE,
    "lfm2": _LFM2,
    "lfm2_vl": _LFM2_VL,
}


def family_of(config: Mapping[str, Any]) -> Family:
    """The family that config.json names. Raises UnknownArchitectureError."""
    model_type = config.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        named = f'"{shown(model_type)}"' if isinstance(model_type, str) else "not named"
        raise UnknownArchitectureError(
            f"The model type in config.json is {named}. Waymark runs: {', '.join(FAMILIES)}."
        )
    return family
