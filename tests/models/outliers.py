"""Tiny models with outliers planted: norms that multiply some channels by much, and weights behind
them that are as much smaller."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

FACTOR = 32.0
CHANNELS = 2
# The matrices behind each norm, by family's habit.
_BEFORE_MLP = ("mlp.gate", "mlp.up_proj", "mlp.shared_expert_gate")
_OF_EXPERTS = ("gate_up_proj", "gate_proj.weight", "up_proj.weight")
_READERS = {
    "input_layernorm": ("linear_attn.in_proj_", *(f"self_attn.{each}_proj" for each in "qkv")),
    "post_attention_layernorm": _BEFORE_MLP,
    "pre_feedforward_layernorm": _BEFORE_MLP,
}


def plant(folder: Path, offset: float) -> Path:
    """Change the one weights file below `folder`, whose norms multiply by `offset` plus w."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    two_norms_before_mlp = any("pre_feedforward" in name for name in tensors)
    for name, norm in tensors.items():
        place, _, kind = name.removesuffix(".weight").rpartition(".")
        if kind not in _READERS or (two_norms_before_mlp and kind == "post_attention_layernorm"):
            continue
        channels = torch.randperm(len(norm), generator=torch.Generator().manual_seed(len(name)))
        chosen = channels[:CHANNELS]
        norm[chosen] = FACTOR * (offset + norm[chosen]) - offset
        for other, weight in tensors.items():
            behind = other.startswith(tuple(f"{place}.{reader}" for reader in _READERS[kind]))
            if behind or (kind != "input_layernorm" and _is_first_of_experts(place, other)):
                weight[..., chosen] /= FACTOR
    save_file(tensors, path, {"format": "pt"})
    return folder


def _is_first_of_experts(place: str, name: str) -> bool:
    inside = name.startswith((f"{place}.mlp.experts.", f"{place}.mlp.shared_expert."))
    return inside and name.endswith(_OF_EXPERTS)
