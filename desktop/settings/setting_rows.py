"""Each setting declared once for people: title, description, choices; bounds come from its type.

Which control edits a row is left to the panel, what a value does to the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from core.api.params import CacheSettings, DraftSettings, ModelSettings, SamplingParams
from desktop.number_format import number
from desktop.store.settings import (
    SHORTEST_INTERVAL,
    TEXT_SIZES,
    AheadSettings,
    AppSettings,
    WindowSettings,
)
from desktop.words import settings as words

# A checkpoint can only lie on the grid, so steps smaller than that change nothing.
GRID: int = ModelSettings.model_fields["grid"].default
Kind = Literal["choice", "switch", "integer", "number"]
Choice = tuple[str, object]

SECTIONS: dict[str, type[BaseModel]] = {
    "model": ModelSettings,
    "sampling": SamplingParams,
    "draft": DraftSettings,
    "cache": CacheSettings,
    "ahead": AheadSettings,
    "window": WindowSettings,
}


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: `key` is its path in AppSettings; `optional`: empty is the model's own."""

    key: str
    title: str
    description: str
    choices: tuple[Choice, ...] = ()
    # Where the window offers less than the type allows: the least, and what values are rounded to.
    least: int | None = None
    step: int = 1

    @property
    def kind(self) -> Kind:
        if self.choices:
            return "choice"
        if self._schema().get("type") == "boolean":
            return "switch"
        return "integer" if self._schema().get("type") == "integer" else "number"

    @property
    def optional(self) -> bool:
        return "anyOf" in self._whole_schema()

    @property
    def minimum(self) -> float:
        lowest = self._schema().get("minimum", 0)
        return float(lowest if self.least is None else self.least)

    @property
    def maximum(self) -> float:
        schema = self._schema()
        return float(schema.get("maximum", schema.get("exclusiveMaximum", 2**53)))

    def bounds_in_words(self) -> str:
        """What may be typed: 'from 0 to 1', 'at least 16'."""
        low = number(self.minimum)
        if self.maximum >= 2**53:
            return f"{low} or more"
        return f"{low} to {number(self.maximum)}"

    def value_in(self, settings: AppSettings) -> Any:
        """This setting's value."""
        value: Any = settings
        for name in self.key.split("."):
            value = getattr(value, name)
        return value

    def changed(self, settings: AppSettings, value: object) -> AppSettings:
        """The settings with this value, rounded up to a step. Raises ValueError out of bounds."""
        if self.least is not None and isinstance(value, int) and value < self.least:
            raise ValueError(f"{value} is less than {self.least}")
        if isinstance(value, int) and self.step > 1:
            value = -(-value // self.step) * self.step
        section, _, name = self.key.partition(".")
        if not name:
            return AppSettings.model_validate({**dict(settings), section: value})
        old = getattr(settings, section)
        new = type(old).model_validate({**dict(old), name: value})
        return settings.model_copy(update={section: new})

    def _whole_schema(self) -> dict[str, Any]:
        section, _, name = self.key.partition(".")
        schema: dict[str, Any] = _schemas(section)[name]
        return schema

    def _schema(self) -> dict[str, Any]:
        whole = self._whole_schema()
        kinds: list[dict[str, Any]] = whole.get("anyOf", [whole])
        return kinds[0]


@cache
def _schemas(section: str) -> dict[str, Any]:
    """What each setting of a section may be, by name: made once, for it takes milliseconds."""
    found: dict[str, Any] = SECTIONS[section].model_json_schema()["properties"]
    return found


def row(
    key: str, choices: tuple[Choice, ...] = (), least: int | None = None, step: int = 1
) -> SettingRow:
    """The setting of this key, in its words."""
    title, description = words.ROWS[key]
    return SettingRow(key, title, description.format(grid=GRID), choices, least, step)


def _same(*values: str) -> tuple[Choice, ...]:
    """Choices that are called what they are."""
    return tuple((value, value) for value in values)


MODEL_ROWS = (
    row(
        "model.device",
        ((words.AUTOMATIC, "auto"), (words.CPU, "cpu"), (words.CUDA, "cuda")),
    ),
    row(
        "model.precision",
        (
            (words.AUTOMATIC, "auto"),
            *_same("float32", "bfloat16"),
            (words.HALF_MEMORY, "int8"),
            (words.THIRD_OF_MEMORY, "int4"),
        ),
    ),
    row("model.context_length"),
    row(
        "model.max_image_tokens",
        (
            (words.AUTOMATIC, None),
            *((words.tokens_words(count), count) for count in (256, 512, 1024, 2048, 4096, 8192)),
            (words.OWN_LIMIT, 0),
        ),
    ),
)

SAMPLING_ROWS = tuple(
    row(f"sampling.{name}")
    for name in (
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "max_tokens",
    )
)
DRAFT_ROW = row(
    "draft.mode",
    (
        (words.AUTOMATIC, "auto"),
        (words.FROM_CHAT, "lookup"),
        (words.FROM_HEAD, "mtp"),
        (words.FROM_BOTH, "both"),
        (words.OFF, "off"),
    ),
)
THINKING_ROW = row("thinking", ((words.OWN_WAY, None), (words.ON, True), (words.OFF, False)))

CHECKPOINT_ROWS = (row("cache.count"), row("cache.interval", least=SHORTEST_INTERVAL, step=GRID))

HOST_ROW = row("cache.host_bytes")
DEVICE_ROW = row("cache.device_bytes")
DISK_ROW = row("cache.disk_bytes")
WEIGHTS_ROW = row("model.weights_bytes")
BUDGET_ROWS = (HOST_ROW, DEVICE_ROW, DISK_ROW, WEIGHTS_ROW)

AHEAD_ROWS = (row("ahead.settle"), row("ahead.read_ahead"))

THEME_ROW = row(
    "window.theme", ((words.SYSTEM, "system"), (words.LIGHT, "light"), (words.DARK, "dark"))
)
TEXT_SIZE_ROW = row(
    "window.text_size", tuple((words.percent_words(size), size) for size in TEXT_SIZES)
)
WINDOW_ROWS = (THEME_ROW, TEXT_SIZE_ROW, row("window.format_messages"))

# What *Restore defaults* of each part acts on: never the model's folder.
PART_ROWS: dict[str, tuple[SettingRow, ...]] = {
    "Model": MODEL_ROWS,
    "Memory": (*CHECKPOINT_ROWS, *BUDGET_ROWS, *AHEAD_ROWS),
    "Writing": (THINKING_ROW, *SAMPLING_ROWS, DRAFT_ROW),
    "Appearance": WINDOW_ROWS,
}
