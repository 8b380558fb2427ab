"""The speed benches on a tiny model: tables, and their counts. No times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import pytest
import torch
from torch import Tensor

from core.api.params import ModelSettings, Precision
from core.layers.memory import checkpoint_bytes, kv_size
from core.loading.registry import FAMILIES
from core.models.decoder import Decoder
from core.weights.plan import Weights, plan_weights
from core.weights.published.folder import ModelFolder
from kernels.dispatch import BackendName
from kernels.ops import Attend
from tests.bench import __main__ as command
from tests.bench import model, rounds
from tests.bench.folders import RELEASED, TINY, config_of, write_folder, write_random
from tests.bench.options import NAMES, SLOW, parsed
from tests.bench.peer import Engine, Peer, Reading, Task
from tests.bench.process import Process, open_here
from tests.bench.rig import KERNELS, attending
from tests.bench.rounds import QUICK, Step
from tests.bench.shapes import chosen
from tests.bench.weights import held_bytes, step_bytes, token_operations
from tests.gguf.quantised import BUILDING_S, llama_cpp
from tests.gguf.vocabularies import LLAMA
from tests.oracle.runs import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("speed") / "tiny", TINY)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Noted:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.peer = open_here(engine)
        self.answers: list[tuple[Task, int, Reading]] = []

    def run(self, task: Task, size: int) -> Reading:
        reading = self.peer.run(task, size)
        self.answers.append((task, size, reading))
        return reading

    def close(self) -> None:
        self.peer.close()


def lines_of(text: str) -> list[list[str]]:
    """The cells of every table's line but the rules."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_both_engines_read_and_draw_what_the_table_says(folder: Path, tmp_path: Path) -> None:
    peers: list[Noted] = []
    seen: list[int] = []
    said: list[str] = []

    def opened(engine: Engine) -> Peer:
        peers.append(Noted(engine))
        return peers[-1]

    def counting(attend: Attend) -> Attend:
        def counted(queries: Tensor, keys: Tensor, *others: Any) -> Tensor:
            if queries.shape[0] == 1:
                seen.append(keys.shape[0])
            return attend(queries, keys, *others)

        return counted

    options = parsed(["model", "--quick", "--precision", "float32"])
    with mock.patch(KERNELS, attending(counting)):
        alone = model.Subject(folder, model.Beside([], said.append))
        text = model.text(options, alone, tmp_path, command.quick_limits(), opened, said.append)
    own, other = (peer.answers for peer in peers)
    assert [peer.engine.name for peer in peers] == ["waymark", "transformers"]
    counts = [(task, size, each.tokens, each.context, each.ids) for task, size, each in own]
    # In float32 greedy ids agree, so both have read the same context and drawn behind its end.
    assert counts == [
        (task, size, each.tokens, each.context, each.ids) for task, size, each in other
    ]
    drawn = {each.context: len(each.ids) for task, _, each in own if task == "generate"}
    assert drawn == dict.fromkeys(QUICK.contexts, QUICK.tokens)
    behind = [range(context + 1, context + QUICK.tokens + 1) for context in QUICK.contexts]
    assert set(seen) == set(itertools.chain(*behind))
    header, *lines = lines_of(text)
    assert header == ["", "Waymark", "transformers", "ratio", "of the limit"]
    assert [line[0] for line in lines] == [
        "prompt of 64, tokens/s",
        "prompt of 600, tokens/s",
        "4 tokens behind 0, tokens/s",
        "4 tokens behind 600, tokens/s",
        "4 tokens behind 700, tokens/s",
        "64 px, ms",
        "128 px, ms",
        "load, s",
        "memory after load, MiB",
        "memory after 64 tokens, MiB",
        "memory after 600 tokens, MiB",
        "memory after 700 tokens, MiB",
    ]
    assert all(len(line) == len(header) for line in lines)


