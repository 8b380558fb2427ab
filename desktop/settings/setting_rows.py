"""Every setting, declared once: title, description, choices; bounds come from its type.

The texts are functions, since they are translated when they are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from core.api.limits import FORMAT_TOKENS, THOUGHT_TOKENS
from core.api.params import ModelSettings
from desktop.i18n import tr
from desktop.number_format import number
from desktop.numbers import format_count
from desktop.store.settings import SHORTEST_INTERVAL, TEXT_SIZES, AppSettings

# Checkpoints are at multiples of this, so smaller steps change nothing.
GRID: int = ModelSettings.model_fields["grid"].default
Kind = Literal["choice", "switch", "integer", "number"]
Choice: TypeAlias = tuple[str, object]
# Title, description, and other words by which people look for a setting.
Texts: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting. `key` is its path in AppSettings. `least` and `step`, which values are rounded
    up to, apply where the window offers less than the type allows."""

    key: str
    texts: Callable[[], Texts]
    choices_of: Callable[[], tuple[Choice, ...]] = tuple
    least: int | None = None
    step: int = 1

    @property
    def title(self) -> str:
        return self.texts()[0]

    @property
    def description(self) -> str:
        return self.texts()[1]

    @property
    def searched(self) -> str:
        return " ".join(self.texts())

    @property
    def choices(self) -> tuple[Choice, ...]:
        return self.choices_of()

    @property
    def kind(self) -> Kind:
        if self.choices:
            return "choice"
        if self._schema().get("type") == "boolean":
            return "switch"
        return "integer" if self._schema().get("type") == "integer" else "number"

    @property
    def optional(self) -> bool:
        """True if an empty field stands for the model's own value."""
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
        low = number(self.minimum)
        if self.maximum >= 2**53:
            return tr("{} or more").format(low)
        return tr("{} to {}").format(low, number(self.maximum))

    def value_in(self, settings: AppSettings) -> Any:
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
    """The schema of each setting of a section, cached since making one takes milliseconds."""
    kind = AppSettings.model_fields[section].annotation
    assert isinstance(kind, type) and issubclass(kind, BaseModel)
    found: dict[str, Any] = kind.model_json_schema()["properties"]
    return found


MODEL_ROWS = (
    SettingRow(
        "model.device",
        lambda: (
            tr("Device"),
            tr("The device that runs the model. Automatic uses a graphics card if there is one."),
            tr("GPU CUDA VRAM CPU hardware accelerator offload"),
        ),
        lambda: (
            (tr("Automatic"), "auto"),
            (tr("Processor (CPU)"), "cpu"),
            (tr("Graphics card (CUDA)"), "cuda"),
        ),
    ),
    SettingRow(
        "model.precision",
        lambda: (
            tr("Precision"),
            tr(
                "On a processor Automatic runs a GGUF file as published. It runs other models in "
                "bfloat16 or float32, whichever is faster here, and any in int8 or int4 if memory "
                "is short. int8 takes half, int4 a third of the memory of bfloat16, and both reply "
                "faster; their replies differ."
            ),
            tr("quantisation quantization bits dtype float16 bfloat16 float32 GGUF Q4_K_M"),
        ),
        lambda: (
            (tr("Automatic"), "auto"),
            (tr("As published (GGUF files)"), "published"),
            ("float32", "float32"),
            ("bfloat16", "bfloat16"),
            (tr("int8, half the memory"), "int8"),
            (tr("int4, a third of the memory"), "int4"),
        ),
    ),
    SettingRow(
        "model.context_length",
        lambda: (
            tr("Context length"),
            tr(
                "How many tokens a chat can hold. If empty, the model's own limit, or as many as "
                "memory allows."
            ),
            tr("n_ctx num_ctx window size"),
        ),
    ),
    SettingRow(
        "model.max_image_tokens",
        lambda: (
            tr("Image detail"),
            tr(
                "The most tokens for one picture, within the model's own limit. Automatic is {} "
                "on a CPU and {} on a graphics card."
            ).format(format_count(1024), format_count(4096)),
            tr("resolution vision picture pixels"),
        ),
        lambda: (
            (tr("Automatic"), None),
            *(
                (tr("{} tokens").format(format_count(count)), count)
                for count in (256, 512, 1024, 2048, 4096, 8192)
            ),
            (tr("Only the model's own limit"), 0),
        ),
    ),
)

