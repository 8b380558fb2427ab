"""Files of the bench's random weights for llama-bench, in the format nearest to each precision, and
those that Waymark runs as published.

As a command it runs llama.cpp's own converter.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch

from core.client.programs import ROOT
from tests.bench.llama.build import Build
from tests.gguf.llama_converter import convert

# What stands in place of a precision where both run the same file.
MIXES = ("Q4_K_M", "Q8_0", "MXFP4_MOE")
FORMATS = {"bfloat16": "BF16", "int8": "Q8_0", "int4": "Q4_0", **{each: each for each in MIXES}}


def file_of(build: Build, shape: str, precision: str) -> Path:
    """All levels share a file."""
    return build.home / "models" / f"{shape}-{FORMATS[precision]}.gguf"


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
    source, folder, target = map(Path, sys.argv[1:])
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    with tempfile.TemporaryDirectory() as place:
        named = Path(place)
        for each in folder.iterdir():
            (named / each.name).symlink_to(each.absolute())
        name_all_words(named)
        convert(named, target, "MOSTLY_BF16", vision=False, mtp=False)


def name_all_words(folder: Path) -> None:
    """Name each row of the table in tokenizer.json: Gemma's converter cuts off those without."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    named = {*vocabulary.values(), *(each["id"] for each in tokenizer["added_tokens"])}
    count = json.loads((folder / "config.json").read_text())
    words = count.get("text_config", count)["vocab_size"]
    vocabulary |= {f"[PAD{each}]": each for each in range(words) if each not in named}
    file.unlink()
    file.write_text(json.dumps(tokenizer))


if __name__ == "__main__":
    main()
