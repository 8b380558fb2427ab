"""The process that reads headers: what it tells, what it remembers, and what can end it."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from core.api.errors import EngineDiedError
from core.api.model_info import HEADROOM_BYTES, TEXT_BYTES
from core.api.params import ModelSettings
from core.library import machine as machines
from core.library.__main__ import Remembered, conditions, recalled
from core.library.client import LibraryClient
from core.library.facts import read_facts
from core.library.machine import EngineNotes, Machine
from core.library.messages import Described, Device, ModelFacts, Rate, Way
from core.loading import precision as choosing
from core.loading.plan import ModelPlan
from core.loading.precision import FLOAT32, PRECISIONS, Chooser, choose_precision
from core.loading.registry import expert_share
from core.storage.store import DiskStore
from core.weights.published.folder import ModelFolder
from desktop.models.fits import Memory, judge
from desktop.store.folders import DEMO_MODEL
from kernels.linear.reference import StoredFormat
from tests.bench.folders import RELEASED, config_of, published
from tests.gguf.files import write
from tests.loading.test_load_memory import loaded
from tests.models.releases import NEMOTRON_OMNI, parse
from tests.models.releases import RELEASED as RELEASES
from tests.promises.fixtures import PURE, TILED
from tests.sweeps import rotated
from tests.weights.files import write_sparse

CPU = torch.device("cpu")


class Survey:
    def __init__(
        self, folder: Path, command: list[str] | None = None, known: Remembered | None = None
    ) -> None:
        self.cache = folder / "library.json"
        if known is not None:
            self.cache.write_text(known.model_dump_json())
        self.contexts = folder / "contexts"
        self.devices: list[Device] = []
        self.found: dict[str, ModelFacts] = {}
        self.client = LibraryClient(self._hear, self.cache, self.contexts, command)

    def _hear(self, event: Described | Device) -> None:
        if isinstance(event, Device):
            self.devices.append(event)
        else:
            self.found |= {each.path: each for each in event.models}

    def run(self, *paths: Path, again: bool = False) -> None:
        self.devices, self.found = [], {}
        asyncio.run(self.client.describe([str(path) for path in paths], again=again))


def write_release(folder: Path, config: Mapping[str, Any]) -> Path:
    """A folder as published, whose weights take no room on disk."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: ("BF16", spec.stored_shape) for name, spec in published(config).items()}
    write_sparse(folder / "model.safetensors", dict(sorted(tensors.items())))
    return folder


def released(folder: Path, size: str) -> Path:
    return write_release(folder, config_of(RELEASED[size]))


class UnmeasuredMachine(Machine):
    def _measured(self, found: StoredFormat, dtype: torch.dtype) -> Rate:
        return Rate(byte_s=1e-10, product_s=1e-12)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return UnmeasuredMachine(CPU, {}, EngineNotes(Path("/nowhere"), {}))


@pytest.fixture(scope="module")
def known() -> Remembered:
    """A survey's memory of this machine, with rates that took no time to measure."""
    notes: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machines, "measure", lambda *_: Rate(byte_s=1e-10, product_s=1e-12))
        machine = Machine(CPU, {}, EngineNotes(Path("/nowhere"), notes))
        machine.speeds()
        machine.ways(ModelPlan(ModelFolder.open(DEMO_MODEL)))
    return Remembered(conditions=conditions(), rates=machine.rates, notes=notes)


def test_a_survey_tells_remembers_and_notices_changes(tmp_path: Path, known: Remembered) -> None:
    # One rate is measured; test_looking_again... measures all.
    first, *rates = known.rates
    some = {name: known.rates[name] for name in rates}
    survey = Survey(tmp_path, known=known.model_copy(update={"rates": some}))
    model = tmp_path / "demo"
    shutil.copytree(DEMO_MODEL, model)
    broken = write(tmp_path / "broken.gguf")
    survey.run(model, broken, tmp_path / "gone")
    facts = survey.found[str(model)]
    assert facts.trouble is None and facts.family == "qwen3_5" and facts.vision and facts.thinking
    assert facts.context == 4_096 and facts.published == "bfloat16" and facts.size > 7_000_000
    assert {way.precision for way in facts.ways} == PRECISIONS.keys()
    assert all(way.step_s > 0 and way.prompt_s > 0 for way in facts.ways)
    assert survey.found[str(broken)].trouble and survey.found[str(tmp_path / "gone")].trouble
    measured = recalled(survey.cache).rates[first]
    assert measured.byte_s > 0 and measured.product_s > 0
    (device,) = survey.devices
    assert device.name == "cpu" and all(each.step_s > 0 for each in device.speeds)
    survey.run(model, broken)
    # Nothing was measured again.
    assert survey.devices == [device] and survey.found[str(model)] == facts
    config = json.loads((model / "config.json").read_text()) | {"audio_config": {}}
    (model / "config.json").write_text(json.dumps(config))
    survey.run(model)
    heard = facts.model_copy(update={"audio": True})
    assert survey.devices == [device] and survey.found[str(model)] == heard
    survey.cache.write_text('{"models": {"x": 1}}')
    survey.run(model)
    assert survey.found[str(model)].parameters == facts.parameters


