"""Tiny model folders of every architecture, and the GGUF files that llama.cpp makes of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from core.client.programs import ROOT
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.tiny_experts import TinyExperts, write_experts
from tests.oracle.tiny_gemma3 import TinyGemma3, write_gemma3
from tests.oracle.tiny_gemma4 import TinyGemma4, write_gemma4
from tests.oracle.tiny_kimi import TinyKimi, write_kimi
from tests.oracle.tiny_lfm import TinyLfm2Moe, write_lfm2_moe
from tests.oracle.tiny_lfm2_vl import TinyLfm2Vl, write_lfm2_vl
from tests.oracle.tiny_minicpm_v import TinyMiniCpmV, write_minicpm_v
from tests.oracle.tiny_mtp import add_head, head_tensors
from tests.oracle.tiny_qwen3_vl import TinyQwen3VL, write_qwen3_vl
from tests.oracle.tiny_text import (
    LLAMA3_ROPE,
    TinyFalconH1,
    TinyGptOss,
    TinyGranite,
    TinyGraniteSwa,
    TinyJamba,
    TinyLfm2,
    TinyLlama,
    TinyMinistral3,
    TinyNemotron,
    write_falcon_h1,
    write_gpt_oss,
    write_granite,
    write_granite_swa,
    write_jamba,
    write_lfm2,
    write_llama,
    write_ministral3,
    write_nemotron,
)
from tests.text.tiny_tokenizer import tokenizer_json

HYBRID = Tiny(layers="LFLF", seed=5)
NEXT = Tiny(layers="FL", seed=13, text_only=True, tied=False)
SWA_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}
LINEAR_ROPE = {"rope_type": "linear", "factor": 4.0}
GPT_OSS = TinyGptOss("SFS", others={"swiglu_limit": 7.0}, seed=13)
WEIGHTS = "model.safetensors"


def _with_head(path: Path) -> None:
    write_folder(path, HYBRID)
    add_head(path, head_tensors(path, HYBRID))


# Rows of whole blocks; the columns of the delta net's output cross heads and blocks.
WIDE = Tiny(
    layers="LF", hidden=256, mlp=512, heads=4, head_dim=64, value_heads=8, value_dim=32, key_dim=32,
    seed=15,
)  # fmt: skip
# Gemma 4's small releases, and the full layers of the large ones.
PER_LAYER: dict[str, Any] = {"per_layer": 8, "double_wide": True, "both_ways": False}
REUSED: dict[str, Any] = {"keys_as_values": True, "full_kv_heads": 1}

FAMILIES: dict[str, Callable[[Path], object]] = {
    "qwen35": lambda path: write_folder(path, HYBRID),
    "qwen35-mtp": _with_head,
    "qwen35-text": lambda path: write_folder(path, Tiny(layers="LF", seed=7, text_only=True)),
    "qwen35moe": lambda path: write_experts(
        path, TinyExperts("qwen3_5_moe", Tiny(layers="LF", seed=12), fused=True)
    ),
    "qwen35-minicpm": lambda path: write_minicpm_v(
        path, TinyMiniCpmV(Tiny(layers="LF", seed=21), seed=21)
    ),
    "qwen3next": lambda path: write_experts(path, TinyExperts("qwen3_next", NEXT, fused=True)),
    "qwen3": lambda path: write_llama(path, TinyLlama("qwen3", layers=2, seed=10)),
    "qwen3moe": lambda path: write_experts(
        path, TinyExperts(base=Tiny(layers="FF", head_dim=16, text_only=True), fused=True)
    ),
    "qwen3vl": lambda path: write_qwen3_vl(path, TinyQwen3VL(layers=2, seed=14)),
    "qwen3vlmoe": lambda path: write_qwen3_vl(path, TinyQwen3VL(layers=2, experts=4, seed=14)),
    "llama": lambda path: write_llama(path, TinyLlama(rope=LLAMA3_ROPE, seed=9)),
    "llama-biases": lambda path: write_llama(
        path, TinyLlama(attention_bias=True, mlp_bias=True, tied=True, rope=LINEAR_ROPE, seed=4)
    ),
    "mistral3": lambda path: write_ministral3(path, TinyMinistral3(layers=2, seed=21)),
    # Its pattern, and the numbers of its gates, are in no key: as in the releases.
    "gpt-oss": lambda path: write_gpt_oss(path, GPT_OSS),
    # Its pattern and its scale of scores are in no key: as in the releases.
    "gemma3": lambda path: write_gemma3(
        path, TinyGemma3(layers="SSSSSFS", window=7, scalar=16, seed=11)
    ),
    "gemma4": lambda path: write_gemma4(
        path, TinyGemma4("SFSSF", shared=2, **PER_LAYER, pooling=3, clipped=True, seed=16)
    ),
    "gemma4-experts": lambda path: write_gemma4(
        path, TinyGemma4("SSF", experts=4, top_k=2, **REUSED, pooling=3, standardize=True, seed=17)
    ),
    "gemma4-text": lambda path: write_gemma4(
        path, TinyGemma4("SSF", **REUSED, cap=None, text_only=True, seed=18)
    ),
    "gemma4-unified": lambda path: write_gemma4(
        path, TinyGemma4("SSF", **REUSED, unified=True, pooling=3, seed=19)
    ),
    "lfm2": lambda path: write_lfm2(path, TinyLfm2(layers="CFC", seed=13)),
    "lfm2moe": lambda path: write_lfm2_moe(path, TinyLfm2Moe("CFC", seed=13)),
    # The converter knows the names of both projections by the number of blocks.
    "lfm2-vl": lambda path: write_lfm2_vl(
        path, TinyLfm2Vl(TinyLfm2(layers="CF"), patch=16, depth=3, seed=14)
    ),
    "falcon-h1": lambda path: write_falcon_h1(path, TinyFalconH1(layers=2, seed=12)),
    "granite": lambda path: write_granite(path, TinyGranite("FF", positions="rope", seed=3)),
    "granitemoe": lambda path: write_granite(
        path, TinyGranite("FF", positions="rope", experts=4, top_k=2, seed=8)
    ),
    "granitehybrid": lambda path: write_granite(path, TinyGranite("MFM", groups=2, seed=13)),
    "granitehybrid-experts": lambda path: write_granite(
        path, TinyGranite("MF", experts=5, top_k=2, seed=13)
    ),
    "granite_swa": lambda path: write_granite_swa(
        path, TinyGraniteSwa("FSS", thetas=(0.0, 5000.0, 5000.0), others=SWA_ROPE, seed=20)
    ),
    "granite_swa-experts": lambda path: write_granite_swa(
        path, TinyGraniteSwa("FS", experts=4, shared=32, others=SWA_ROPE, seed=22)
    ),
    "jamba": lambda path: write_jamba(path, TinyJamba(layers=4, experts=4, seed=15)),
    "jamba-dense": lambda path: write_jamba(path, TinyJamba(experts=1, layers=3, seed=1)),
    "nemotron_h": lambda path: write_nemotron(path, TinyNemotron("M-*M", mamba_dim=16, seed=14)),
    "kimi-linear": lambda path: write_kimi(path, TinyKimi("KFK", seed=16)),
    "nemotron_h_moe": lambda path: write_nemotron(path, TinyNemotron("ME*", mamba_dim=16, seed=14)),
}
_SIZES: dict[str, Any] = {"hidden": 256, "mlp": 512}


def _wide_gemma4(path: Path) -> None:
    """Per-layer embeddings of the usual width, experts, and keys as values."""
    tokenizer = json.loads(tokenizer_json("gemma4"))
    # Not more than the converter keeps: llama.cpp wants both tables to have equal rows.
    rows = (len(tokenizer["model"]["vocab"]) + len(tokenizer["added_tokens"])) // 4 * 4
    sizes = {"vocab_size": rows, "vocab_size_per_layer_input": rows}
    sizes |= {"intermediate_size": 512, "moe_intermediate_size": 256}
    write_gemma4(path, TinyGemma4(
        "SFSF", hidden=256, head_dim=64, full_dim=128, **REUSED, per_layer=256, experts=4, top_k=2,
        others=sizes, text_only=True, seed=16,
    ))  # fmt: skip


OTHERS: dict[str, Callable[[Path], object]] = {
    "wide": lambda path: write_folder(path, WIDE),
    "wide-moe": lambda path: write_experts(
        path, TinyExperts("qwen3_5_moe", WIDE, inner=256, shared=256, fused=True)
    ),
    "wide-qwen3": lambda path: write_llama(
        path, TinyLlama("qwen3", **_SIZES, head_dim=64, layers=2, seed=10)
    ),
    "wide-llama": lambda path: write_llama(
        path, TinyLlama(**_SIZES, head_dim=64, layers=2, rope=LLAMA3_ROPE, seed=9)
    ),
    "wide-gemma3": lambda path: write_gemma3(
        path, TinyGemma3(layers="SSSSSFS", window=7, hidden=256, head_dim=64, scalar=64, seed=11)
    ),
    "wide-gemma4": _wide_gemma4,
    "wide-lfm2": lambda path: write_lfm2(
        path, TinyLfm2(**_SIZES, layers="CFC", adjusted=False, seed=13)
    ),
    "wide-falcon-h1": lambda path: write_falcon_h1(
        path, TinyFalconH1(**_SIZES, layers=2, head_dim=64, mamba_dim=64, seed=12)
    ),
    "wide-granite": lambda path: write_granite(
        path, TinyGranite("MFM", **_SIZES, inner=512, mamba_heads=8, groups=2, seed=13)
    ),
    "wide-jamba": lambda path: write_jamba(path, TinyJamba(**_SIZES, layers=4, experts=4, seed=15)),
    "wide-nemotron": lambda path: write_nemotron(
        path, TinyNemotron("M-*M", **_SIZES, head_dim=64, mamba_dim=64, seed=14)
    ),
}
HEADED = ("qwen35-mtp",)
FUSED = "fused-"
SEEING = (
    "qwen35", "qwen35-mtp", "qwen35-minicpm", "qwen35moe", "qwen3vl", "qwen3vlmoe", "gemma3",
    "gemma4", "gemma4-experts", "gemma4-unified", "lfm2-vl", "wide",
)  # fmt: skip

# ------------------------------------------------------------------ folders as releases spell them

_OF_EXPERTS = re.compile("expert|n_group$|topk_group")
_LETTERS = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}


def _spelled(config: dict[str, Any]) -> dict[str, Any]:
    """config.json, whose newer spellings the converter doesn't know."""
    if config["model_type"] == "granitemoehybrid":
        kinds = {"linear_attention": "mamba", "full_attention": "attention"}
        config["layer_types"] = [kinds[each] for each in config["layer_types"]]
    elif config["model_type"] in ("granite_swa", "granitemoe_swa"):
        config["no_rope_layers"] = [int(theta > 0) for theta in config["layer_rope_theta"]]
    elif config["model_type"] == "gemma4_unified":
        # Its converter needs audio and the sizes of experts.
        config["audio_config"] = {"audio_embed_dim": 8}
        config["text_config"]["moe_intermediate_size"] = None
    elif config["model_type"] == "nemotron_h":
        older = {"mamba": "linear_attention", "attention": "full_attention"}
        kinds = config.pop("layers_block_type")
        pattern = "".join(_LETTERS[older.get(each, each)] for each in kinds)
        if "E" not in pattern:
            config = {key: each for key, each in config.items() if not _OF_EXPERTS.search(key)}
        config |= {"hybrid_override_pattern": pattern, "num_hidden_layers": len(pattern)}
        config.pop("layer_types", None)
    elif config["model_type"] == "kimi_linear":
        full = [each == "full_attention" for each in config.pop("layer_types")]
        config["linear_attn_config"] = {
            "full_attn_layers": [layer for layer, each in enumerate(full, 1) if each],
            "kda_layers": [layer for layer, each in enumerate(full, 1) if not each],
            "head_dim": config.pop("linear_head_dim"),
            "num_heads": config.pop("linear_num_heads"),
            "short_conv_kernel_size": config.pop("linear_conv_kernel_dim"),
        }
    return config


