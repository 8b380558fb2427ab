"""Each declared setting: its bounds come from its type, in words and in effect."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.api.params import CacheSettings, ModelSettings, SamplingParams
from desktop.item_models.checkpoint_cost import checkpoint_cost
from desktop.item_models.setting_rows import (
    AHEAD_ROWS,
    CHECKPOINT_ROWS,
    MODEL_ROWS,
    SAMPLING_ROWS,
    THINKING_ROW,
    SettingRow,
)
from desktop.store.settings import AheadSettings, AppSettings
from tests.desktop.fake_engine import model_info

ROWS = (*MODEL_ROWS, *SAMPLING_ROWS, *CHECKPOINT_ROWS, *AHEAD_ROWS, THINKING_ROW)
BY_KEY = {row.key: row for row in ROWS}


def test_every_setting_of_the_engine_is_offered() -> None:
    # Stop strings and the grid are for programs; the folder has a control of its own.
    wanted = {f"sampling.{name}" for name in SamplingParams.model_fields if name != "stop"}
    wanted |= {f"cache.{name}" for name in CacheSettings.model_fields}
    wanted |= {f"model.{name}" for name in ModelSettings.model_fields} - {
        "model.path",
        "model.grid",
    }
    wanted |= {f"ahead.{name}" for name in AheadSettings.model_fields}
    assert set(BY_KEY) == wanted | {"thinking"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_every_row_says_what_it_is(row: SettingRow) -> None:
    assert row.title
    assert row.description.endswith(".")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_every_choice_is_allowed(row: SettingRow) -> None:
    for _, value in row.choices:
        assert row.value_in(row.changed(AppSettings(), value)) == value


@pytest.mark.parametrize(
    ("key", "words", "good", "bad"),
    [
        ("sampling.temperature", "0 to 100", 100.0, 100.5),
        ("sampling.top_p", "above 0 to 1", 1.0, 0.0),
        ("sampling.top_k", "0 or more", 0, -1),
        ("cache.count", "0 to 256", 256, 257),
        ("cache.interval", "1 to 32,768", 1, 0),
        ("model.context_length", "16 or more", 16, 15),
    ],
)
def test_bounds(key: str, words: str, good: float, bad: float) -> None:
    row = BY_KEY[key]
    assert row.bounds_in_words() == words
    assert row.value_in(row.changed(AppSettings(), good)) == good
    with pytest.raises(ValidationError):
        row.changed(AppSettings(), bad)


def test_changing_one_setting_leaves_the_others() -> None:
    settings = BY_KEY["cache.count"].changed(AppSettings(thinking=True), 4)
    assert settings == AppSettings(thinking=True, cache=CacheSettings(count=4))
    assert THINKING_ROW.changed(settings, None) == AppSettings(cache=CacheSettings(count=4))


@pytest.mark.parametrize(
    ("cache", "model", "words"),
    [
        (CacheSettings(), None, "known once a model is loaded"),
        (CacheSettings(), model_info(checkpoint_bytes=0), "needs no checkpoints"),
        (CacheSettings(count=0), model_info(), "Switched off"),
        (CacheSettings(count=1), model_info(), "1 checkpoint of 1.0 MiB each take up to 1.0 MiB"),
        (CacheSettings(interval=513), model_info(), "every 1,024 tokens"),
        (CacheSettings(interval=512), model_info(), "every 512 tokens"),
    ],
)
def test_what_checkpoints_cost(cache: CacheSettings, model: object, words: str) -> None:
    assert words in checkpoint_cost(cache, model)  # type: ignore[arg-type]
