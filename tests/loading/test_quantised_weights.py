"""Quantised matrices kept beside the contexts: the same fingerprint, a cap, and a way to delete."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import Conversation
from core.api.commands import DeleteMatrices, Generate, LoadModel
from core.api.events import Finished, Loaded
from core.api.params import ModelSettings
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.loading.precision import INT4, INT8, PRECISIONS
from core.loading.quantised_store import WEIGHTS_LIMIT, WEIGHTS_SHARE, QuantisedStore
from core.storage.rows import WEIGHTS
from core.storage.store import DiskStore
from tests.loading.keeping import settle
from tests.models.quantised_folders import FORMATS, write_twins
from tests.oracle.checkpoints import Tiny
from tests.promises.machine import GREEDY, user

TINY = Tiny(layers="LF", hidden=128, mlp=256, text_only=True, vision=False, tied=False)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("published")
    packed, plain = write_twins(top, FORMATS["gptq"], TINY)
    settle(top)
    return {"gptq": packed, "plain": plain}


@pytest.fixture
def contexts(tmp_path: Path) -> Path:
    return tmp_path / "contexts"


def load(path: Path, contexts: Path | None, precision: str = "int8", **more: Any) -> Loaded:
    engine, settings = Engine(), settings_of(contexts, path, precision, **more)
    return engine.load(LoadModel(request=1, settings=settings), CancelFlag(), lambda event: None)


def settings_of(
    contexts: Path | None, path: Path = Path("m"), precision: str = "int8", **more: Any
) -> ModelSettings:
    folder = None if contexts is None else str(contexts)
    given = {"path": str(path), "device": "cpu", "precision": precision, "grid": 64}
    return ModelSettings.model_validate(given | {"cache_folder": folder} | more)


def ask(path: Path, contexts: Path | None, precision: str) -> Finished:
    engine = Engine()
    settings = settings_of(contexts, path, precision, context_length=256)
    engine.load(LoadModel(request=1, settings=settings), CancelFlag(), lambda event: None)
    assert engine.loaded is not None
    engine.loaded.cache.clear()
    conversation = Conversation(messages=(user("Hello"),))
    command = Generate(request=2, conversation=conversation, sampling=GREEDY)
    return engine.generate(command, CancelFlag(), lambda event: None)


def files_in(contexts: Path) -> list[str]:
    return sorted(path.name for path in (contexts / "weights").glob("*"))


def kept_in(contexts: Path) -> int:
    return DiskStore(contexts).num_bytes(WEIGHTS)


def budget(contexts: Path, **more: Any) -> int:
    store = QuantisedStore.open(settings_of(contexts, **more), DiskStore(contexts))
    assert store is not None
    return store.cap


@pytest.mark.parametrize(("kind", "precision"), [("plain", "int8"), ("gptq", "int4")])
def test_the_fingerprint_and_the_answer_are_the_same_in_both_ways(
    twins: dict[str, Path], contexts: Path, kind: str, precision: str
) -> None:
    first, second = (load(twins[kind], contexts, precision).model for _ in range(2))
    assert (first.load.from_disk, second.load.from_disk) == (False, True)
    assert first.fingerprint == second.fingerprint
    assert first.fingerprint == load(twins[kind], None, precision).model.fingerprint
    assert second.load.seconds > second.load.packing_s > 0
    answers = [ask(twins[kind], folder, precision) for folder in (None, contexts)]
    assert answers[0].reply_ids == answers[1].reply_ids


def test_only_what_is_quantised_is_kept(twins: dict[str, Path], contexts: Path) -> None:
    for precision, meaning in PRECISIONS.items():
        facts = [load(twins["plain"], contexts, precision).model.load for _ in range(2)]
        assert facts[1].from_disk == (meaning.integers is not None)
        assert facts[1].kept_bytes == kept_in(contexts)
    assert len(files_in(contexts)) == 2  # int8 and int4


def test_without_a_folder_nothing_is_kept(twins: dict[str, Path]) -> None:
    facts = [load(twins["plain"], None).model.load for _ in range(2)]
    assert not any(each.from_disk or each.kept_bytes or each.kept_budget for each in facts)
    assert QuantisedStore.open(settings_of(None), None) is None


def test_the_budget_is_a_share_of_what_is_free(
    contexts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: Path) -> Any:
        assert path.exists()
        return type("Usage", (), {"free": free})

    monkeypatch.setattr(shutil, "disk_usage", usage)
    free = 10**9
    assert budget(contexts) == int(WEIGHTS_SHARE * free)
    free = 2**50
    assert budget(contexts) == WEIGHTS_LIMIT
    assert budget(contexts, weights_bytes=7) == 7 and budget(contexts, weights_bytes=0) == 0


def test_all_that_is_kept_can_be_deleted(twins: dict[str, Path], contexts: Path) -> None:
    for precision in (INT8, INT4):
        load(twins["plain"], contexts, precision.name)
    for _ in range(2):
        Engine().delete_matrices(DeleteMatrices(request=1, cache_folder=str(contexts)))
        assert files_in(contexts) == []
    assert not load(twins["plain"], contexts).model.load.from_disk
