"""A second load reads what the first one quantised, and the model is the same to the bit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from core.api.errors import BrokenWeightsError, MissingFileError, RequestCancelled
from core.api.params import ModelSettings
from core.engine.loaded import load as load_engine
from core.loading.model import ReadModel, _Loading
from core.loading.quantised_store import QuantisedStore
from core.storage.store import DiskStore
from core.weights import spec as specs
from core.weights.published.folder import ModelFolder
from kernels.dispatch import BackendName, backend
from kernels.linear.reference import Integers
from tests.bench.folders import DEMO
from tests.loading.keeping import WRITTEN_NS, counted_reads, kept_in, settle, store_in
from tests.loads import load_model
from tests.models.outliers import plant
from tests.models.quantised_folders import FORMATS, write_twins
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.runs import our_logits, text
from tests.oracle.tiny_experts import TinyExperts, write_experts
from tests.storage.disks import FailingFiles, RoomyFiles

CPU = torch.device("cpu")
PLAIN = Tiny(layers="LF", hidden=64, mlp=96, vision_depth=1, max_shard_size="150KB")
WHOLE_GROUPS = Tiny(layers="LF", hidden=128, mlp=256, text_only=True, vision=False, tied=False)
PUBLISHED = ["gptq", "awq", "fp8", "compressed"]
EXPERTS = {
    "experts": TinyExperts("qwen3_next", WHOLE_GROUPS, inner=32),
    "fused experts": TinyExperts("qwen3_5_moe", WHOLE_GROUPS, inner=32, fused=True),
}
KINDS = ["plain", *PUBLISHED, "planted", *EXPERTS]
BACKENDS: list[BackendName] = ["cpu", "reference"]
INTEGERS: list[Integers] = ["int8", "int4"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("models")
    made = {kind: write_twins(top / kind, FORMATS[kind], WHOLE_GROUPS)[0] for kind in PUBLISHED}
    write_folder(top / "plain", PLAIN)
    write_folder(top / "planted", replace(PLAIN, max_shard_size="1GB"))
    plant(top / "planted", 1.0)
    for kind, tiny in EXPERTS.items():
        write_experts(top / kind, tiny)
        made[kind] = top / kind
    settle(top)
    return made | {"plain": top / "plain", "planted": top / "planted"}


@pytest.fixture
def path(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A folder that a test may spoil."""
    return Path(shutil.copytree(folders["plain"], tmp_path / "copy"))


@pytest.fixture
def store(tmp_path: Path) -> QuantisedStore:
    return store_in(tmp_path / "weights")


def load(
    path: Path,
    store: QuantisedStore | None,
    integers: Integers = "int8",
    name: BackendName = "cpu",
    **options: Any,
) -> ReadModel:
    kernels = backend(name, torch.bfloat16, integers=integers)
    given: dict[str, Any] = {"progress": lambda done, total: None, "check": lambda: None} | options
    folder = ModelFolder.open(path)
    return load_model(folder, CPU, torch.bfloat16, **given, kernels=kernels, store=store)


def logits(loaded: ReadModel) -> torch.Tensor:
    with torch.inference_mode():
        return our_logits(loaded.model, [text(9)])