def _renamed(name: str, kind: str) -> str:
    if kind == "nemotron_h" and name.startswith("model."):
        return f"backbone.{name.removeprefix('model.').replace('embed_tokens', 'embeddings')}"
    if kind in ("gemma3", "lfm2_vl") and "vision_model" not in name:
        return name.replace("vision_tower.", "vision_tower.vision_model.")
    return name


def _turned(tensor: Tensor, name: str, kind: str) -> Tensor:
    """Releases of one family have inputs before outputs of stacked experts."""
    is_stack = kind == "qwen3_vl_moe" and ".experts." in name and tensor.ndim == 3
    return tensor.transpose(1, 2).contiguous() if is_stack else tensor


def released(folder: Path, target: Path) -> None:
    """Copy a folder, spelled as releases are."""
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text())
    kind = config["model_type"]
    tensors = load_file(target / WEIGHTS)
    spelled = {_renamed(name, kind): _turned(each, name, kind) for name, each in tensors.items()}
    save_file(spelled, target / WEIGHTS, {"format": "pt"})
    (target / "config.json").write_text(json.dumps(_spelled(config)))


# ------------------------------------------------------------------ conversion


@dataclass(frozen=True)
class Converted:
    """A model folder and the GGUF file of the same model, in a folder with its vision tower."""

    folder: Path
    file: Path