CHECKPOINT_ROWS = (
    SettingRow(
        "cache.count",
        lambda: (
            tr("Checkpoints"),
            tr(
                "How many saved states are kept in memory for the model to resume from; 0 keeps "
                "none."
            ),
            tr("snapshots KV cache prompt cache"),
        ),
    ),
    SettingRow(
        "cache.interval",
        lambda: (
            tr("Interval"),
            tr(
                "Tokens between checkpoints inside a long message, rounded up to a multiple of "
                "{}. There is always one at the end of a message and at the edges of a picture."
            ).format(GRID),
            tr("snapshots KV cache prompt cache"),
        ),
        least=SHORTEST_INTERVAL,
        step=GRID,
    ),
)
HOST_ROW = SettingRow(
    "cache.host_bytes",
    lambda: (
        tr("Memory"),
        tr("The most memory of this computer for contexts, checkpoints and pictures."),
        tr("RAM KV cache budget limit"),
    ),
)
DEVICE_ROW = SettingRow(
    "cache.device_bytes",
    lambda: (
        tr("Graphics memory"),
        tr("The most memory of the graphics card for the context in use."),
        tr("GPU VRAM KV cache budget limit"),
    ),
)
DISK_ROW = SettingRow(
    "cache.disk_bytes",
    lambda: (
        tr("Disk"),
        tr("The most disk space for saved contexts, from which chats resume after a restart."),
        tr("storage SSD KV cache budget limit"),
    ),
)
WEIGHTS_ROW = SettingRow(
    "model.weights_bytes",
    lambda: (
        tr("Quantised weights"),
        tr(
            "The most disk space for weights quantised to int8 or int4, so that a model loads "
            "faster the next time. Takes effect when you press Load."
        ),
        tr("quantisation quantization storage cache SSD budget limit"),
    ),
)
BUDGET_ROWS = (HOST_ROW, DEVICE_ROW, DISK_ROW, WEIGHTS_ROW)
AHEAD_ROWS = (
    SettingRow(
        "ahead.settle",
        lambda: (
            tr("Read replies in idle time"),
            tr(
                "Finished replies and opened chats are read while the computer is idle, so the "
                "next turn reads only your message. If off, the reply is read with your next "
                "message."
            ),
            tr("prefill background"),
        ),
    ),
    SettingRow(
        "ahead.read_ahead",
        lambda: (
            tr("Read pictures ahead"),
            tr(
                "Pictures in your draft are read while you type; that work is lost if you remove "
                "a picture. If off, the picture is read after you press Send."
            ),
            tr("prefill background images draft"),
        ),
    ),
)