# Describes each model until one that is called "deadly", and ends there.
DEADLY = """
import os, sys
from core.client.codec import decode, encode, read_frame
from core.library.messages import COMMAND, Described, ModelFacts, Reading
asked = decode(COMMAND, read_frame(sys.stdin.buffer))
for path in asked.paths:
    sys.stdout.buffer.write(encode(Reading(path=path)))
    sys.stdout.buffer.flush()
    if "deadly" in path:
        os.abort()
    sys.stdout.buffer.write(encode(Described(models=(ModelFacts(path=path),))))
"""


def test_a_file_that_ends_the_process_costs_itself_alone(tmp_path: Path) -> None:
    survey = Survey(tmp_path, [sys.executable, "-c", DEADLY])
    survey.run(Path("/a"), Path("/deadly"), Path("/b"), Path("/deadly-too"), Path("/c\udcff"))
    troubles = {path for path, facts in survey.found.items() if facts.trouble is not None}
    assert survey.found.keys() == {"/a", "/deadly", "/b", "/deadly-too", "/c\udcff"}
    assert troubles == {"/deadly", "/deadly-too", "/c\udcff"}


@pytest.mark.parametrize("code", ["", "print('nonsense')", "import os; os.abort()"])
def test_a_process_that_tells_nothing_is_an_error(tmp_path: Path, code: str) -> None:
    with pytest.raises(EngineDiedError):
        Survey(tmp_path, [sys.executable, "-c", code]).run(Path("/a"))
    with pytest.raises(EngineDiedError):
        Survey(tmp_path, [str(tmp_path / "no-program")]).run(Path("/a"))


@pytest.mark.slow
def test_facts_told_before_an_end_are_remembered(tmp_path: Path, known: Remembered) -> None:
    survey = Survey(tmp_path, known=known)
    model = tmp_path / "demo"
    shutil.copytree(DEMO_MODEL, model)
    survey.run(model)
    told = recalled(survey.cache).models
    assert len(told) == 1
    # As by a second process, which is asked for the others only.
    survey.run(write(tmp_path / "other.gguf"))
    assert told.items() < recalled(survey.cache).models.items()


@pytest.mark.slow
def test_looking_again_measures_again_and_keeps_the_faster(
    tmp_path: Path, known: Remembered
) -> None:
    # As if the machine had been busy.
    slow = dict.fromkeys(known.rates, Rate(byte_s=1.0, product_s=0.0))
    survey = Survey(tmp_path, known=known.model_copy(update={"rates": slow}))
    survey.run(DEMO_MODEL)
    busy = survey.found[str(DEMO_MODEL)].ways[0].step_s
    assert busy > 1e6
    survey.run(DEMO_MODEL, again=True)
    found = survey.found[str(DEMO_MODEL)].ways[0].step_s
    assert 0 < found < busy / 1_000 and survey.devices[0].speeds[0].step_s < 100
    assert all(rate.product_s == 0 for rate in recalled(survey.cache).rates.values())


