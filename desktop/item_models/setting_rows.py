"""Each setting declared once for people: title, description, choices; bounds come from its type.

Knows the words. Which control edits a row is left to the panel, what a value does to the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from core.api.params import CacheSettings, ModelSettings, SamplingParams
from desktop.store.settings import SHORTEST_INTERVAL, AheadSettings, AppSettings

# A checkpoint can only lie on the grid, so steps smaller than that change nothing.
GRID: int = ModelSettings.model_fields["grid"].default
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
    # Where the window offers less than the type allows: the least, and what values are rounded to.
    least: int | None = None
    step: int = 1

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
        lowest = self._schema().get("minimum", 0)
        return float(lowest if self.least is None else self.least)

    @property
    def maximum(self) -> float:
        schema = self._schema()
        return float(schema.get("maximum", schema.get("exclusiveMaximum", 2**53)))

    def bounds_in_words(self) -> str:
        """What may be typed: 'from 0 to 1', 'at least 16'."""
        low = f"{self.minimum:,g}"
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
        """The settings with this value, rounded up to a step. Raises ValueError out of bounds."""
        if isinstance(value, int) and self.step > 1:
            value = -(-value // self.step) * self.step
        if self.least is not None and isinstance(value, int) and value < self.least:
            raise ValueError(f"{value} is less than {self.least}")
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
        "How exactly the model computes. Automatic is the most exact that fits into memory. int8 "
        "and int4 take a half and a third of the memory of bfloat16 and answer sooner; their "
        "answers differ.",
        (
            ("Automatic", "auto"),
            ("float32", "float32"),
            ("bfloat16", "bfloat16"),
            ("int8, half the memory", "int8"),
            ("int4, a third of the memory", "int4"),
        ),
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
        "States to go on from, held in memory for all chats together; 0 holds none.",
    ),
    SettingRow(
        "cache.interval",
        "Interval",
        "Tokens between checkpoints inside a long message. Message ends and the edges of pictures "
        "always get one.",
        least=SHORTEST_INTERVAL,
        step=GRID,
    ),
)

HOST_ROW = SettingRow(
    "cache.host_bytes",
    "Memory",
    "The most that contexts, checkpoints and pictures may take of this computer's memory.",
)
DEVICE_ROW = SettingRow(
    "cache.device_bytes",
    "Graphics memory",
    "The most that the context in use may take of the graphics card's memory.",
)
DISK_ROW = SettingRow(
    "cache.disk_bytes",
    "Disk",
    "The most that is kept on disk, so that a chat goes on after a restart without being read.",
)
WEIGHTS_ROW = SettingRow(
    "model.weights_bytes",
    "Quantised weights",
    "The most that weights quantised to int8 or int4 take on disk, so that a model loads quicker "
    "the next time. Takes effect with Load.",
)
BUDGET_ROWS = (HOST_ROW, DEVICE_ROW, DISK_ROW, WEIGHTS_ROW)

ON_OR_OFF: tuple[Choice, ...] = (("On", True), ("Off", False))

AHEAD_ROWS = (
    SettingRow(
        "ahead.settle",
        "Settle replies",
        "Read a finished reply, and a chat you open, in idle time, so that the next turn reads "
        "only your message. Costs computing time once for each reply, and gives way to all you do. "
        "Off, the next turn reads the reply first.",
        ON_OR_OFF,
    ),
    SettingRow(
        "ahead.read_ahead",
        "Read ahead",
        "Read a dropped picture while you still type, so that Send finds it done. Costs computing "
        "time for nothing if you take it out again. Off, it is read after Send.",
        ON_OR_OFF,
    ),
)