def same(one: ReadModel, other: ReadModel) -> bool:
    """Equal digests, configs and bits."""
    facts = [(each.weights_digest, each.config) for each in (one, other)]
    return facts[0] == facts[1] and torch.equal(logits(one), logits(other))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("integers", INTEGERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_load_is_the_first_to_the_bit(
    folders: dict[str, Path],
    store: QuantisedStore,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    integers: Integers,
    name: BackendName,
) -> None:
    monkeypatch.setattr(specs, "SLICE_BYTES", 4096)  # so that a head has slices
    alone = load(folders[kind], None, integers, name)
    first = load(folders[kind], store, integers, name)
    second = load(folders[kind], store, integers, name)
    assert (first.from_disk, second.from_disk) == (False, True)
    assert same(alone, first) and same(first, second)
    assert len(kept_in(store)) == 1


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_unchanged_weights_in_floats_are_digested_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    path = Path(shutil.copytree(DEMO, tmp_path / "demo"))
    settle(path)
    digested: list[bool] = []
    real = ModelFolder.read

    def read(folder: ModelFolder, *given: Any, digest: bool) -> str:
        digested.append(digest)
        return real(folder, *given, digest=digest)

    monkeypatch.setattr(ModelFolder, "read", read)
    blobs = partial(DiskStore, tmp_path / "store", 0, RoomyFiles())
    settings = ModelSettings.model_validate({"path": str(path), "precision": precision})

    def fingerprint() -> str:
        return load_engine(settings, lambda done, total: None, lambda: None, blobs).info.fingerprint

    assert fingerprint() == fingerprint() and digested == [True, False]
    settle(path, WRITTEN_NS + 1)
    assert fingerprint() and digested[2:] == [True]


def test_the_second_load_reads_nothing_of_what_was_quantised(
    folders: dict[str, Path], store: QuantisedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted_reads(monkeypatch) as first:
        load(folders["plain"], store)
    with counted_reads(monkeypatch) as second:
        loaded = load(folders["plain"], store)
    assert loaded.from_disk
    plan_bytes = sum(file.num_bytes for file in ModelFolder.open(folders["plain"]).files)
    assert plan_bytes > sum(first) > 0.9 * plan_bytes
    tensors = {
        name: entry.end - entry.start
        for file in ModelFolder.open(folders["plain"]).files
        for name, entry in file.tensors.items()
    }
    # Norms, gates and the tower; of the table single rows, when they are asked for.
    matrices = [
        name for name in tensors if "language_model" in name and name.endswith("proj.weight")
    ]
    others = sum(tensors[name] for name in tensors.keys() - set(matrices))
    table = tensors["model.language_model.embed_tokens.weight"]
    assert len(matrices) > 8
    assert sum(second) <= others - table


def test_another_precision_or_numerics_has_a_file_of_its_own(
    folders: dict[str, Path], store: QuantisedStore
) -> None:
    other = QuantisedStore(store.blobs, store.cap, "newer numerics")
    for one in (store, other):
        for integers in INTEGERS:
            assert not load(folders["plain"], one, integers).from_disk
    assert len(kept_in(store)) == 4
    assert all(load(folders["plain"], one).from_disk for one in (store, other))


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: flip(path, -1),  # of the matrix that is packed last
        lambda path: flip(path, 100),
        lambda path: flip(path, path.stat().st_size // 2),
        lambda path: path.unlink(),
    ],
    ids=["cut", "empty", "last byte", "header", "middle", "gone"],
)
def test_what_is_damaged_is_quantised_again(
    folders: dict[str, Path], store: QuantisedStore, spoil: Callable[[Path], object]
) -> None:
    first = load(folders["plain"], store)
    (file,) = kept_in(store)
    spoil(file)
    again = load(folders["plain"], store)
    assert not again.from_disk and same(first, again)
    third = load(folders["plain"], store)
    assert third.from_disk and same(first, third)


def change_weights(path: Path) -> None:
    """Other numbers under the same name, of the same size."""
    file = sorted(path.glob("*.safetensors"))[0]
    with file.open("r+b") as opened:
        opened.seek(-40, os.SEEK_END)
        opened.write(b"\x3e\x3e" * 20)


@pytest.mark.parametrize("settled", [False, True])
def test_changed_weights_are_read_anew(path: Path, store: QuantisedStore, settled: bool) -> None:
    settle(path)
    first = load(path, store)
    assert load(path, store).from_disk
    change_weights(path)
    if settled:
        settle(path, 10**18 + 5)
    again = load(path, store)
    assert not again.from_disk and again.weights_digest != first.weights_digest
    assert same(again, load(path, None))


def test_weights_that_change_in_the_middle_of_a_second_load_are_not_trusted(
    path: Path, store: QuantisedStore
) -> None:
    settle(path)
    load(path, store)
    seen: list[int] = []

    def once(done: int, total: int) -> None:
        if not seen:
            change_weights(path)
        seen.append(done)

    changed = load(path, store, progress=once)
    assert not changed.from_disk
    assert same(changed, load(path, None))


def test_a_disk_taken_out_in_the_middle_of_a_second_load_costs_nothing_that_is_kept(
    path: Path, store: QuantisedStore
) -> None:
    settle(path)
    load(path, store)
    away = path.with_name("away")

    def take_out(done: int, total: int) -> None:
        if path.exists():
            path.rename(away)

    with pytest.raises(MissingFileError):
        load(path, store, progress=take_out)
    away.rename(path)
    assert load(path, store).from_disk


def test_weights_that_change_in_the_middle_of_a_first_load_are_not_kept(
    path: Path, store: QuantisedStore
) -> None:
    settle(path)
    seen: list[int] = []

    def once(done: int, total: int) -> None:
        if len(seen) == 3:
            os.utime(sorted(path.glob("*.safetensors"))[0], ns=(10**18 + 9, 10**18 + 9))
        seen.append(done)

    load(path, store, progress=once)
    assert not kept_in(store)


def test_a_broken_file_is_told_as_without_anything_kept(path: Path, store: QuantisedStore) -> None:
    settle(path)
    load(path, store)
    folder = ModelFolder.open(path)
    for file in folder.files:
        file.path.write_bytes(file.path.read_bytes()[:-3])
    with pytest.raises(BrokenWeightsError):
        load(path, store)


@pytest.mark.parametrize("kept", [False, True], ids=["first", "second"])
def test_a_load_is_stopped_while_it_reads_and_while_it_packs(
    folders: dict[str, Path], store: QuantisedStore, kept: bool
) -> None:
    if kept:
        load(folders["plain"], store)
    calls: list[int] = []
    load(folders["plain"], store if kept else None, check=lambda: calls.append(1))
    for last in (1, len(calls) // 2, len(calls) - 1):
        looks: list[int] = []

        def stop(last: int = last, looks: list[int] = looks) -> None:
            looks.append(1)
            if len(looks) == last:
                raise RequestCancelled("Stopped.")

        with pytest.raises(RequestCancelled):
            load(folders["plain"], store, check=stop)
        if kept:
            assert load(folders["plain"], store).from_disk
        else:
            for path in kept_in(store):
                assert not path.name.startswith(".new-")
                path.unlink()


@pytest.mark.parametrize("kept", [False, True], ids=["first", "second"])
def test_reading_and_packing_both_move_the_bar(
    folders: dict[str, Path], store: QuantisedStore, kept: bool
) -> None:
    if kept:
        load(folders["plain"], store)
    reports: list[tuple[int, int]] = []
    loaded = load(
        folders["plain"], store, progress=lambda done, total: reports.append((done, total))
    )
    done = [each for each, _ in reports]
    (total,) = {each for _, each in reports}
    assert loaded.from_disk == kept
    assert done == sorted(done) and done[-1] == total
    size = sum(file.num_bytes for file in ModelFolder.open(folders["plain"]).files)
    assert kept or (total > size and sum(each > size for each in done) > 10)
    assert loaded.packing_s > 0


def test_a_disk_that_fails_costs_the_speed_up_alone(
    folders: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = load(folders["plain"], None)
    for step in (1, 2, 9):
        files = FailingFiles()
        files.fail_at, files.stays_broken = step, True
        loaded = load(folders["plain"], store_in(tmp_path / str(step), files=files))
        assert not loaded.from_disk and same(loaded, expected)
    assert "not kept: Input/output error" in caplog.text


def test_what_one_device_quantised_is_not_another_s() -> None:
    """Both may be plain torch in floats, and round a division otherwise."""
    model = SimpleNamespace(container=None)
    given = {"model": model, "config": "a config", "dtype": torch.bfloat16}
    plan: Any = SimpleNamespace(kernels=SimpleNamespace(name="reference"), **given)
    meanings = {
        _Loading(plan, torch.device(kind), lambda done, total: None, lambda: None)._meaning
        for kind in ("cpu", "cuda")
    }
    assert len(meanings) == 2
