"""Files that `llama-quantize` makes of converted models, and the logits that llama.cpp computes.

llama.cpp is built once, in minutes, into the user's cache, from the source package that holds its
converter too. A test that needs it is skipped where it can't be built.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from tests.bench.levels import named
from tests.bench.llama.build import Build, BuildError
from tests.gguf.vocabularies import LLAMA

# Half of llama.cpp; the benchmarks build the rest.
PROGRAMS = ("llama-quantize", "llama-results")
BUILDING_S = 3_000  # the time limit of tests that may have to wait for a build
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Mix:
    """A request to `llama-quantize`: a file type, and types of tensors by name."""

    kind: str
    tensors: tuple[str, ...] = ()

    def options(self) -> Iterable[str]:
        return (word for each in self.tensors for word in ("--tensor-type", each))


TYPES = {
    name: Mix(name)
    for name in (
        "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K",
        "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_M", "IQ2_XS", "IQ2_XXS", "IQ1_S", "IQ1_M",
        "TQ1_0", "TQ2_0", "MXFP4_MOE",
    )
}  # fmt: skip
# As dynamic mixes are published: types by tensor and layer.
UD = Mix(
    "Q4_K_M",
    ("attn_qkv=q5_k", "attn_gate=iq4_xs", "ffn_down=iq4_nl", r"blk\.1\.ffn_up=q3_k",
     "ffn_gate=iq3_s", "attn_output=q8_0", "attn_v=q5_1", r"blk\.1\.attn_k=q4_1", "ssm_out=q6_k"),
)  # fmt: skip
MIXES = {**TYPES, "UD": UD}


@cache
def llama_cpp(*, build: bool) -> Build:
    """llama.cpp for this machine, built if it isn't there and `build` is set."""
    made = Build(LLAMA, named(None), print)
    if not build and not made.has(PROGRAMS):
        pytest.skip("llama.cpp is not built: a slow test builds it")
    try:
        made.build(2, PROGRAMS)
    except (BuildError, OSError) as error:
        pytest.skip(f"llama.cpp can't be built: {error}")
    return made


def quantise(build: Build, source: Path, target: Path, mix: Mix) -> Path:
    """A file of that mix, from one of float32, with the importances that few bits need."""
    importances = _importances(source, target.with_suffix(".imatrix.gguf"))
    command = [str(build.program("llama-quantize")), "--imatrix", str(importances)]
    _run([*command, *mix.options(), str(source), str(target), mix.kind, "1"])
    return target


def llama_logits(build: Build, file: Path, prompt: str) -> tuple[tuple[int, ...], Tensor]:
    """The ids of a text and their logits [tokens, vocabulary], with keys and values in float32."""
    target = file.with_suffix(".logits.gguf")
    command = [str(build.program("llama-results")), "-m", str(file), "-o", str(target)]
    options = "-c 512 -b 512 -ub 512 -t 1 -fa off -ctk f32 -ctv f32".split()
    _run([*command, "-p", prompt, *options])
    found = {each.name: np.array(each.data) for each in gguf.GGUFReader(target).tensors}
    ids = tuple(found["tokens"].tolist())
    return ids, torch.from_numpy(found["logits"].reshape(len(ids), -1))


def _importances(source: Path, target: Path) -> Path:
    """A file of importances as llama.cpp's `imatrix` writes it, of random inputs."""
    writer = gguf.GGUFWriter(target, "")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["random"])
    writer.add_uint32("imatrix.chunk_count", 1)
    writer.add_uint32("imatrix.chunk_size", 512)
    generator = np.random.default_rng(3)
    for each in gguf.GGUFReader(source).tensors:
        if len(each.shape) > 1:
            columns, stacked = int(each.shape[0]), int(each.shape[2]) if len(each.shape) > 2 else 1
            sums: Floats = generator.uniform(100, 900, (stacked, columns)).astype(np.float32)
            writer.add_tensor(f"{each.name}.in_sum2", sums)
            writer.add_tensor(f"{each.name}.counts", np.full((stacked, 1), 512, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _run(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, f"{ran.stdout[-2_000:]}{ran.stderr[-4_000:]}"
