"""Mutants of what a model folder holds beside its text: headers, indexes, configs."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from core.api.errors import WaymarkError
from core.vision.kinds import open_processor
from core.weights.published.folder import ModelFolder
from core.weights.safetensors_file import LENGTH_BYTES, read_header
from kernels.dispatch import backend
from kernels.native.library import compiled
from tests.hostile.counts import each_of
from tests.hostile.mutation import mutated_bytes, mutated_json, mutated_text
from tests.hostile.watch import grows_less_than, opened_elsewhere
from tests.loads import estimate_bytes, load_model
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.runs import our_logits, text

# Of one mutant: more would hang a load, where a progress bar stands.
LONGEST_S = 5.0
GROWTH_BYTES = 512 * 2**20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiled()  # for nobody to compile while it is watched
    path = tmp_path_factory.mktemp("tiny")
    write_folder(path, Tiny(layers="LF", vision_depth=1))
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.fixture(autouse=True)
def within_bounds(copy: Path, tmp_path: Path) -> Iterator[None]:
    """Nothing elsewhere is opened, and memory does not grow with what files claim."""
    with grows_less_than(GROWTH_BYTES), opened_elsewhere(tmp_path) as found:
        yield
    assert found == []


def said(work: Callable[[], object]) -> str | None:
    """How an error with a name puts it, for a dialog; None for none."""
    try:
        work()
    except WaymarkError as error:
        message = error.message
    else:
        return None
    assert message and len(message) < 3_000
    return message


def planned(copy: Path) -> bool:
    """Return True if a folder gets as far as its weights; every other end is a named error."""
    began = time.monotonic()
    message = said(lambda: estimate_bytes(ModelFolder.open(copy), torch.float32))
    assert time.monotonic() - began < LONGEST_S
    return message is None


def runs(copy: Path, dtype: torch.dtype) -> None:
    """Load on the compiled kernels, where there are any for the type, and read some tokens."""
    kernels = backend("cpu", dtype, library=compiled())
    opened, cpu = ModelFolder.open(copy), torch.device("cpu")
    loaded = load_model(opened, cpu, dtype, lambda *_: None, lambda: None, kernels=kernels)
    with torch.inference_mode():
        our_logits(loaded.model, [text(5), text(1)])


@each_of(1_000)
def test_mutants_of_configs_end_in_a_name_or_in_a_model(copy: Path, seeds: range) -> None:
    config = json.loads((copy / "config.json").read_text())
    for seed in seeds:
        (copy / "config.json").write_bytes(mutated_text(config, seed))
        if planned(copy):
            said(partial(runs, copy, (torch.float32, torch.bfloat16)[seed % 2]))


@each_of(1_000)
def test_mutants_of_image_processors_make_no_more_than_the_model_takes(
    copy: Path, seeds: range
) -> None:
    settings = json.loads((copy / "preprocessor_config.json").read_text())
    config = json.loads((copy / "config.json").read_text())
    config["vision_config"] |= {"patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2}
    opened = 0
    for seed in seeds:
        (copy / "preprocessor_config.json").write_bytes(mutated_text(settings, seed))
        try:
            processor = open_processor(copy, config, 64)
            plan = processor.measure(100, 100)
        except WaymarkError:
            continue
        opened += 1
        assert plan.tokens <= processor.max_tokens <= 64
        assert plan.width * plan.height <= 64 * 32 * 32
    assert opened > 0


@each_of(1_000)
def test_mutants_of_headers_of_weights_end_in_a_name(copy: Path, seeds: range) -> None:
    """Mutants that stay JSON, and mutants of the bytes."""
    path = copy / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    header = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length])
    rest = data[LENGTH_BYTES + length :]
    for seed in seeds:
        if seed % 2:
            text = json.dumps(mutated_json(header, seed)).encode()
            path.write_bytes(len(text).to_bytes(LENGTH_BYTES, "little") + text + rest)
        else:
            front = mutated_bytes(data[: LENGTH_BYTES + length], seed)
            path.write_bytes(front + rest)
        if said(lambda: read_header(path)) is None:
            found = read_header(path)
            ends = [(each.start, each.end) for each in found.tensors.values()]
            assert all(0 <= start <= end <= found.num_bytes for start, end in ends)
            planned(copy)


@each_of(1_000)
def test_mutants_of_indexes_name_no_file_elsewhere(
    copy: Path, tmp_path: Path, seeds: range
) -> None:
    secret = tmp_path / "secret.safetensors"
    shutil.copy(copy / "model.safetensors", secret)
    opened = ModelFolder.open(copy)
    names = sorted(opened.tensors)
    (copy / "model.safetensors").rename(copy / "model-1.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, "model-1.safetensors")}
    odd = ["../secret.safetensors", str(secret), "other.safetensors", "..", "a/b.safetensors"]
    with opened_elsewhere(copy) as found:
        for seed in seeds:
            mutant = mutated_json(index, seed)
            places = mutant.get("weight_map") if isinstance(mutant, dict) else None
            if seed % 3 == 0 and isinstance(places, dict):
                places[names[seed % len(names)]] = odd[seed // 3 % len(odd)]
            (copy / "model.safetensors.index.json").write_text(json.dumps(mutant))
            planned(copy)
    assert found == []
