"""Every setting, declared once: title, description, choices; bounds come from its type.

Rows are made when shown, since their texts are translated then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from core.api.limits import FORMAT_TOKENS, THOUGHT_TOKENS
from core.api.params import ModelSettings
from desktop.i18n import tr
from desktop.number_format import number
from desktop.numbers import format_count
from desktop.store.settings import SHORTEST_INTERVAL, TEXT_SIZES, AppSettings

# Checkpoints are at multiples of this, so smaller steps change nothing.
GRID: int = ModelSettings.model_fields["grid"].default
Kind = Literal["choice", "switch", "integer", "number", "lines"]
Choice: TypeAlias = tuple[str, object]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """`key` is the path in AppSettings; people also search for `words`. The window may offer less
    than the type allows: from `least` on, rounded up to a `step`."""

    key: str
    title: str
    description: str
    words: str
    choices: tuple[Choice, ...] = ()
    least: int | None = None
    step: int = 1

    @property
    def searched(self) -> str:
        return f"{self.title} {self.description} {self.words}"

    @property
    def kind(self) -> Kind:
        if self.choices:
            return "choice"
        if self._schema().get("type") == "boolean":
            return "switch"
        if self._schema().get("type") == "array":
            return "lines"
        return "integer" if self._schema().get("type") == "integer" else "number"

    @property
    def optional(self) -> bool:
        """An empty field stands for the model's own value."""
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
        """Rounded up to a step. Raises ValueError out of bounds."""
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
    kind = AppSettings.model_fields[section].annotation
    assert isinstance(kind, type) and issubclass(kind, BaseModel)
    found: dict[str, Any] = kind.model_json_schema()["properties"]
    return found


class Part(NamedTuple):
    name: str
    title: str
    note: str
    rows: tuple[SettingRow, ...]


def parts() -> tuple[Part, ...]:
    loaded = tr("For all chats. Takes effect when you press Load.")
    together = tr("For all chats together, from the next message on.")
    from_next = tr("For all chats, from the next message on.")
    at_once = tr("For this window. Takes effect at once.")
    return (
        Part("Model", tr("Model"), loaded, _model_rows()),
        Part("Memory", tr("Memory"), together, (*_memory_rows(), *_ahead_rows())),
        Part("Writing", tr("Writing"), from_next, (*_sampling_rows(), *_speed_rows())),
        Part("Background", tr("In the background"), at_once, _background_rows()),
        Part("Appearance", tr("Appearance"), at_once, _window_rows()),
    )


def row_of(key: str) -> SettingRow:
    return next(row for part in parts() for row in part.rows if row.key == key)


def _model_rows() -> tuple[SettingRow, ...]:
    image_tokens = (256, 512, 1024, 2048, 4096, 8192)
    return (
        SettingRow(
            "model.device",
            tr("Device"),
            tr("The device that runs the model. Automatic uses a graphics card if there is one."),
            tr("GPU CUDA VRAM CPU hardware accelerator offload"),
            (
                (tr("Automatic"), "auto"),
                (tr("Processor (CPU)"), "cpu"),
                (tr("Graphics card (CUDA)"), "cuda"),
            ),
        ),
        SettingRow(
            "model.precision",
            tr("Precision"),
            tr(
                "On a processor, Automatic runs GGUF, NVFP4 and MXFP4 files as published, and "
                "other models in bfloat16 or float32, whichever is faster here. If memory is "
                "short, it uses int8 or int4: they take half and a third of the memory of "
                "bfloat16. Both reply faster, and differently."
            ),
            tr("quantisation quantization bits dtype float16 bfloat16 float32 GGUF Q4_K_M"),
            (
                (tr("Automatic"), "auto"),
                (tr("As published (GGUF, NVFP4, MXFP4)"), "published"),
                ("float32", "float32"),
                ("bfloat16", "bfloat16"),
                (tr("int8, half the memory"), "int8"),
                (tr("int4, a third of the memory"), "int4"),
            ),
        ),
        SettingRow(
            "model.context_length",
            tr("Context length"),
            tr(
                "How many tokens a chat can hold. If empty, the model's own limit, or as many as "
                "memory allows."
            ),
            tr("n_ctx num_ctx window size"),
        ),
        SettingRow(
            "model.max_image_tokens",
            tr("Image detail"),
            tr(
                "How many tokens one picture may take, within the model's own limit. "
                "Automatic is {} on a CPU and {} on a graphics card."
            ).format(format_count(1024), format_count(4096)),
            tr("resolution vision picture pixels"),
            (
                (tr("Automatic"), None),
                *((tr("{} tokens").format(format_count(each)), each) for each in image_tokens),
                (tr("Only the model's own limit"), 0),
            ),
        ),
    )


