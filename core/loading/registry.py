"""The families of models that Waymark runs, by the `model_type` of config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.api.errors import UnknownArchitectureError, shown
from core.models import (
    falcon_h1,
    gpt_oss,
    granite,
    jamba,
    kimi_linear,
    llama,
    minicpm_v,
    ministral3,
    olmo_hybrid,
    qwen3_5,
    qwen3_vl,
)
from core.models.decoder import Family
from core.models.gemma import gemma3, gemma4, gemma4_unified
from core.models.lfm import lfm2, lfm2_vl, lfm3, lfm3_vl
from core.models.nemotron import nemotron_h, nemotron_h_omni
from core.models.settings import Settings

FAMILIES = {
    "qwen3_5": qwen3_5.FAMILY,
    "qwen3_5_text": qwen3_5.FAMILY,
    "qwen3_5_moe": qwen3_5.MOE_FAMILY,
    "qwen3_5_moe_text": qwen3_5.MOE_FAMILY,
    "qwen3_next": qwen3_5.NEXT_FAMILY,
    "llama": llama.FAMILY,
    "qwen3": llama.FAMILY,
    "qwen3_moe": llama.MOE_FAMILY,
    "gemma3": gemma3.FAMILY,
    "gemma3_text": gemma3.FAMILY,
    "gemma4": gemma4.FAMILY,
    "gemma4_text": gemma4.FAMILY,
    "gemma4_unified": gemma4_unified.FAMILY,
    "gemma4_unified_text": gemma4_unified.FAMILY,
    "falcon_h1": falcon_h1.FAMILY,
    "gpt_oss": gpt_oss.FAMILY,
    "granitemoehybrid": granite.HYBRID_FAMILY,
    "granite_swa": granite.SWA_FAMILY,
    "granitemoe_swa": granite.SWA_FAMILY,
    "jamba": jamba.FAMILY,
    "kimi_linear": kimi_linear.FAMILY,
    "ministral3": ministral3.FAMILY,
    "mistral3": ministral3.FAMILY,
    "nemotron_h": nemotron_h.FAMILY,
    "nemotron_h_omni": nemotron_h_omni.FAMILY,
    "olmo_hybrid": olmo_hybrid.FAMILY,
    "qwen3_vl": qwen3_vl.FAMILY,
    "qwen3_vl_moe": qwen3_vl.MOE_FAMILY,
    "minicpmv4_6": minicpm_v.FAMILY,
    "minicpmv4_7": minicpm_v.FAMILY,
    "lfm2": lfm2.FAMILY,
    "lfm2_moe": lfm2.MOE_FAMILY,
    "lfm2_vl": lfm2_vl.FAMILY,
    "lfm3": lfm3.FAMILY,
    "lfm3_vl": lfm3_vl.FAMILY,
}

_USED_EXPERTS = ("num_experts_per_tok", "top_k_experts")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def family_of(config: Mapping[str, Any]) -> Family:
    """Raises UnknownArchitectureError."""
    model_type = config.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        named = f'"{shown(model_type)}"' if isinstance(model_type, str) else "not named"
        raise UnknownArchitectureError(
            f"The model type in config.json is {named}. Waymark runs: {', '.join(FAMILIES)}."
        )
    return family


def expert_share(settings: Settings) -> float:
    """The share of a layer's experts that a token goes through."""
    text = getattr(settings, "text_config", settings)
    used = next((getattr(text, key) for key in _USED_EXPERTS if hasattr(text, key)), 0)
    count = next((getattr(text, key) for key in _EXPERTS if hasattr(text, key)), 0)
    return float(used / count) if 0 < used < count else 1.0
