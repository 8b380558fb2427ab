"""Quantised matrices through the real worker: a second one reads what the first one kept."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from core.api.commands import DeleteMatrices
from core.api.model_info import LoadFacts
from core.api.params import ModelSettings
from core.client.client import EngineClient
from tests.loading.keeping import settle
from tests.promises.fixtures import FolderOf, folder_of

__all__ = ["folder_of"]

LIMIT_S = 120


async def loads(settings: ModelSettings, delete: bool) -> list[LoadFacts]:
    """What a worker of its own says of loading twice, the second time after a deletion."""
    client = EngineClient()
    await client.start()
    try:
        first = await client.load(settings)
        if delete:
            command = DeleteMatrices(cache_folder=str(settings.cache_folder))
            await client.ask(command).last()
        second = await client.load(settings)
        assert first.fingerprint == second.fingerprint
        return [first.load, second.load]
    finally:
        await client.close()


@pytest.mark.slow
def test_another_worker_reads_what_was_kept_until_it_is_deleted(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(folder_of("hybrid"), tmp_path / "model"))
    settle(model)
    settings = ModelSettings(
        path=str(model),
        device="cpu",
        precision="int8",
        grid=64,
        cache_folder=str(tmp_path / "contexts"),
    )
    found = []
    for delete in (False, True, False):
        facts = asyncio.run(asyncio.wait_for(loads(settings, delete), LIMIT_S))
        found += [each.from_disk for each in facts]
        assert all(0 < each.kept_bytes <= each.kept_budget for each in facts)
    assert found == [False, True, True, False, True, True]
