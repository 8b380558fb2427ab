"""Files of the bench's random weights for llama-bench, in the format nearest to each precision.

As a command it runs llama.cpp's own converter, from its sources, without a vocabulary: llama-bench
feeds ids.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch

from core.client.programs import ROOT
from tests.bench.llama.build import Build

# Which converter of llama.cpp's writes a family, by `model_type` of config.json: module and class.
CONVERTERS = {
    "qwen3_5": ("qwen", "Qwen3_5TextModel"),
    "qwen3_5_moe_text": ("qwen", "Qwen3_5MoeTextModel"),
    "falcon_h1": ("falcon_h1", "FalconH1Model"),
    "llama": ("llama", "LlamaModel"),
}
FORMATS = {"bfloat16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}


def file_of(build: Build, shape: str, precision: str) -> Path:
    """All levels share a file."""
    return build.home / "files" / f"{shape}-{FORMATS[precision]}.gguf"


def write(build: Build, folder: Path, shape: str, precision: str, threads: int) -> Path:
    """Write what isn't there yet, from the model in `folder`. Raises BuildError."""
    target = file_of(build, shape, precision)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    if precision == "bfloat16":
        convert = ["-m", "tests.bench.llama.files", str(build.source), str(folder), str(part)]
        build.run([sys.executable, *convert], {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"})
    else:
        plain = write(build, folder, shape, "bfloat16", threads)
        quantise = [str(build.program("llama-quantize")), str(plain), str(part)]
        build.run([*quantise, FORMATS[precision], str(threads)])
    part.replace(target)
    return target


@torch.inference_mode()
def main() -> None:
    """Convert the model in a folder with the converter in llama.cpp's sources."""
    source, folder, target = map(Path, sys.argv[1:])
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    gguf = importlib.import_module("gguf")
    config = json.loads((folder / "config.json").read_text())
    module, name = CONVERTERS[config["model_type"]]
    family = getattr(importlib.import_module(f"conversion.{module}"), name)

    def no_words(model: Any) -> None:
        writer = model.gguf_writer
        writer.add_tokenizer_model("none")
        writer.add_vocab_size(model.hparams["vocab_size"])

    known = {"model_arch": family.model_arch, "no_mtp": True, "set_vocab": no_words}
    converter = type("WithoutWords", (family,), known)
    converter(folder, gguf.LlamaFileType.MOSTLY_BF16, target).write()


if __name__ == "__main__":
    main()
