"""Tiny folders of models with sparse experts, made with transformers' own classes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    PreTrainedModel,
    Qwen3_5MoeConfig,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeForConditionalGeneration,
    Qwen3_5MoeTextConfig,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

from tests.oracle import checkpoints
from tests.oracle.checkpoints import Tiny

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class TinyExperts:
    """`base` are the sizes of everything but the experts."""

    kind: str = "qwen3_moe"
    base: Tiny = field(default_factory=lambda: Tiny(layers="FFF", head_dim=16, tied=False))
    experts: int = 8
    top_k: int = 2
    inner: int = 24
    shared: int = 40
    normalise: bool = True
    sparse_step: int = 1
    dense_layers: tuple[int, ...] = ()
    fused: bool = False


def _settings(tiny: TinyExperts) -> dict[str, Any]:
    settings = checkpoints.text_config(tiny.base) | {
        "moe_intermediate_size": tiny.inner,
        "num_experts": tiny.experts,
        "num_experts_per_tok": tiny.top_k,
    }
    if tiny.kind in {"qwen3_moe", "qwen3_next"}:
        settings |= {
            "norm_topk_prob": tiny.normalise,
            "decoder_sparse_step": tiny.sparse_step,
            "mlp_only_layers": list(tiny.dense_layers),
        }
        del settings["rope_parameters"]["mrope_section"]
        del settings["rope_parameters"]["mrope_interleaved"]
    if tiny.kind == "qwen3_moe":
        del settings["layer_types"], settings["rope_parameters"]["partial_rotary_factor"]
        settings = {key: each for key, each in settings.items() if not key.startswith("linear_")}
    else:
        settings["shared_expert_intermediate_size"] = tiny.shared
    return settings


def write_experts(path: Path, tiny: TinyExperts = TinyExperts()) -> PreTrainedModel:
    """Write a whole model folder at `path`; returns the oracle with its weights, in float32."""
    settings, base = _settings(tiny), tiny.base
    model: PreTrainedModel
    if tiny.kind == "qwen3_moe":
        model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**settings))
    elif tiny.kind == "qwen3_next":
        model = Qwen3NextForCausalLM(Qwen3NextConfig(**settings))
    elif base.text_only:
        model = Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**settings))
    else:
        config = Qwen3_5MoeConfig(
            text_config=settings,
            vision_config=checkpoints.vision_config(base),
            tie_word_embeddings=base.tied,
            **checkpoints.image_ids(),
        )
        model = Qwen3_5MoeForConditionalGeneration(config)
    plain = checkpoints.is_norm if tiny.kind == "qwen3_moe" else checkpoints.is_plain_norm
    checkpoints.randomise(model, base.seed, plain)
    checkpoints.save(model, path, base.dtype, base.max_shard_size)
    checkpoints.write_beside(path, base)
    respell(path, fused=tiny.fused)
    return model


def respell(path: Path, *, fused: bool) -> None:
    """Have all experts of a layer in two tensors, or each of them in three."""
    for file in sorted(path.glob("*.safetensors")):
        tensors = load_file(file)
        save_file((_fused if fused else _apart)(tensors), file, {"format": "pt"})


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        scope, _, last = name.rpartition(".")
        if tensor.ndim != 3 or not scope.endswith("experts"):
            found[name] = tensor
            continue
        for expert, each in enumerate(tensor):
            parts = each.chunk(2) if last == "gate_up_proj" else (each,)
            names = ("gate_proj", "up_proj") if last == "gate_up_proj" else (last,)
            for part, matrix in zip(names, parts, strict=True):
                found[f"{scope}.{expert}.{part}.weight"] = matrix.clone()
    return found


def _fused(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {name: each for name, each in tensors.items() if ".experts." not in name}
    scopes = {name.partition(".experts.")[0] for name in tensors if ".experts." in name}
    for scope in scopes:
        inside = f"{scope}.experts."
        if f"{inside}gate_up_proj" in tensors:
            found |= {n: each for n, each in tensors.items() if n.startswith(inside)}
            continue
        count = sum(n.startswith(inside) and n.endswith("down_proj.weight") for n in tensors)
        parts = {
            part: [tensors[f"{inside}{expert}.{part}.weight"] for expert in range(count)]
            for part in ("gate_proj", "up_proj", "down_proj")
        }
        both = zip(parts["gate_proj"], parts["up_proj"], strict=True)
        found[f"{inside}gate_up_proj"] = torch.stack([torch.cat(each) for each in both])
        found[f"{inside}down_proj"] = torch.stack(parts["down_proj"])
    return found


def edit_config(path: Path, **values: Any) -> None:
    """Set keys of config.json."""
    config = json.loads((path / "config.json").read_text()) | values
    (path / "config.json").write_text(json.dumps(config))
