"""The benches on a tiny model: their counters, and that they run. No times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from core.api.params import ModelSettings
from tests.bench import cache, costs, lengths, yardstick
from tests.bench.folders import TINY, write_random
from tests.bench.rig import Rig
from tests.bench.words import Words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("bench") / "tiny", TINY)


@pytest.fixture
def rig(folder: Path, tmp_path: Path) -> Iterator[Rig]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rig = Rig(
        ModelSettings(
            path=str(folder),
            device="cpu",
            precision="bfloat16",
            context_length=2_048,
            cache_folder=str(tmp_path / "cache"),
        )
    )
    yield rig
    rig.close()
    torch.set_num_threads(threads)


@pytest.fixture
def words(rig: Rig, folder: Path) -> Words:
    return Words(folder, rig.loaded.info.tokenizer)


def test_every_scenario_reads_what_its_name_says(rig: Rig, tmp_path: Path) -> None:
    row = lengths.measure(rig, tmp_path, length=700, repeats=2, picture_size=64, every_cold=True)
    assert set(row.warm) == set(lengths.SCENARIOS)
    read = {name: {reading.evaluated for reading in row.warm[name]} for name in row.warm}
    assert read["regenerate"] == {0}
    assert row.swipe_back == 0
    new = read["append"]
    assert len(new) == 1 and max(new) < lengths.NEW + 20
    assert read["edit of the last user message"] == read["reopened from disk"] == new
    assert [r.stats.images_encoded for r in row.warm["second image added"]] == [1, 1]
    assert abs(row.cold["append"].evaluated - 700) < 40
    assert row.written_bytes > 0


@pytest.mark.slow
def test_the_yardsticks_read_only_what_is_new(rig: Rig, words: Words, tmp_path: Path) -> None:
    for turn in yardstick.long_turns(rig, words, tokens=60, reply=12)[1:]:
        assert turn.evaluated == turn.new and 0 < turn.idle < 20
    edit = yardstick.late_edit(rig, words, turns=4, first=80)
    assert edit.evaluated == edit.new
    rows = yardstick.differences(rig, words, tmp_path, 64)
    assert all(turn.evaluated <= turn.new for turn in rows)
    assert rows[-1].evaluated < rows[-1].new


def test_the_costs_are_those_of_the_same_tokens(rig: Rig, words: Words) -> None:
    chat = [words.user(600, 1)]
    cuts = costs.cuts(rig, "cuts", chat, 1)
    assert cuts.runs == 3 and cuts.tokens > 600
    assert costs.on_and_off(rig, chat, 1).tokens == cuts.tokens


def test_all_tables_are_printed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = cache.Bench(
        name="tiny", folder=folder, longest=512, every_cold_to=0, repeats=1, picture_size=64,
        message=600, side=200, turns=2, tables=frozenset({"lengths", "costs"}),
    )  # fmt: skip
    assert bench.lengths() == [512]
    cache.report(bench, tmp_path)
    printed = capsys.readouterr().out
    assert "| 512 |" in printed and "read 0 tokens beyond the new message" in printed