def test_an_unexpected_error_costs_one_model(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, looking: object) -> None:
        raise RecursionError

    monkeypatch.setattr("core.library.facts.open_files", fail)
    trouble = read_facts(tmp_path, machine).trouble
    assert trouble is not None and "RecursionError" in trouble.message


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("Qwen3.5-35B-A3B", 8 / 256),
        ("Gemma-4-26B-A4B", 8 / 128),
        ("Kimi-Linear-48B-A3B", 8 / 256),
        ("Nemotron-3-Nano-30B-A3B", 6 / 128),
        ("Granite-4.0-H-Tiny", 6 / 64),
        ("Gemma-4-31B", 1),
        ("LFM2-1.2B", 1),
    ],
)
def test_a_token_goes_through_some_experts(name: str, share: float) -> None:
    assert expert_share(parse(RELEASES[name])) == share
    assert expert_share(parse(NEMOTRON_OMNI)) == 6 / 128


@pytest.mark.parametrize("family", ["gemma4", *TILED])
def test_a_token_of_text_goes_through_no_tower(
    family: str, machine: Machine, tmp_path: Path
) -> None:
    (PURE | TILED)[family](tmp_path)
    plan = ModelPlan(ModelFolder.open(tmp_path))
    held = plan.held(torch.float32, machine._kernels(FLOAT32))
    whole, every = machine._seconds(held), held.tensors
    read = held.token_bytes
    of_towers = ("vision", "merger", "projector", "mlp1.")
    held.tensors = {
        name: spec for name, spec in every.items() if not any(each in name for each in of_towers)
    }
    assert len(held.tensors) < len(every) and machine._seconds(held) == whole
    assert 0 < held.token_bytes == read


def wait_for(file: Path) -> None:
    while not file.exists() or not file.read_text():
        time.sleep(0.01)


def test_a_cancelled_survey_leaves_no_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    wait = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    survey = Survey(tmp_path, [sys.executable, "-c", wait])

    async def cancel() -> None:
        task = asyncio.ensure_future(survey.client.describe(["/a"]))
        await asyncio.to_thread(wait_for, pid)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


# GB that docs/models.md gives for a release in bfloat16, int8 and int4.
RELEASE_GB = {"0.8B": (1.71, 0.96, 0.67), "4B": (9.08, 4.88, 3.30)}


@pytest.mark.parametrize("size", RELEASE_GB)
def test_L4_a_release_needs_the_published_bytes_and_one_slice(
    tmp_path: Path, machine: Machine, size: str
) -> None:
    facts = read_facts(released(tmp_path / size, size), machine)
    ways: dict[str, float] = {way.precision: way.num_bytes / 1e9 for way in facts.ways}
    for precision, size_gb in zip(("bfloat16", "int8", "int4"), RELEASE_GB[size], strict=True):
        # The slice that is being quantised or the matrix that is being packed comes on top.
        slice_gb = 0.1
        assert -0.005 < ways[precision] - size_gb < 0.005 + slice_gb


# Releases with all their layers, and of larger ones the first that take one or two GB.
MEASURED = {
    "Qwen3.5-0.8B": 24,
    "Granite-4.0-H-350M": 32,
    "Falcon-H1-0.5B-Instruct": 36,
    "LFM2-VL-450M": 16,
    "LFM2-8B-A1B": 3,
    "Granite-4.0-H-Tiny": 3,
    "Olmo-Hybrid-7B": 4,
    "Qwen3-VL-4B": 4,
    "Qwen3.5-9B": 1,
}
# Which matrices are packed depends on the release alone, and their bytes on the precision alone.
INTEGERS = rotated(MEASURED, ("int4", "int8"), {"LFM2-8B-A1B", "Granite-4.0-H-Tiny"})
LOADED = [*INTEGERS, *((name, "bfloat16") for name in ("Qwen3.5-0.8B", "LFM2-8B-A1B"))]


def shortened(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """The config of the first `layers` layers."""
    found = copy.deepcopy(dict(config))
    for part in (found, found.get("text_config", {})):
        count = part.get("num_hidden_layers")
        lists = [key for key, each in part.items() if isinstance(each, list) and len(each) == count]
        part |= {key: part[key][:layers] for key in lists}
        if count is not None:
            part["num_hidden_layers"] = layers
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), LOADED)
def test_L4_a_load_takes_what_was_said_before(
    tmp_path: Path, machine: Machine, name: str, precision: str
) -> None:
    release = name.removeprefix("Qwen3.5-")
    config = config_of(RELEASED[release]) if release in RELEASED else RELEASES[name]
    model = write_release(tmp_path / "model", shortened(config, MEASURED[name]))
    ways: dict[str, Way] = {way.precision: way for way in read_facts(model, machine).ways}
    growth, _, _ = loaded(model, precision, "chosen")
    assert abs(ways[precision].num_bytes / growth - 1) < 0.03