def tiny(name: str, folder: Path) -> model.Subject:
    """A shape of no size, with nobody beside."""
    cut = chosen(name, quick=True)
    path = write_folder(folder, cut.config, fused=cut.fused)
    return model.Subject(path, model.Beside([], print))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["35B-A3B/4", "Falcon-H1-0.5B/2", "Falcon-H1-0.5B"])
def test_other_families_are_read_alike_and_computed_whole(name: str, tmp_path: Path) -> None:
    peers: list[Noted] = []

    def opened(engine: Engine) -> Peer:
        peers.append(Noted(engine))
        return peers[-1]

    cut, subject = chosen(name, quick=True), tiny(name, tmp_path / "tiny")
    head = model.Subject(write_folder(tmp_path / "head", cut.head()), subject.beside)
    rest = None if cut.is_whole else model.Rest(cut, head)
    options = parsed(["model", "--quick", "--precision", "float32", "--shape", name])
    limits = command.quick_limits()
    text = model.text(options, subject, tmp_path, limits, opened, lambda text: None, rest)
    assert [peer.engine.folder for peer in peers] == [subject.folder] * 2 + (
        [] if rest is None else [head.folder] * 2
    )
    for own, other in zip(peers[::2], peers[1::2], strict=True):
        assert [_counted(each) for each in own.answers] == [
            _counted(each) for each in other.answers
        ]
        for task, _, reading in own.answers:
            assert reading.least_bytes or task == "context"
            assert reading.operations or task != "prompt"
    lines = [line[0] for line in lines_of(text)]
    assert not any("px" in line for line in lines), "it has no eyes"
    told = ["a layer, ms", "table and head, ms", f"{cut.whole} layers, tokens/s"]
    given = "prompt of 64", "prompt of 600", "behind 0", "behind 600", "behind 700"
    computed = [f"{step}: {each}" for step in given for each in told]
    assert [line for line in lines if ": " in line] == (computed if rest else [])
    assert ("Computed for all" in text) == (not cut.is_whole)


def _counted(answer: tuple[Task, int, Reading]) -> tuple[object, ...]:
    task, size, reading = answer
    return task, size, reading.tokens, reading.context, reading.ids


@pytest.mark.parametrize(
    ("name", "billions", "recurrent_mib", "conv_mib", "kv_kib"),
    [("0.8B", 0.85, 18.0, 0.63, 12), ("4B", 4.54, 48.0, 1.13, 32), ("9B", 9.41, 48.0, 1.13, 32)],
)
def test_a_released_shape_is_the_released_models(
    name: str, billions: float, recurrent_mib: float, conv_mib: float, kv_kib: int
) -> None:
    family, shape = FAMILIES["qwen3_5"], RELEASED[name]
    parsed_config = family.parse(config_of(shape))
    built: list[Decoder] = []

    def build(weights: Weights) -> None:
        model = family.build(parsed_config, weights, torch.device("cpu"))
        assert isinstance(model, Decoder)
        built.append(model)

    plan = plan_weights(build, torch.bfloat16)
    assert round(sum(spec.num_elements for spec in plan.values()) / 1e9, 2) == billions
    specs = built[0].layer_specs
    assert checkpoint_bytes(specs) / 2**20 == pytest.approx(recurrent_mib + conv_mib, abs=0.01)
    assert kv_size(specs).kv_bytes_per_token == kv_kib * 1024
    assert ("lm_head.weight" in plan) != shape.tied
    assert shape.delta_columns == (6144 if name == "0.8B" else 8192)


def test_precisions_share_the_rounds_of_their_peer() -> None:
    known = [each for each in get_args(Precision) if each not in ("auto", "published")]
    options = parsed(["--quick"])
    assert [SLOW, *options.precision] == known
    assert options.names == list(NAMES)
    given = ["float32", "Q8_0", "bfloat16", "fewer bits"]
    assert model.groups(given, ["bfloat16", "float32"]) == [
        (["float32"], ["float32"]),
        (["bfloat16", "float32"], ["bfloat16", "fewer bits"]),
        (["bfloat16", "float32"], ["Q8_0"]),
    ]
    for precision in known:
        settings = ModelSettings.model_validate({"path": "", "precision": precision})
        assert settings.precision == precision


