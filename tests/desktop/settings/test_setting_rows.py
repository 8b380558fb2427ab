from __future__ import annotations

import pytest

from core.api.model_info import ModelInfo
from core.api.params import CacheSettings, ModelSettings, SamplingParams
from desktop.settings.budgets import setting_cost
from desktop.settings.setting_rows import parts
from desktop.store.settings import AheadSettings, AppSettings, BackgroundSettings
from tests.desktop.fake_engine import model_info

BY_KEY = {row.key: row for part in parts() for row in part.rows}


def test_every_setting_of_the_engine_is_offered() -> None:
    # The grid is for programs, the window chooses how to restore and where the contexts lie, and
    # the model's folder has a control of its own.
    wanted = {f"sampling.{name}" for name in SamplingParams.model_fields}
    wanted |= {f"cache.{name}" for name in CacheSettings.model_fields} - {"cache.restore"}
    wanted |= {f"model.{name}" for name in ModelSettings.model_fields} - {
        "model.path",
        "model.grid",
        "model.cache_folder",
        "model.measure_kernels",
    }
    wanted |= {f"ahead.{name}" for name in AheadSettings.model_fields}
    wanted |= {f"background.{name}" for name in BackgroundSettings.model_fields}
    wanted |= {"window.theme", "window.text_size", "window.format_messages", "window.language"}
    assert set(BY_KEY) == wanted | {"thinking", "draft.mode"}


@pytest.mark.parametrize("key", BY_KEY)
def test_every_row_says_what_it_is_and_every_choice_is_allowed(key: str) -> None:
    row = BY_KEY[key]
    assert row.title and row.description.endswith(".")
    for _, value in row.choices:
        assert row.value_in(row.changed(AppSettings(), value)) == value


@pytest.mark.parametrize(
    ("key", "words", "good", "bad"),
    [
        ("sampling.temperature", "0 to 100", 100.0, 100.5),
        ("sampling.top_p", "0 to 1", 0.0, -0.1),
        ("sampling.top_k", "0 or more", 0, -1),
        ("cache.count", "0 to 256", 256, 257),
        ("cache.interval", "512 to 32,768", 512, 0),
        ("cache.interval", "512 to 32,768", 32_768, 32_769),
        ("cache.host_bytes", "0 or more", 0, -1),
        ("model.context_length", "16 or more", 16, 15),
    ],
)
def test_bounds(key: str, words: str, good: float, bad: float) -> None:
    row = BY_KEY[key]
    assert row.bounds_in_words() == words
    assert row.value_in(row.changed(AppSettings(), good)) == good
    with pytest.raises(ValueError, match=r"less than|greater than"):
        row.changed(AppSettings(), bad)


def test_changing_one_setting_leaves_the_others() -> None:
    settings = BY_KEY["cache.count"].changed(AppSettings(thinking=True), 4)
    assert settings == AppSettings(thinking=True, cache=CacheSettings(count=4))
    assert BY_KEY["thinking"].changed(settings, None) == AppSettings(cache=CacheSettings(count=4))


@pytest.mark.parametrize(("given", "rounded"), [(513, 1024), (1024, 1024), (32_700, 32_768)])
def test_an_interval_is_rounded_up_to_the_grid(given: int, rounded: int) -> None:
    changed = BY_KEY["cache.interval"].changed(AppSettings(), given)
    assert changed.cache.interval == rounded


def test_what_the_window_sends_is_restored_when_that_is_faster() -> None:
    assert AppSettings().cache.restore == "when_faster"
    read = AppSettings.model_validate({"cache": {"restore": "always", "interval": 7, "count": 3}})
    assert read.cache == CacheSettings(count=3, interval=512, restore="when_faster")
    changed = BY_KEY["cache.count"].changed(read, 4)
    assert changed.cache.restore == "when_faster"


PLENTY = model_info(smallest_host_budget=4_000_000)
# A checkpoint needs 1,000 rows; all of them share those of 20,000 tokens.
SLIDING = model_info(
    smallest_host_budget=4_000_000,
    context_length=20_000,
    checkpoint_bytes=1_000_000,
    window_bytes_per_token=1_000,
    window=1_001,
)


@pytest.mark.parametrize(
    ("key", "cache", "model", "words"),
    [
        ("count", {}, None, "known once a model is loaded"),
        ("count", {}, model_info(checkpoint_bytes=0), "needs no checkpoints"),
        ("count", {"count": 0}, PLENTY, "Switched off"),
        ("count", {"count": 1}, PLENTY, "1 checkpoint: up to 1.0 MB."),
        ("count", {"count": 32}, PLENTY, "32 checkpoints: up to 33.6 MB (1.0 MB each)."),
        ("count", {"host_bytes": 8_200_000}, PLENTY, "The memory budget has room for 4 of them."),
        ("count", {}, SLIDING, "32 checkpoints of one chat: up to 20.0 MB."),
        ("count", {"host_bytes": 7_500_000}, SLIDING, "budget has room for 3 of them."),
        ("interval", {"interval": 513}, PLENTY, "at most 1,535 tokens are read again."),
        ("interval", {"interval": 2048}, PLENTY, "at most 2,559 tokens are read again."),
        ("interval", {"count": 0}, PLENTY, "No effect"),
        ("interval", {}, model_info(checkpoint_bytes=0), "needs no checkpoints"),
        (
            "host_bytes",
            {"host_bytes": 8_096_000},
            PLENTY,
            "Room for a full context of 4,096 tokens (4.0 MB), and also for 4,000 tokens of saved "
            "context or 3 checkpoints.",
        ),
        (
            "host_bytes",
            {"host_bytes": 8_096_000, "count": 2},
            PLENTY,
            "and also for all 2 checkpoints and 1,952 tokens of saved context.",
        ),
        ("host_bytes", {"host_bytes": 4_000_000}, PLENTY, "(4.0 MB) only."),
        ("host_bytes", {"host_bytes": 3_999_999}, PLENTY, "is too small: a context of 4,096 token"),
        (
            "host_bytes",
            {"host_bytes": 10_240},
            model_info(smallest_host_budget=0),
            "Room for 10 tokens of saved context or 0 check",
        ),
        ("device_bytes", {"device_bytes": 2048}, model_info(), "Room for 2 tokens of context."),
        ("disk_bytes", {"disk_bytes": 0}, PLENTY, "after a restart, chats are read again"),
        (
            "disk_bytes",
            {},
            PLENTY,
            "Room for 9,765,625 tokens of saved context, or 9,536 checkpoints on disk, for all",
        ),
    ],
)
def test_what_a_setting_costs(
    key: str, cache: dict[str, object], model: ModelInfo | None, words: str
) -> None:
    settings = CacheSettings.model_validate(cache)
    assert setting_cost("model.device", settings, model) == ""
    assert words in setting_cost(f"cache.{key}", settings, model)
