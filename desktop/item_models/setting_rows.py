"""Each setting declared once for people: title, description, choices; bounds come from its type.

Knows the words. Which control edits a row is left to the panel, what a value does to the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from core.api.params import CacheSettings, ModelSettings, SamplingParams
from desktop.store.settings import AheadSettings, AppSettings

Kind = Literal["choice", "integer", "number"]
Choice = tuple[str, object]

SECTIONS: dict[str, type[BaseModel]] = {
    "model": ModelSettings,
    "sampling": SamplingParams,
    "cache": CacheSettings,
    "ahead": AheadSettings,
}


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: `key` is its path in AppSettings; `optional`: empty is the model's own."""

    key: str
    title: str
    description: str
    choices: tuple[Choice, ...] = ()

    @property
    def kind(self) -> Kind:
        if self.choices:
            return "choice"
        return "integer" if self._schema().get("type") == "integer" else "number"

    @property
    def optional(self) -> bool:
        return "anyOf" in self._whole_schema()

    @property
    def minimum(self) -> float:
        schema = self._schema()
        return float(schema.get("minimum", schema.get("exclusiveMinimum", 0)))

    @property
    def maximum(self) -> float:
        schema = self._schema()
        return float(schema.get("maximum", schema.get("exclusiveMaximum", 2**53)))

    def bounds_in_words(self) -> str:
        """What may be typed: 'from 0 to 1', 'at least 16'."""
        schema = self._schema()
        low = f"{self.minimum:,g}"
        low = f"above {low}" if "exclusiveMinimum" in schema else low
        if self.maximum >= 2**53:
            return f"{low} or more"
        return f"{low} to {self.maximum:,g}"

    def value_in(self, settings: AppSettings) -> Any:
        """This setting's value."""
        value: Any = settings
        for name in self.key.split("."):
            value = getattr(value, name)
        return value

    def changed(self, settings: AppSettings, value: object) -> AppSettings:
        """The settings with this value. Raises pydantic's ValidationError when out of bounds."""
        section, _, name = self.key.partition(".")
        if not name:
            return AppSettings.model_validate({**dict(settings), section: value})
        old = getattr(settings, section)
        new = type(old).model_validate({**dict(old), name: value})
        return settings.model_copy(update={section: new})

    def _whole_schema(self) -> dict[str, Any]:
        section, _, name = self.key.partition(".")
        schema: dict[str, Any] = SECTIONS[section].model_json_schema()["properties"][name]
        return schema

    def _schema(self) -> dict[str, Any]:
        whole = self._whole_schema()
        kinds: list[dict[str, Any]] = whole.get("anyOf", [whole])
        return kinds[0]


MODEL_ROWS = (
    SettingRow(
        "model.device",
        "Device",
        "Where the model runs. Automatic takes a graphics card if there is one.",
        (("Automatic", "auto"), ("Processor (CPU)", "cpu"), ("Graphics card (CUDA)", "cuda")),
    ),
    SettingRow(
        "model.precision",
        "Precision",
        "How exactly the model computes. Automatic is bfloat16; float32 is for a CPU only.",
        (("Automatic", "auto"), ("float32", "float32"), ("bfloat16", "bfloat16")),
    ),
    SettingRow(
        "model.context_length",
        "Context length",
        "How many tokens a chat may hold. Empty is the model's own limit, or what memory allows.",
    ),
    SettingRow(
        "model.max_image_tokens",
        "Image detail",
        "The most tokens one picture may cost, never above the model's own limit. "
        "Automatic is 1,024 on a CPU and 4,096 on a graphics card.",
        (
            ("Automatic", None),
            ("256 tokens", 256),
            ("512 tokens", 512),
            ("1,024 tokens", 1024),
            ("2,048 tokens", 2048),
            ("4,096 tokens", 4096),
            ("8,192 tokens", 8192),
            ("Only the model's own limit", 0),
        ),
    ),
)

SAMPLING_ROWS = (
    SettingRow(
        "sampling.temperature",
        "Temperature",
        "How freely words are chosen; 0 always takes the likeliest.",
    ),
    SettingRow("sampling.top_k", "Top k", "Choose among so many of the likeliest; 0 is no limit."),
    SettingRow(
        "sampling.top_p", "Top p", "Choose among the likeliest that share this probability."
    ),
    SettingRow(
        "sampling.min_p", "Min p", "Leave out what is less likely than this share of the best."
    ),
    SettingRow(
        "sampling.repetition_penalty",
        "Repetition penalty",
        "Above 1 makes everything said before less likely.",
    ),
    SettingRow(
        "sampling.presence_penalty",
        "Presence penalty",
        "Above 0 makes what the reply has said less likely.",
    ),
    SettingRow(
        "sampling.frequency_penalty",
        "Frequency penalty",
        "Above 0 makes what the reply says often less likely.",
    ),
    SettingRow(
        "sampling.seed",
        "Seed",
        "The same seed gives the same reply again. Empty draws a fresh one.",
    ),
    SettingRow(
        "sampling.max_tokens",
        "Longest reply",
        "Tokens after which a reply is cut off. Empty means the context length is the limit.",
    ),
)

THINKING_ROW = SettingRow(
    "thinking",
    "Thinking",
    "Whether the model reasons before it answers, where it can do both.",
    (("The model's own way", None), ("On", True), ("Off", False)),
)

CHECKPOINT_ROWS = (
    SettingRow(
        "cache.count",
        "Checkpoints",
        "How many are held in memory, all chats together; 0 holds none.",
    ),
    SettingRow(
        "cache.interval",
        "Interval",
        "Tokens from one checkpoint to the next. Shorter intervals leave less to read again.",
    ),
)

ON_OR_OFF: tuple[Choice, ...] = (("On", True), ("Off", False))

AHEAD_ROWS = (
    SettingRow(
        "ahead.settle",
        "Settle replies",
        "Read a finished reply in idle time, so that the next turn reads only your message.",
        ON_OR_OFF,
    ),
    SettingRow(
        "ahead.read_ahead",
        "Read ahead",
        "Read a dropped picture while you still type, so that Send finds it done.",
        ON_OR_OFF,
    ),
)
