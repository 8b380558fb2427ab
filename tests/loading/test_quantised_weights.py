"""Quantised matrices kept beside the contexts: the same fingerprint, a cap, and a way to delete."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import Conversation
from core.api.commands import DeleteMatrices, Forget, Generate, LoadModel
from core.api.errors import NotDeletedError
from core.api.events import Finished, Loaded
from core.api.params import ModelSettings
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.loading.precision import INT4, INT8, PRECISIONS
from core.loading.quantised_store import (
    WEIGHTS_LIMIT,
    WEIGHTS_SHARE,
    delete_quantised,
    kept_bytes,
    open_keeping,
    weights_budget,
)
from core.storage.files import Files, Space
from core.storage.rows import WEIGHTS
from core.storage.store import DEFAULT_FLOOR, DiskStore
from tests.loading.keeping import settle
from tests.models.quantised_folders import FORMATS, write_twins
from tests.oracle.checkpoints import Tiny
from tests.promises.machine import GREEDY, user
from tests.storage.disks import FailingFiles

TINY = Tiny(layers="LF", hidden=128, mlp=256, text_only=True, vision=False, tied=False)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("published")
    made: dict[str, Path] = {}
    for title in ("gptq", "awq"):
        made[title], made["plain"] = write_twins(top / title, FORMATS[title], TINY)
    settle(top)
    return made


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
    return kept_bytes(DiskStore(contexts))


def budget(contexts: Path, **more: Any) -> int:
    return weights_budget(settings_of(contexts, **more), DiskStore(contexts))


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("kind", ["plain", "gptq", "awq"])
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
    assert open_keeping(settings_of(None), INT8, None) is None


def test_a_budget_of_nothing_deletes_what_is_kept(twins: dict[str, Path], contexts: Path) -> None:
    load(twins["plain"], contexts)
    assert kept_in(contexts) > 0
    loaded = load(twins["plain"], contexts, weights_bytes=0)
    assert not loaded.model.load.from_disk
    assert kept_in(contexts) == 0


def test_a_budget_for_one_model_keeps_the_one_used_last(
    twins: dict[str, Path], contexts: Path
) -> None:
    load(twins["plain"], contexts)
    cap = kept_in(contexts) + 1000
    found = [
        load(twins[kind], contexts, weights_bytes=cap).model.load.from_disk
        for kind in ("plain", "gptq", "gptq", "plain")
    ]
    assert found == [True, False, True, False]
    assert kept_in(contexts) <= cap


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
    assert budget(contexts, weights_bytes=7) == 7


def test_the_disk_keeps_what_others_need(
    twins: dict[str, Path], contexts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = Space(DEFAULT_FLOOR + 1000, 2 * DEFAULT_FLOOR)
    monkeypatch.setattr(Files, "free", lambda self, folder: space)
    assert not any(load(twins["plain"], contexts).model.load.from_disk for _ in range(2))
    assert kept_in(contexts) == 0


def test_all_that_is_kept_can_be_deleted(twins: dict[str, Path], contexts: Path) -> None:
    for precision in (INT8, INT4):
        load(twins["plain"], contexts, precision.name)
    Engine().delete_matrices(DeleteMatrices(request=1, cache_folder=str(contexts)))
    assert files_in(contexts) == []
    assert not load(twins["plain"], contexts).model.load.from_disk


def test_deleting_where_nothing_is_kept_is_no_error(contexts: Path) -> None:
    Engine().delete_matrices(DeleteMatrices(request=1, cache_folder=str(contexts)))
    assert not contexts.exists()


@pytest.mark.parametrize("step", range(1, 6))
def test_what_cannot_be_deleted_is_told_and_asked_for_again(
    twins: dict[str, Path], contexts: Path, step: int
) -> None:
    for precision in ("int8", "int4"):
        load(twins["plain"], contexts, precision)
    files = FailingFiles()
    blobs = DiskStore(contexts, 0, files)
    files.fail_at = files.num_steps + step
    with pytest.raises(NotDeletedError, match="can't be deleted: Input/output error"):
        delete_quantised(blobs)
    delete_quantised(blobs)
    assert not files_in(contexts) and blobs.num_bytes(WEIGHTS) == 0


def test_deleting_all_chats_leaves_the_models_quick(twins: dict[str, Path], contexts: Path) -> None:
    load(twins["plain"], contexts)
    Engine().forget(Forget(request=1, chat=None, cache_folder=str(contexts)))
    assert load(twins["plain"], contexts).model.load.from_disk