THINKING_ROW = SettingRow(
    "thinking",
    lambda: (
        tr("Thinking"),
        tr("Reason before the reply, if the model can reply with and without reasoning."),
        tr("reasoning chain of thought"),
    ),
    lambda: ((tr("Model default"), None), (tr("On"), True), (tr("Off"), False)),
)
SAMPLING_ROWS = (
    SettingRow(
        "sampling.temperature",
        lambda: (
            tr("Temperature"),
            tr("Higher values make replies more varied; 0 always chooses the most likely token."),
            tr("creativity randomness sampling"),
        ),
    ),
    SettingRow(
        "sampling.top_k",
        lambda: (
            tr("Top k"),
            tr("Choose only among this many of the most likely tokens; 0 for no limit."),
            tr("sampling"),
        ),
    ),
    SettingRow(
        "sampling.top_p",
        lambda: (
            tr("Top p"),
            tr("Choose only among the most likely tokens that together have this probability."),
            tr("nucleus sampling"),
        ),
    ),
    SettingRow(
        "sampling.min_p",
        lambda: (
            tr("Min p"),
            tr("Leave out tokens below this share of the most likely token's probability."),
            tr("sampling"),
        ),
    ),
    SettingRow(
        "sampling.repetition_penalty",
        lambda: (
            tr("Repetition penalty"),
            tr("Above 1, tokens already in the prompt or the reply become less likely."),
            tr("repeat sampling"),
        ),
    ),
    SettingRow(
        "sampling.presence_penalty",
        lambda: (
            tr("Presence penalty"),
            tr("Above 0, tokens already in the reply become less likely."),
            tr("repeat sampling"),
        ),
    ),
    SettingRow(
        "sampling.frequency_penalty",
        lambda: (
            tr("Frequency penalty"),
            tr("Above 0, tokens become less likely the more often they occur in the reply."),
            tr("repeat sampling"),
        ),
    ),
    SettingRow(
        "sampling.seed",
        lambda: (
            tr("Seed"),
            tr("The same seed gives the same reply again. If empty, each reply has a new one."),
            tr("random reproducible deterministic sampling"),
        ),
    ),
    SettingRow(
        "sampling.max_tokens",
        lambda: (
            tr("Longest reply"),
            tr(
                "The reply is cut off after this many tokens. If empty, the limit is the context "
                "length, {} tokens for structured output, and {} for reasoning."
            ).format(format_count(FORMAT_TOKENS), format_count(THOUGHT_TOKENS)),
            tr("max tokens n_predict output limit length"),
        ),
    ),
)
DRAFT_ROW = SettingRow(
    "draft.mode",
    lambda: (
        tr("Speculative decoding"),
        tr(
            "Guesses several tokens and checks them in one step. Same reply, often faster. Guesses "
            "come from earlier text of the chat, or from a part of the model made for it (an MTP "
            "head). With Automatic, it guesses only where that saves time."
        ),
        tr("several tokens at once speculation drafts MTP"),
    ),
    lambda: (
        (tr("Automatic"), "auto"),
        (tr("From the chat"), "lookup"),
        (tr("From the model's MTP head"), "mtp"),
        (tr("Both"), "both"),
        (tr("Off"), "off"),
    ),
)

THEME_ROW = SettingRow(
    "window.theme",
    lambda: (
        tr("Theme"),
        tr("Light, dark, or the same as the system."),
        tr("dark mode night colours colors appearance"),
    ),
    lambda: ((tr("System"), "system"), (tr("Light"), "light"), (tr("Dark"), "dark")),
)
TEXT_SIZE_ROW = SettingRow(
    "window.text_size",
    lambda: (
        tr("Text size"),
        tr("The size of all text in this window."),
        tr("font size zoom scale letters"),
    ),
    lambda: tuple(
        (tr("100 % (default)") if size == 100 else f"{size} %", size) for size in TEXT_SIZES
    ),
)
LANGUAGE_ROW = SettingRow(
    "window.language",
    lambda: (
        tr("Language"),
        tr("The language of this window. Takes effect when Waymark starts again."),
        "language Sprache English Deutsch German",
    ),
    # A language is listed in its own words.
    lambda: ((tr("System"), "system"), ("English", "en"), ("Deutsch", "de")),
)
WINDOW_ROWS = (
    THEME_ROW,
    TEXT_SIZE_ROW,
    LANGUAGE_ROW,
    SettingRow(
        "window.format_messages",
        lambda: (
            tr("Format your messages"),
            tr(
                "Show Markdown in your own messages as in replies. If off, they are shown as typed."
            ),
            "",
        ),
    ),
)

# *Restore defaults* of each part acts on these, never on the model's folder.
PART_ROWS: dict[str, tuple[SettingRow, ...]] = {
    "Model": MODEL_ROWS,
    "Memory": (*CHECKPOINT_ROWS, *BUDGET_ROWS, *AHEAD_ROWS),
    "Writing": (THINKING_ROW, *SAMPLING_ROWS, DRAFT_ROW),
    "Appearance": WINDOW_ROWS,
}


def part_texts(part: str) -> tuple[str, str]:
    """The title of a part of the settings, and a note on what it holds for."""
    return {
        "Model": (tr("Model"), tr("For all chats. Takes effect when you press Load.")),
        "Memory": (tr("Memory"), tr("For all chats together, from the next message on.")),
        "Writing": (tr("Writing"), tr("For all chats, from the next message on.")),
        "Appearance": (tr("Appearance"), tr("For this window. Takes effect at once.")),
    }[part]
