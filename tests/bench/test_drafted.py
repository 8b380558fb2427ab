"""The bench of drafts: that it runs and counts right. No times."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.api.params import DraftSettings
from tests.bench import speculation
from tests.bench.drafted import RATES, Case, asked
from tests.bench.folders import DEMO
from tests.kernels.native.here import NEEDS_COMPILER


@pytest.mark.slow
@NEEDS_COMPILER
def test_a_table_has_a_row_for_each_case_and_a_column_for_each_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--tokens", "8", "--rounds", "1", "--folder", str(tmp_path)]
    assert speculation.main([*arguments, "--precision", "int8", "bfloat16"]) == 0
    heading, _, head, _, *rows = capsys.readouterr().out.splitlines()
    assert heading.startswith("a model of no size") and heading.endswith("replies of 8 tokens")
    assert head == "| drafts | right | int8 | bfloat16 |"
    assert len(rows) == 2 + len(RATES) + 2
    assert all(len(row.split(" | ")) == 4 and not row.endswith("|  |") for row in rows)


@NEEDS_COMPILER
def test_the_head_is_right_as_often_as_a_case_says() -> None:
    engine = speculation.loaded(DEMO, "int8")
    reply, chat = tuple(range(100, 140)), asked("Hi")
    draft = DraftSettings(mode="mtp", tokens=4)
    for rate in (0.0, 1.0):
        finished = speculation.answered(engine, Case("", chat, reply, "mtp", rate), draft)
        assert finished.reply_ids == reply and finished.stats.draft is not None
        drafted = finished.stats.draft.drafted
        assert finished.stats.draft.accepted == rate * drafted and drafted > 30