def _memory_rows() -> tuple[SettingRow, ...]:
    return (
        SettingRow(
            "cache.count",
            tr("Checkpoints"),
            tr(
                "How many saved states are kept in memory for the model to resume from; 0 keeps "
                "none."
            ),
            tr("snapshots KV cache prompt cache"),
        ),
        SettingRow(
            "cache.interval",
            tr("Interval"),
            tr(
                "Tokens between checkpoints inside a long message, rounded up to a multiple of "
                "{}. There is always one at the end of a message and at the edges of a picture."
            ).format(GRID),
            tr("snapshots KV cache prompt cache"),
            least=SHORTEST_INTERVAL,
            step=GRID,
        ),
        SettingRow(
            "cache.host_bytes",
            tr("Memory"),
            tr("How much of this computer's memory contexts, checkpoints and pictures may take."),
            tr("RAM KV cache budget limit"),
        ),
        SettingRow(
            "cache.device_bytes",
            tr("Graphics memory"),
            tr("How much graphics memory the context in use may take."),
            tr("GPU VRAM KV cache budget limit"),
        ),
        SettingRow(
            "cache.disk_bytes",
            tr("Disk"),
            tr(
                "How much disk space saved contexts may take. Chats resume from them after a "
                "restart."
            ),
            tr("storage SSD KV cache budget limit"),
        ),
        SettingRow(
            "model.weights_bytes",
            tr("Quantised weights"),
            tr(
                "How much disk space weights quantised to int8 or int4 may take. With them, "
                "a model loads faster the next time. Takes effect when you press Load."
            ),
            tr("quantisation quantization storage cache SSD budget limit"),
        ),
    )


def _ahead_rows() -> tuple[SettingRow, ...]:
    return (
        SettingRow(
            "ahead.settle",
            tr("Read replies in idle time"),
            tr(
                "Finished replies and opened chats are read while the computer is idle, so the "
                "next turn reads only your message. If off, the reply is read with your next "
                "message."
            ),
            tr("prefill background"),
        ),
        SettingRow(
            "ahead.read_ahead",
            tr("Read pictures ahead"),
            tr(
                "Pictures in your draft are read while you type; that work is lost if you remove "
                "a picture. If off, the picture is read after you press Send."
            ),
            tr("prefill background images draft"),
        ),
    )


def _sampling_rows() -> tuple[SettingRow, ...]:
    return (
        SettingRow(
            "thinking",
            tr("Thinking"),
            tr("Reason before the reply, if the model can reply with and without reasoning."),
            tr("reasoning chain of thought"),
            ((tr("Model default"), None), (tr("On"), True), (tr("Off"), False)),
        ),
        SettingRow(
            "sampling.temperature",
            tr("Temperature"),
            tr("Higher values make replies more varied; 0 always chooses the most likely token."),
            tr("creativity randomness sampling"),
        ),
        SettingRow(
            "sampling.top_k",
            tr("Top k"),
            tr("Choose only among this many of the most likely tokens; 0 for no limit."),
            tr("sampling"),
        ),
        SettingRow(
            "sampling.top_p",
            tr("Top p"),
            tr("Choose only among the most likely tokens that together have this probability."),
            tr("nucleus sampling"),
        ),
        SettingRow(
            "sampling.min_p",
            tr("Min p"),
            tr("Leave out tokens below this share of the most likely token's probability."),
            tr("sampling"),
        ),
        SettingRow(
            "sampling.repetition_penalty",
            tr("Repetition penalty"),
            tr("Above 1, tokens already in the prompt or the reply become less likely."),
            tr("repeat sampling"),
        ),
        SettingRow(
            "sampling.presence_penalty",
            tr("Presence penalty"),
            tr("Above 0, tokens already in the reply become less likely."),
            tr("repeat sampling"),
        ),
        SettingRow(
            "sampling.frequency_penalty",
            tr("Frequency penalty"),
            tr("Above 0, tokens become less likely the more often they occur in the reply."),
            tr("repeat sampling"),
        ),
        SettingRow(
            "sampling.seed",
            tr("Seed"),
            tr("The same seed gives the same reply again. If empty, each reply has a new one."),
            tr("random reproducible deterministic sampling"),
        ),
    )


