"""Loading takes little more private memory than the parameters themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from core.models.qwen3_5 import FAMILY
from core.weights.plan import plan_weights
from core.weights.spec import SLICE_BYTES, Shape, WeightPlan, planned_bytes
from kernels.dispatch import BackendName, backend
from kernels.linear.reference import Integers
from tests.loading.keeping import settle
from tests.weights.files import write_sparse

SLOW = pytest.mark.slow
INTEGERS: dict[str, Integers] = {"int8": "int8", "int4": "int4"}
# Loads folder argv[1] as argv[2] for the kernels argv[3], "chosen" for those that an engine takes;
# prints how private memory grew, looked at every 2 ms, and the parameters' bytes.
LOADER = """
import sys
import threading
from pathlib import Path

import torch

from tests.loading.keeping import store_in
from tests.loads import estimate_bytes, load_model
from core.api.params import ModelSettings
from core.loading.precision import Chooser
from core.weights.published.folder import ModelFolder
from kernels.dispatch import backend
from kernels.linear import int4, int8, native

# On a busy machine two processes may measure differently, and what one has kept the other would
# not look for.
if len(sys.argv) > 4:
    for each in (int4, int8, native):
        each.keeps_up = lambda *products: True

NAMES = {"int8": ("bfloat16", "int8"), "int4": ("bfloat16", "int4")}

def private_bytes():
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024

torch.ones(2**20).bfloat16().float().sum()  # torch's own threads and buffers, before the count
name, integers = NAMES.get(sys.argv[2], (sys.argv[2], None))
dtype = getattr(torch, name)
if sys.argv[3] == "chosen":
    kernels = Chooser().backend(torch.device("cpu"), dtype, integers)
else:
    kernels = backend(sys.argv[3], dtype, integers=integers)
folder = ModelFolder.open(Path(sys.argv[1]))
before, peak, done = private_bytes(), 0, threading.Event()

def look(*_):
    global peak
    peak = max(peak, private_bytes())

def watch():
    while not done.wait(0.002):
        look()

watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
store = store_in(Path(sys.argv[4])) if len(sys.argv) > 4 else None
loaded = load_model(
    folder, torch.device("cpu"), dtype, look, lambda: None, kernels=kernels, store=store
)
done.set()
watcher.join()
look()
print(peak - before, estimate_bytes(folder, dtype, kernels), int(loaded.from_disk))
"""


def loaded(*arguments: str | Path) -> tuple[int, int, bool]:
    """How memory grew, the estimate, and whether matrices were read quantised."""
    command = [sys.executable, "-c", LOADER, *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    growth, estimate, from_disk = map(int, process.stdout.split())
    return growth, estimate, bool(from_disk)


def big_config(vocabulary: int, layers: int) -> dict[str, object]:
    return {
        "model_type": "qwen3_5_text",
        "vocab_size": vocabulary,
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 16,
        "tie_word_embeddings": False,
    }


def write_big_model(path: Path, vocabulary: int, layers: int, dtype: str) -> WeightPlan:
    """Two sparse shards of zeros, as large as a real model to whoever reads them."""
    config = big_config(vocabulary, layers)
    (path / "config.json").write_text(json.dumps(config))
    plan = plan_weights(
        lambda weights: FAMILY.build(FAMILY.parse(config), weights, torch.device("cpu")),
        torch.bfloat16,
    )
    weight_map: dict[str, str] = {}
    shards: dict[str, dict[str, tuple[str, Shape]]] = {"a.safetensors": {}, "b.safetensors": {}}
    for index, (name, spec) in enumerate(plan.items()):
        name = name.replace("model.language_model.", "model.")
        shard = list(shards)[index % 2]
        shards[shard][name] = (dtype, spec.shape)
        weight_map[name] = shard
    for shard, tensors in shards.items():
        write_sparse(path / shard, tensors)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return plan


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("vocabulary", "layers", "stored", "at_least", "kernels", "precision"),
    [
        pytest.param(110_000, 16, "BF16", 10**9, "reference", "bfloat16", marks=SLOW),
        pytest.param(110_000, 16, "BF16", 10**9, "cpu", "bfloat16", marks=SLOW),
        pytest.param(60_000, 8, "BF16", 5 * 10**8, "cpu", "int8", marks=SLOW),
        pytest.param(60_000, 8, "BF16", 5 * 10**8, "cpu", "int4", marks=SLOW),
        pytest.param(10_000, 4, "F32", 10**8, "reference", "bfloat16", marks=SLOW),
        pytest.param(10_000, 4, "F32", 10**8, "cpu", "bfloat16", marks=SLOW),
        (10_000, 4, "F32", 10**8, "cpu", "int8"),
    ],
)
def test_loading_takes_little_more_than_the_parameters(
    tmp_path: Path,
    vocabulary: int,
    layers: int,
    stored: str,
    at_least: int,
    kernels: BackendName,
    precision: str,
) -> None:
    """Of a table of which rows are looked up in the file nothing is held."""
    plan = write_big_model(tmp_path, vocabulary, layers, stored)
    growth, estimate, _ = loaded(tmp_path, precision, kernels)
    assert planned_bytes(plan) >= at_least
    integers: Integers | None = INTEGERS.get(precision)
    held = planned_bytes(plan, backend(kernels, torch.bfloat16, integers=integers).formats)
    table = 0 if kernels == "reference" else 2 * 1024 * vocabulary
    share = {"bfloat16": 1.0, "int8": 0.51, "int4": 0.33}[precision]
    assert held <= share * (planned_bytes(plan) - table)
    assert held <= estimate <= held + 2 * SLICE_BYTES  # plain numbers on their way
    assert held <= growth
    # The head, still in plain numbers, is a large part of a model below a gigabyte.
    small = integers is not None and at_least < 10**9
    assert growth < 1.15 * (estimate if small else held)


Described = Mapping[str, Any]
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False}
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}


def packed_parts(title: str, outputs: int, inputs: int) -> dict[str, tuple[str, Shape]]:
    """Stored tensors of a layer; zeros are valid in all formats."""
    if title == "fp8":
        blocks = (-(-outputs // 128), -(-inputs // 128))
        return {"weight": ("F8_E4M3", (outputs, inputs)), "weight_scale_inv": ("BF16", blocks)}
    if title == "modelopt":
        scales = ("F8_E4M3", (outputs, inputs // 16))
        codes = ("U8", (outputs, inputs // 2))
        return {"weight": codes, "weight_scale": scales, "weight_scale_2": ("F32", ())}
    return {
        "qweight": ("I32", (inputs // 8, outputs)),
        "qzeros": ("I32", (inputs // 128, outputs // 8)),
        "scales": ("F16", (inputs // 128, outputs)),
    }


def pack(path: Path, plan: WeightPlan, names: Collection[str], described: Described) -> None:
    """Write the big model again in one file, some matrices in a published format.

    Releases are sorted by type: all packed values come long before all scales."""
    tensors: dict[str, tuple[str, Shape]] = {}
    for name, spec in plan.items():
        is_packed, name = name in names, name.replace("model.language_model.", "model.")
        if not is_packed:
            tensors[name] = ("BF16", spec.shape)
            continue
        parts = packed_parts(described["quant_method"], *spec.shape)
        tensors |= {f"{name.removesuffix('weight')}{part}": each for part, each in parts.items()}
    by_type = dict(sorted(tensors.items(), key=lambda item: (item[1][0] in {"BF16", "F16"}, item)))
    (path / "model.safetensors.index.json").unlink()
    write_sparse(path / "model.safetensors", by_type)
    config = json.loads((path / "config.json").read_text())
    config["quantization_config"] = described
    (path / "config.json").write_text(json.dumps(config))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize("described", [NVFP4, FP8], ids=["nvfp4", "fp8"])
def test_L4_a_published_embedding_table_is_estimated(tmp_path: Path, described: Described) -> None:
    """It is as large as all other weights."""
    plan = write_big_model(tmp_path, 110_000, 1, "BF16")
    pack(tmp_path, plan, {name for name in plan if "embed_tokens" in name}, described)
    growth, estimate, _ = loaded(tmp_path, "bfloat16", "chosen")
    assert abs(estimate / growth - 1) < 0.03


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize("described", [FP8, GPTQ], ids=["fp8", "gptq"])
def test_packed_layers_are_held_one_at_a_time(tmp_path: Path, described: Described) -> None:
    plan = write_big_model(tmp_path, 10_000, 6, "BF16")
    packed = {
        name: each for name, each in plan.items()
        if len(each.shape) == 2 and not each.shape[0] % 128
    }  # fmt: skip
    pack(tmp_path, plan, packed, described)
    largest = max(each.num_elements for each in packed.values())
    growth, estimate, _ = loaded(tmp_path, "bfloat16", "cpu")
    table = 2 * 10_000 * 1024
    held = planned_bytes(plan) - table  # it stays in the file, and the head is as large
    assert held < estimate <= held + 4 * largest + table
    assert held <= growth < 1.15 * estimate


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_keeping_takes_no_second_copy(tmp_path: Path, precision: str) -> None:
    model = tmp_path / "model"
    model.mkdir()
    write_big_model(model, 30_000, 6, "BF16")
    settle(model)
    for is_second in (False, True):
        growth, estimate, from_disk = loaded(model, precision, "cpu", tmp_path / "kept")
        assert from_disk == is_second and growth < 1.15 * estimate