@pytest.mark.slow
@pytest.mark.timeout(BUILDING_S)
def test_files_of_llama_cpp_are_run_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    llama_cpp(build=True)
    options = ["--quick", "--precision", "Q8_0", "--llama", "--llama-folder", str(LLAMA)]
    assert command.main(["model", *options]) == 0
    header, *lines = lines_of(capsys.readouterr().out)
    assert header[:2] == ["", "Waymark"] and header[5:] == ["llama.cpp", "ratio"]
    assert {line[0]: line[1] for line in lines}["load, s"] and not any(
        "px" in line[0] for line in lines
    )


@pytest.mark.parametrize("kernels", get_args(BackendName))
def test_every_weight_is_counted_once(folder: Path, kernels: BackendName) -> None:
    files = ModelFolder.open(folder)
    numbers = {
        name: math.prod(stored.shape)
        for file in files.files
        for name, stored in file.tensors.items()
    }
    text = {name: count for name, count in numbers.items() if "language_model" in name}
    loaded = load(folder, kernels=kernels)
    assert isinstance(loaded, Decoder)
    # The table is the head too, so a step reads all of the text's weights, in float32.
    assert step_bytes(loaded) == 4 * sum(text.values())
    # What a rotation turns by comes beside the weights, once for the text and once for the tower.
    beside = held_bytes(loaded) - 4 * sum(numbers.values())
    assert 0 < beside < 1024
    maps = [name for name in text if name.endswith("_proj.weight") or "in_proj" in name]
    assert token_operations(files) == 2 * sum(text[name] for name in maps)


def test_an_engine_in_its_own_process_draws_the_same(folder: Path, tmp_path: Path) -> None:
    engine = Engine("waymark", "float32", folder, 200, tmp_path)
    here, there = open_here(engine), Process(engine, 1)
    steps: list[tuple[Task, int]] = [("load", 0), ("prompt", 100), ("generate", 3), ("image", 64)]
    try:
        for task, size in steps:
            own, other = here.run(task, size), there.run(task, size)
            assert (own.tokens, own.context, own.ids) == (other.tokens, other.context, other.ids)
            assert (own.least_bytes, own.operations) == (other.least_bytes, other.operations)
            assert other.peak_bytes > 0
    finally:
        there.close()


def test_an_engine_that_dies_is_named(tmp_path: Path) -> None:
    there = Process(Engine("waymark", "float32", tmp_path / "nothing", 200, tmp_path), 1)
    try:
        with pytest.raises(RuntimeError, match="waymark ended with 1 in load"):
            there.run("load", 0)
    finally:
        there.close()


class Scripted:
    """A peer that returns given answers, and the limit of a machine that does nothing."""

    def __init__(self, *readings: Reading) -> None:
        self.readings = list(readings)

    def run(self, task: Task, size: int) -> Reading:
        return self.readings.pop(0)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "second",
    [
        Reading(1.0, tokens=2, context=8, ids=(1, 3)),
        Reading(1.0, tokens=2, context=9, ids=(1, 2)),
        Reading(1.0, tokens=1, context=8, ids=(1, 2)),
    ],
)
def test_a_round_that_is_not_the_one_it_says_stops_the_bench(second: Reading) -> None:
    good = Reading(2.0, tokens=2, context=8, ids=(1, 2), least_bytes=12)
    plan = rounds.Plan(prompts=(), images=(), contexts=(8,), tokens=2, rounds=2)
    step = Step("generate", 2, 8)
    row = rounds.interleaved(plan, step, {"it": Scripted(good, good, good)}, lambda: 3.0)
    assert row.per_second("it").middle == 1.0 and row.of_limit("it").middle == 2.0
    with pytest.raises(AssertionError):
        rounds.interleaved(plan, step, {"it": Scripted(good, good, second)}, lambda: 3.0)
