"""llama.cpp's own converter, from its source package, over tiny model folders.

As a command it converts the folders that its input names, one JSON object a line, because importing
the converter takes longer than converting a tiny model. Vocabularies are written by
`write_vocabulary`, since the converter knows tokenizers by their hash.
"""

from __future__ import annotations

import importlib
import json
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

# The converter's class, by `model_type` of config.json: module and name.
TEXT = {
    "qwen3_5": ("qwen", "Qwen3_5TextModel"),
    "qwen3_5_text": ("qwen", "Qwen3_5TextModel"),
    "qwen3_5_moe": ("qwen", "Qwen3_5MoeTextModel"),
    "qwen3_5_moe_text": ("qwen", "Qwen3_5MoeTextModel"),
    "minicpmv4_6": ("minicpm", "MiniCPMV4_6TextModel"),
    "qwen3_next": ("qwen", "Qwen3NextModel"),
    "qwen3": ("qwen", "Qwen3Model"),
    "qwen3_moe": ("qwen", "Qwen3MoeModel"),
    "qwen3_vl": ("qwen3vl", "Qwen3VLTextModel"),
    "qwen3_vl_moe": ("qwen3vl", "Qwen3VLMoeTextModel"),
    "llama": ("llama", "LlamaModel"),
    "ministral3": ("mistral3", "Mistral3Model.Ministral3Model"),
    "gemma3": ("gemma", "Gemma3Model"),
    "gemma3_text": ("gemma", "Gemma3Model"),
    "gemma4": ("gemma", "Gemma4Model"),
    "gemma4_text": ("gemma", "Gemma4Model"),
    "gemma4_unified": ("gemma", "Gemma4UnifiedModel"),
    "lfm2": ("lfm2", "LFM2Model"),
    "lfm2_moe": ("lfm2", "LFM2MoeModel"),
    "lfm2_vl": ("lfm2", "LFM2Model"),
    "falcon_h1": ("falcon_h1", "FalconH1Model"),
    "jamba": ("jamba", "JambaModel"),
    "granitemoehybrid": ("granite", "GraniteHybridModel"),
    "gpt_oss": ("gpt_oss", "GptOssModel"),
    "granite_swa": ("granite", "GraniteSWAModel"),
    "granitemoe_swa": ("granite", "GraniteMoeSWAModel"),
    "nemotron_h": ("nemotron", "NemotronHModel"),
    "kimi_linear": ("kimi_linear", "KimiLinearModel"),
}
VISION = {
    "qwen3_5": ("qwen3vl", "Qwen3VLVisionModel"),
    "qwen3_5_moe": ("qwen3vl", "Qwen3VLVisionModel"),
    "qwen3_vl": ("qwen3vl", "Qwen3VLVisionModel"),
    "qwen3_vl_moe": ("qwen3vl", "Qwen3VLVisionModel"),
    "gemma3": ("gemma", "Gemma3VisionModel"),
    "gemma4": ("gemma", "Gemma4VisionAudioModel"),
    "gemma4_unified": ("gemma", "Gemma4UnifiedVisionAudioModel"),
    "minicpmv4_6": ("minicpm", "MiniCPMV4_6VisionModel"),
    "lfm2_vl": ("lfm2", "LFM2VLModel"),
}


def write_vocabulary(model: Any) -> None:
    """The tokens of a tiny byte-level tokenizer.json, as the converter writes those of releases."""
    writer, folder = model.gguf_writer, Path(model.dir_model)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    added = {each["id"]: each for each in tokenizer["added_tokens"]}
    known = {index: token for token, index in tokenizer["model"]["vocab"].items()}
    known |= {index: each["content"] for index, each in added.items()}
    count = model.hparams["vocab_size"]
    if model.model_arch.name in ("GEMMA3", "GEMMA4"):  # their table is cut to so many rows
        count = min(count, len(tokenizer["model"]["vocab"]) + len(added))
    kinds = {index: 3 if each["special"] else 4 for index, each in added.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([known.get(index, f"[PAD{index}]") for index in range(count)])
    writer.add_token_types([kinds.get(i, 1 if i in known else 5) for i in range(count)])
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    by_text = {text: index for index, text in known.items()}
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    writer.add_eos_token_id(by_text[settings["eos_token"]])
    writer.add_add_bos_token(False)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())


def convert(
    folder: Path, target: Path, kind: str, vision: bool, mtp: bool, fused: bool = False
) -> None:
    gguf = importlib.import_module("gguf")
    config = json.loads((folder / "config.json").read_text())
    module, name = (VISION if vision else TEXT)[config["model_type"]]
    family: Any = attrgetter(name)(importlib.import_module(f"conversion.{module}"))
    known = {"model_arch": family.model_arch, "no_mtp": not mtp, "set_vocab": write_vocabulary}
    converter = type("Tiny", (family,), known)
    # Transformers' reading of this family's config says experts where there are none.
    has_gate_up = gguf.MODEL_TENSOR.FFN_GATE_UP_EXP in gguf.MODEL_TENSORS[family.model_arch]
    given: dict[str, Any] = {"fuse_qkv": fused, "fuse_gate_up_exps": fused and has_gate_up}
    if config["model_type"] == "nemotron_h":
        given["hparams"] = config
    converter(folder, getattr(gguf.LlamaFileType, kind), target, **given).write()


@torch.inference_mode()
def main() -> None:
    source = Path(sys.argv[1])
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    for line in sys.stdin:
        given = json.loads(line)
        folder, target = Path(given.pop("folder")), Path(given.pop("target"))
        convert(folder, target, **given)
        print("done", flush=True)


if __name__ == "__main__":
    main()