def test_speed_follows_from_bytes_products_and_states(tmp_path: Path, machine: Machine) -> None:
    facts = read_facts(released(tmp_path / "model", "0.8B"), machine)
    ways: dict[str, Way] = {each.precision: each for each in facts.ways}
    way = ways["bfloat16"]
    # 752 million weights of text at two bytes, and sixteen times the states.
    assert way.token_bytes == pytest.approx(2 * 752e6, rel=0.01)
    assert 0.3 < ways["int4"].token_bytes / way.token_bytes < 0.33
    states = facts.checkpoint_bytes * 1e-10
    assert way.step_s == pytest.approx(2 * 752e6 * 1e-10 + 16 * states, rel=0.01)
    products = way.prompt_s - 1_000 * 0.9 * states
    # Without the output head, which computes one row of a prompt.
    assert products == pytest.approx(1_000 * (752e6 - 248_320 * 1_024) * 1e-12, rel=0.01)


def test_copies_have_one_digest_and_other_weights_another(tmp_path: Path, machine: Machine) -> None:
    places = [tmp_path / name for name in ("one", "two", "tuned")]
    for each in places:
        shutil.copytree(DEMO_MODEL, each)
    with (places[2] / "model.safetensors").open("r+b") as file:
        file.seek(2_000_000)
        file.write(bytes(3_000_000))
    one, two, tuned = (read_facts(each, machine) for each in places)
    assert one.digest == two.digest != tuned.digest


def test_licence_template_and_quantisation_are_read_as_text(
    tmp_path: Path, machine: Machine
) -> None:
    model = tmp_path / "m"
    shutil.copytree(DEMO_MODEL, model)
    (model / "LICENSE").write_text("\n  Apache License  \nVersion 2.0\n")
    assert read_facts(model, machine).licence == "Apache License"
    (model / "README.md").write_text("---\nlicense: mit\n---\nlicense: none\n")
    assert read_facts(model, machine).licence == "mit"
    (model / "README.md").write_text(f"---\nlicense: {'x' * 500}\n---\n")
    (model / "chat_template.jinja").write_text("{{ raise() }}")
    facts = read_facts(model, machine)
    assert (facts.licence, facts.thinking) == ("", False)


@pytest.mark.parametrize("fast", [torch.float32, torch.bfloat16], ids=str)
def test_L4_the_choice_is_the_one_of_a_load(
    tmp_path: Path, fast: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every amount of free memory, by what the engine has measured before or after."""
    monkeypatch.setattr(choosing, "faster_float", lambda formats: fast)
    assert Chooser(measures=True, notes=DiskStore(tmp_path)).faster_type() == fast
    machine = UnmeasuredMachine(CPU, {}, EngineNotes(tmp_path, {}))
    facts, plan = read_facts(DEMO_MODEL, machine), ModelPlan(ModelFolder.open(DEMO_MODEL))
    assert (facts.ways[0].precision == "float32") is (fast == torch.float32)
    monkeypatch.setattr(Chooser, "faster_type", lambda chooser: fast)
    for free in range(HEADROOM_BYTES, HEADROOM_BYTES + 2 * facts.ways[0].num_bytes, 3_000_000):
        chosen = choose_precision(ModelSettings(path=""), plan, CPU, free)
        way = judge(facts, Memory(free + TEXT_BYTES, 2**40), context=16).way
        assert way is not None and way.precision == chosen.precision.name


@pytest.mark.slow
def test_another_measurement_of_the_engines_is_noticed(tmp_path: Path, known: Remembered) -> None:
    (key,) = (each for each in known.notes if "faster type" in each)
    slower = known.model_copy(update={"notes": {**known.notes, key: str(torch.float32)}})
    survey, store = Survey(tmp_path, known=slower), DiskStore(tmp_path / "contexts")
    kind, _, name = key.partition(" ")
    for fast in (torch.float32, torch.bfloat16):
        if fast == torch.bfloat16:
            store.write_note(kind, name, str(fast))
        survey.run(DEMO_MODEL)
        first = survey.found[str(DEMO_MODEL)].ways[0].precision
        assert f"torch.{first}" == str(fast) and recalled(survey.cache).notes[key] == str(fast)
