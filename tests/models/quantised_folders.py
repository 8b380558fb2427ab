"""Tiny model folders in published formats, each with a plain twin with the same weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.tiny_experts import TinyExperts, write_experts
from tests.oracle.tiny_text import TinyGptOss, write_gpt_oss
from tests.weights.published import packers

GROUP = 32
WEIGHTS = "model.safetensors"
# Small, or of a size that is no multiple of 8: plain in all published folders.
PLAIN = (
    "embed_tokens",
    "lm_head",
    "in_proj_a",
    "in_proj_b",
    "visual",
    "mlp.gate.",
    "shared_expert_gate",
)

# The number of a whole matrix in NVFP4.
WHOLE = {"nvfp4": "weight_global_scale", "modelopt": "weight_scale_2"}


@dataclass(frozen=True)
class Published:
    """A format, as config.json names it."""

    title: str
    config: dict[str, Any]

    def pack(self, shape: torch.Size, seed: int) -> tuple[dict[str, Tensor], Tensor]:
        """A layer's parts, and its weights [out, in] in float32."""
        outputs, inputs = shape
        if self.title == "fp8":
            parts = packers.fp8(outputs, inputs, dtype=torch.bfloat16, seed=seed)
            return parts, packers.fp8_weights(parts)
        if self.title in WHOLE:
            return packers.nvfp4(outputs, inputs, whole=WHOLE[self.title], seed=seed)
        if self.title == "mxfp4":
            return packers.mxfp4(outputs, inputs, seed)
        symmetric = self.title == "gptq"
        dtype = torch.bfloat16 if self.title == "compressed" else torch.float16
        layer = packers.known(outputs, inputs, GROUP, symmetric=symmetric, dtype=dtype, seed=seed)
        parts = getattr(packers, self.title)(layer)
        return parts, layer.weights


def _packed_config(**weights: Any) -> dict[str, Any]:
    scheme = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme | weights}},
        "ignore": ["lm_head", "re:.*visual.*", "re:.*in_proj_[ab]+$", "re:.*mlp.gate$"],
    }


def float4_config(title: str) -> dict[str, Any]:
    if title == "modelopt":
        left_out = ["lm_head", "model.visual*", "*in_proj_a", "*in_proj_b", "*mlp.gate"]
        return {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": left_out}
    size, strategy = (16, "tensor_group") if title == "nvfp4" else (32, "group")
    weights = _packed_config(type="float", strategy=strategy, group_size=size)
    return weights | {"format": f"{title}-pack-quantized"}


FORMATS = {
    each.title: each
    for each in (
        Published(
            "fp8",
            {
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "weight_block_size": [128, 128],
                "modules_to_not_convert": [
                    "lm_head",
                    "model.visual",
                    "in_proj_a",
                    "in_proj_b",
                    "mlp.gate",
                    "mlp.shared_expert_gate",
                ],
            },
        ),
        Published(
            "gptq",
            {
                "quant_method": "gptq",
                "bits": 4,
                "group_size": GROUP,
                "sym": True,
                "desc_act": False,
                "checkpoint_format": "gptq",
                "dynamic": {
                    "lm_head": {},
                    "-:.*visual.*": {},
                    "-:.*in_proj_[ab]": {},
                    "-:.*mlp.gate$": {},
                },
            },
        ),
        Published(
            "awq",
            {
                "quant_method": "awq",
                "bits": 4,
                "group_size": GROUP,
                "zero_point": True,
                "version": "gemm",
                "modules_to_not_convert": ["visual", "in_proj_a", "in_proj_b", "mlp.gate"],
            },
        ),
        Published("compressed", _packed_config(symmetric=False)),
        *(Published(title, float4_config(title)) for title in WHOLE),
    )
}


def write_twins(
    path: Path, kind: Published, tiny: Tiny | TinyExperts, *, table: bool = False
) -> tuple[Path, Path]:
    """Two folders of the same model: packed, with its embedding `table` or without, and plain in
    float32."""
    packed, plain = path / "packed", path / "plain"
    if isinstance(tiny, TinyExperts):
        write_experts(plain, tiny)
    else:
        write_folder(plain, tiny)
    shutil.copytree(plain, packed)
    tensors = load_file(plain / WEIGHTS)
    stored = dict(tensors)
    for seed, name in enumerate(sorted(tensors)):
        layer = name.removesuffix(".weight")
        is_plain = any(each in name for each in PLAIN) and not (table and "embed_tokens" in name)
        if tensors[name].ndim != 2 or is_plain:
            continue
        parts, weights = kind.pack(tensors[name].shape, seed)
        tensors[name] = weights
        del stored[name]
        stored |= {f"{layer}.{part}": tensor for part, tensor in parts.items()}
    save_file(tensors, plain / WEIGHTS)
    save_file(stored, packed / WEIGHTS)
    edit_config(packed, quantization_config=kind.config)
    return packed, plain


def write_mxfp4_twins(path: Path, tiny: TinyGptOss) -> tuple[Path, Path]:
    """Two folders of a gpt-oss: its experts in MXFP4, and the plain ones that transformers makes
    of them."""
    packed, plain = path / "packed", path / "plain"
    write_gpt_oss(plain, tiny)
    shutil.copytree(plain, packed)
    tensors = load_file(plain / WEIGHTS)
    stored = dict(tensors)
    generator = torch.Generator().manual_seed(tiny.seed)
    for name in sorted(name for name, each in tensors.items() if each.ndim == 3):
        experts, inputs, outputs = tensors[name].shape
        shape = experts, outputs, inputs // GROUP
        blocks = torch.randint(256, (*shape, GROUP // 2), generator=generator, dtype=torch.uint8)
        scales = torch.randint(120, 125, shape, generator=generator, dtype=torch.uint8)
        tensors[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        del stored[name]
        stored |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    save_file(tensors, plain / WEIGHTS, {"format": "pt"})
    save_file(stored, packed / WEIGHTS, {"format": "pt"})
    left_out = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"]
    edit_config(
        packed,
        quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": left_out},
    )
    return packed, plain


def edit_config(path: Path, **values: Any) -> None:
    """Set keys of config.json; None takes one out."""
    config = json.loads((path / "config.json").read_text()) | values
    kept = {key: value for key, value in config.items() if value is not None}
    (path / "config.json").write_text(json.dumps(kept))