def _speed_rows() -> tuple[SettingRow, ...]:
    return (
        SettingRow(
            "sampling.max_tokens",
            tr("Longest reply"),
            tr(
                "The reply is cut off after this many tokens. If empty, the limit is the context "
                "length, {} tokens for structured output, and {} for reasoning."
            ).format(format_count(FORMAT_TOKENS), format_count(THOUGHT_TOKENS)),
            tr("max tokens n_predict output limit length"),
        ),
        SettingRow(
            "sampling.stop",
            tr("Stop strings"),
            tr(
                "The reply ends before one of these texts, one on each line. Write \\n for a line "
                "break."
            ),
            tr("stop sequences end reply"),
        ),
        SettingRow(
            "draft.mode",
            tr("Speculative decoding"),
            tr(
                "Guesses several tokens and checks them in one step. Same reply, often faster. "
                "Guesses come from earlier text of the chat, or from a part of the model made for "
                "it (an MTP head). With Automatic, it guesses only where that saves time."
            ),
            tr("several tokens at once speculation drafts MTP"),
            (
                (tr("Automatic"), "auto"),
                (tr("From the chat"), "lookup"),
                (tr("From the model's MTP head"), "mtp"),
                (tr("Both"), "both"),
                (tr("Off"), "off"),
            ),
        ),
    )


def _background_rows() -> tuple[SettingRow, ...]:
    return (
        SettingRow(
            "background.titles",
            tr("Titles by the model"),
            tr(
                "After the first reply of a chat, the model writes its title while the computer is "
                "idle. If off, the title is the first words of the chat. A title that you gave "
                "stays."
            ),
            tr("name chats automatic"),
        ),
        SettingRow(
            "background.notify",
            tr("Notify when a reply is finished"),
            tr(
                "If another window is in front, a notification shows the chat's title. Needs an "
                "icon in the tray."
            ),
            tr("notification tray alert"),
        ),
        SettingRow(
            "background.when_closed",
            tr("Closing the window during work"),
            tr(
                "While a reply is written or a model downloaded, Waymark can go on as an icon in "
                "the tray, or stop and quit."
            ),
            tr("tray quit exit minimise minimize"),
            (
                (tr("Ask"), "ask"),
                (tr("Go on in the tray"), "go_on"),
                (tr("Stop and quit"), "stop"),
            ),
        ),
        SettingRow(
            "background.stay_awake",
            tr("Stay awake during work"),
            tr(
                "The computer doesn't go to sleep by itself while a reply is written or a model "
                "downloaded, for twelve hours at most. The screen may still turn off."
            ),
            tr("sleep suspend standby power energy"),
        ),
    )


def _window_rows() -> tuple[SettingRow, ...]:
    default = tr("100 % (default)")
    return (
        SettingRow(
            "window.theme",
            tr("Theme"),
            tr("Light, dark, or the same as the system."),
            tr("dark mode night colours colors appearance"),
            ((tr("System"), "system"), (tr("Light"), "light"), (tr("Dark"), "dark")),
        ),
        SettingRow(
            "window.text_size",
            tr("Text size"),
            tr("The size of all text in this window."),
            tr("font size zoom scale letters"),
            tuple((default if size == 100 else f"{size} %", size) for size in TEXT_SIZES),
        ),
        SettingRow(
            "window.language",
            tr("Language"),
            tr("The language of this window. Takes effect when Waymark starts again."),
            "language Sprache English Deutsch German",
            # A language is listed in its own words.
            ((tr("System"), "system"), ("English", "en"), ("Deutsch", "de")),
        ),
        SettingRow(
            "window.format_messages",
            tr("Format your messages"),
            tr(
                "Show Markdown in your own messages as in replies. If off, they are shown as typed."
            ),
            "",
        ),
    )
