"""Numbers and events of the engine in plain words. Evaluated tokens are called "read"."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from core.api.model_info import LoadFacts, PrecisionChoice
from core.api.stats import Miss, MissReason, RequestStats, Tier
from desktop.i18n import tr
from desktop.number_format import locale, number

BETWEEN = " \N{MIDDLE DOT} "
LARGEST = 2**63 - 1
_FAMILY_NAMES = {
    "qwen3_5": "Qwen3.5", "qwen3_5_moe": "Qwen3.5 MoE", "qwen3_next": "Qwen3-Next",
    "llama": "Llama", "qwen3": "Qwen3", "qwen3_moe": "Qwen3 MoE", "gemma3": "Gemma 3",
    "falcon_h1": "Falcon-H1", "granitemoehybrid": "Granite 4", "jamba": "Jamba",
    "nemotron_h": "Nemotron-H", "qwen3_vl": "Qwen3-VL", "qwen3_vl_moe": "Qwen3-VL MoE",
    "lfm2": "LFM2", "lfm2_moe": "LFM2-MoE", "lfm2_vl": "LFM2-VL", "lfm3": "LFM3",
    "lfm3_vl": "LFM3-VL", "gemma4": "Gemma 4", "gemma4_unified": "Gemma 4 unified",
    "olmo_hybrid": "OLMo-Hybrid", "ministral3": "Ministral 3", "mistral3": "Mistral 3",
    "granite_swa": "Granite SWA", "granitemoe_swa": "Granite SWA MoE",
    "minicpmv4_6": "MiniCPM-V 4.6", "minicpmv4_7": "MiniCPM-V 4.7",
    "nemotron_h_omni": "Nemotron 3 Nano Omni", "gpt_oss": "gpt-oss", "kimi_linear": "Kimi-Linear",
}  # fmt: skip
Noun: TypeAlias = Literal[
    "token",
    "more token",
    "image",
    "picture",
    "checkpoint",
    "step",
    "chat",
    "deleted chat",
    "message",
    "match",
    "field",
    "item",
    "model",
    "page",
    "section",
    "document",
]


def reply_rows() -> tuple[tuple[str, str, str], ...]:
    """objectName, title, and meaning of each."""
    return (
        ("numbersModel", tr("Model"), tr("The model that wrote the reply.")),
        ("numbersTime", tr("Written"), tr("When the reply began.")),
        ("numbersPromptTokens", tr("Prompt tokens"), tr("Everything before the reply.")),
        ("numbersReused", tr("Reused"), tr("Prompt tokens that did not have to be read.")),
        ("numbersEvaluated", tr("Read"), tr("Prompt tokens read before the reply's first token.")),
        ("numbersImagesReused", tr("Images reused"), tr("Images that were not encoded again.")),
        (
            "numbersImagesEncoded",
            tr("Images encoded"),
            tr("Images encoded for this reply."),
        ),
        ("numbersRestoredFrom", tr("Restored from"), tr("The source of the reused part.")),
        ("numbersFirstToken", tr("First token"), tr("Time from the request to the first token.")),
        ("numbersSpeed", tr("Speed"), tr("Tokens of the reply per second.")),
        ("numbersDrafts", tr("Drafts"), tr("Tokens guessed, then checked several at a time.")),
        ("numbersReplyTokens", tr("Reply tokens"), tr("The length of the reply in tokens.")),
        ("numbersMiss", tr("Why read"), tr("Why tokens were read for this reply.")),
    )


def format_count(count: int) -> str:
    """262,144"""
    # Qt raises for numbers of more than 64 bits, as sums of nonsense in an imported chat.
    return locale().toString(max(-LARGEST, min(count, LARGEST)))


def short_count(parameters: int) -> str:
    """4B, 1.6B, 450M: as in names of models"""
    if parameters >= 999_500_000:
        value, unit, decimals = parameters / 10**9, "B", 1
    else:
        value, unit, decimals = parameters / 10**6, "M", 0 if parameters >= 10**7 else 1
    return f"{value:.{decimals}f}".removesuffix(".0") + unit


def format_bytes(count: int) -> str:
    """149.6 MB"""
    if count < 1000:
        return f"{format_count(count)} B"
    value = float(count)
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        # 999.95 would be written as 1,000.0 of the smaller unit.
        if value < 999.95:
            return f"{number(value, 1)} {unit}"
    return f"{number(value / 1000, 1)} TB"


def format_seconds(seconds: float) -> str:
    """< 0.01 s, 0.04 s, 0.4 s, 12 s, 2 min 5 s"""
    if seconds < 0.005:
        return f"< {number(0.01, 2)} s" if seconds > 0 else f"{number(0)} s"
    if seconds < 0.095:
        return f"{number(seconds, 2)} s"
    if seconds < 9.95:
        return f"{number(seconds, 1)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{format_count(minutes)} min {number(rest)} s" if minutes else f"{number(rest)} s"


def format_speed(tokens_per_second: float) -> str:
    decimals = 0 if tokens_per_second >= 9.95 else 1
    return tr("{speed} tokens/s").format(speed=number(tokens_per_second, decimals))


def describe_load(load: LoadFacts) -> str:
    """Loaded in 2.1 s, including 1.3 s to arrange the weights."""
    if not load.seconds:
        return ""
    if load.from_disk:
        words = tr(
            "Loaded in {}, including {} to arrange the weights; quantised weights came from disk."
        )
    else:
        words = tr("Loaded in {}, including {} to arrange the weights.")
    words = words.format(format_seconds(load.seconds), format_seconds(load.packing_s))
    if load.token_bytes:
        read = tr("Each token of a reply reads {} of weights.")
        words = f"{words} {read.format(format_bytes(load.token_bytes))}"
    if load.slowed_by:
        slower = tr("Replies are slower than they could be: {}.")
        words = f"{words} {slower.format(load.slowed_by)}"
    return words


def family_name(family: str) -> str:
    return _FAMILY_NAMES.get(family.removesuffix("_text"), family)


def precision_name(precision: str) -> str:
    return tr("as published") if precision == "published" else precision


def describe_choice(precision: str, choice: PrecisionChoice | None) -> str:
    """Returns '' if it was not chosen automatically."""
    if choice is None:
        return ""
    larger, needed = "", choice.needed
    if choice.needed <= choice.free and choice.too_large:
        larger = precision_name(choice.too_large[-1].precision)
        needed = choice.too_large[-1].needed
    alike = needed > choice.free and format_bytes(needed) == format_bytes(choice.free)
    if larger and alike:
        words = tr(
            "Automatic: {precision}, because {larger} needs more than the {free} that were free."
        )
    elif larger:
        words = tr(
            "Automatic: {precision}, because {larger} needs {needed} and only {free} were free."
        )
    elif alike:
        words = tr(
            "Automatic: {precision}, because it is the smallest: it needs more than the {free} "
            "that were free."
        )
    elif choice.needed > choice.free:
        words = tr(
            "Automatic: {precision}, because it is the smallest: it needs {needed} and only {free} "
            "were free."
        )
    elif choice.faster_than:
        words = tr(
            "Automatic: {precision}, because it fits and is faster than {slower} on this "
            "processor: it needs {needed} and {free} were free."
        )
    else:
        words = tr(
            "Automatic: {precision}, because it fits: it needs {needed} and {free} were free."
        )
    return words.format(
        precision=precision_name(precision),
        larger=larger,
        slower=choice.faster_than,
        needed=format_bytes(needed),
        free=format_bytes(choice.free),
    )


def count_of(count: int, noun: Noun) -> str:
    """1 image, 2 images"""
    one, many = {
        "token": (tr("{} token"), tr("{} tokens")),
        "more token": (tr("{} more token"), tr("{} more tokens")),
        "image": (tr("{} image"), tr("{} images")),
        "picture": (tr("{} picture"), tr("{} pictures")),
        "checkpoint": (tr("{} checkpoint"), tr("{} checkpoints")),
        "step": (tr("{} step"), tr("{} steps")),
        "chat": (tr("{} chat"), tr("{} chats")),
        "deleted chat": (tr("{} deleted chat"), tr("{} deleted chats")),
        "message": (tr("{} message"), tr("{} messages")),
        "match": (tr("{} match"), tr("{} matches")),
        "field": (tr("{} field"), tr("{} fields")),
        "item": (tr("{} item"), tr("{} items")),
        "model": (tr("{} model"), tr("{} models")),
        "page": (tr("{} page"), tr("{} pages")),
        "section": (tr("{} section"), tr("{} sections")),
        "document": (tr("{} document"), tr("{} documents")),
    }[noun]
    return (one if count == 1 else many).format(format_count(count))


def images_reused(stats: RequestStats, done: int | None = None) -> int:
    """Counts images before token `done`."""
    coming = sum(
        part.kind == "image" and part.source == "evaluated" and part.end > done
        for part in stats.parts
        if done is not None
    )
    return max(0, stats.images_in_prompt - stats.images_encoded - coming)


def context_used(stats: RequestStats) -> int:
    return stats.prompt_tokens + stats.reply_tokens


def reused_percent(stats: RequestStats) -> int:
    """100 only when nothing was read."""
    if not stats.prompt_tokens:
        return 0
    return stats.reused_tokens * 100 // stats.prompt_tokens


def describe_restore(stats: RequestStats) -> str:
    if stats.restored_from is None:
        return tr("nothing reused")
    tiers: dict[Tier, str] = {
        "slab": tr("the context in use"),
        "memory": tr("memory"),
        "disk": tr("disk"),
    }
    words = tiers[stats.restored_from]
    if stats.restored_at is not None:
        token = format_count(stats.restored_at.token)
        words = tr("{place}, up to token {token}").format(place=words, token=token)
    return words


def describe_reading(stats: RequestStats) -> str:
    if stats.miss is not None:
        return describe_miss(stats.miss)
    return tr("all of it was new") if stats.evaluated_tokens else tr("nothing was read")


def describe_miss(miss: Miss) -> str:
    """Messages count from one."""
    if miss.reason == "unsettled":
        words = tr("Read for the first time from message {message} on (token {token}): {reason}")
    elif miss.message is None:
        words = tr("Read again from the beginning (token {token}): {reason}")
    else:
        words = tr("Read again from message {message} on (token {token}): {reason}")
    if miss.reason == "diverged" and miss.token == 0:
        reason = tr(
            "The beginning of the chat has changed: its instructions, its first message, or turns "
            "left out."
        )
    else:
        reason = _reasons()[miss.reason]
    message = 1 + (miss.message or 0)
    return words.format(message=message, token=format_count(miss.token), reason=reason)


def _reasons() -> dict[MissReason, str]:
    return {
        "cold": tr("It has not been read since the model was loaded, and is not kept on disk."),
        "diverged": tr("The text has changed from there on."),
        "tools_changed": tr("The list of tools that it begins with has changed."),
        "unsettled": tr("This reply has not been read in idle time yet."),
        "evicted": tr(
            "It was evicted to make room; more checkpoints or a larger memory budget keep more."
        ),
        "off": tr("Checkpoints are switched off in the settings."),
        "restore_failed": tr("The saved state could not be restored."),
        "faster_to_read": tr("Reading it was faster here than restoring it."),
    }


def picture_caption(
    size: tuple[int, int], resized: tuple[int, int] | None, tokens: int | None
) -> str:
    words = _size(size)
    if resized is not None and resized != size:
        words += f" \N{RIGHTWARDS ARROW} {_size(resized)}"
    if tokens is not None:
        words += f", {count_of(tokens, 'token')}"
    return words


def numbers_text(stats: RequestStats) -> str:
    prompt, report = format_count(stats.prompt_tokens), stats.remote
    words = [tr("{} of {} tokens reused").format(format_count(stats.reused_tokens), prompt)]
    words.append(tr("{} read").format(format_count(stats.evaluated_tokens)))
    if report is not None:
        words = [tr("on {}").format(report.host)]
        if report.cached:
            cached = format_count(stats.reused_tokens)
            words.append(tr("{} of {} tokens cached there").format(cached, prompt))
        elif report.prompt:
            words.append(tr("{} tokens sent").format(prompt))
    if images_reused(stats):
        words.append(tr("{} reused").format(count_of(images_reused(stats), "image")))
    if stats.images_encoded:
        words.append(tr("{} encoded").format(count_of(stats.images_encoded, "image")))
    if stats.ttft_s is not None:
        words.append(tr("first token {}").format(format_seconds(stats.ttft_s)))
    if speed := speed_text(stats):
        words.append(speed)
    return BETWEEN.join(words)


def first_token_text(stats: RequestStats) -> str:
    return "" if stats.ttft_s is None else format_seconds(stats.ttft_s)


def speed_text(stats: RequestStats) -> str:
    return "" if stats.decode_tokens_per_s is None else format_speed(stats.decode_tokens_per_s)


def format_moment(moment: float) -> str:
    """24 November 2026, 14:32; '' if unknown."""
    if not moment:
        return ""
    day = datetime.fromtimestamp(moment)
    return f"{day.day} {day:%B %Y, %H:%M}"


def tokens_per_step(stats: RequestStats) -> str:
    counts = stats.draft
    if counts is None or not counts.drafted or not counts.cycles:
        return ""
    each = (counts.cycles + counts.accepted) / counts.cycles
    return tr("{} tokens a step").format(number(each, 1))


def describe_drafts(stats: RequestStats) -> str:
    counts, per_step = stats.draft, tokens_per_step(stats)
    if counts is None or not per_step:
        return ""
    accepted, drafted = format_count(counts.accepted), format_count(counts.drafted)
    words = [tr("{} of {} guesses right").format(accepted, drafted), per_step]
    steps = count_of(counts.cycles, "step")
    words.append(tr("{}, {} without a draft").format(steps, format_count(counts.empty)))
    if counts.rejected:
        words.append(tr("{} with no right guess").format(format_count(counts.rejected)))
    return BETWEEN.join(words)


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"