class Converter:
    """llama.cpp's converter in a process of its own, which imports it once."""

    def __init__(self, source: Path) -> None:
        command = [sys.executable, "-m", "tests.gguf.llama_converter", str(source)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def convert(self, folder: Path, target: Path, **options: Any) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        given = {"folder": str(folder), "target": str(target), **options}
        self._process.stdin.write(f"{json.dumps(given)}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n", f"{folder.name} was not converted"

    def close(self) -> None:
        with self._process:  # closes its pipes
            self._process.kill()


def convert(converter: Converter, name: str, place: Path, kind: str = "ALL_F32") -> Converted:
    """With a name that begins with FUSED, projections to queries, keys and values are one tensor,
    and so are gates and what they open."""
    folder, spelled = place / "folder", place / "released"
    fused, name = name.startswith(FUSED), name.removeprefix(FUSED)
    if not folder.exists():
        (FAMILIES | OTHERS)[name](folder)
        released(folder, spelled)
    files = place / kind
    files.mkdir()
    mtp = name in HEADED
    converter.convert(
        spelled, files / f"{name}.gguf", kind=kind, vision=False, mtp=mtp, fused=fused
    )
    if name in SEEING:
        tower = files / f"mmproj-{name}.gguf"
        converter.convert(spelled, tower, kind=kind, vision=True, mtp=False)
    return Converted(folder, files / f"{name}.gguf")
