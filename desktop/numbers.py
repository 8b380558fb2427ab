"""Numbers and events of the engine in plain words.

Knows the glossary: reused, evaluated (said "read"), read again, checkpoint. Pure functions of what
the engine reported: no widgets, no state. Leaves where the words stand to the views.
"""

from __future__ import annotations

from datetime import datetime

from core.api.model_info import LoadFacts, PrecisionChoice
from core.api.stats import Miss, MissReason, RequestStats, Tier
from desktop.number_format import number, whole

BETWEEN = " \N{MIDDLE DOT} "

# Under a reply: each row's objectName, the word beside its value, and what the value means.
ROWS = (
    ("numbersModel", "Model", "The model that wrote the reply."),
    ("numbersTime", "Written", "When the reply was begun."),
    ("numbersPromptTokens", "Prompt tokens", "Everything the reply was written after."),
    ("numbersReused", "Reused", "Prompt tokens that did not have to be read."),
    ("numbersEvaluated", "Read", "Prompt tokens read before the reply's first token."),
    ("numbersImagesReused", "Images reused", "Images that were not looked at again."),
    ("numbersImagesEncoded", "Images encoded", "Images that went through the vision tower."),
    ("numbersRestoredFrom", "Restored from", "Where the reused part was held, and its end."),
    ("numbersFirstToken", "First token", "Time from the request to the first token."),
    ("numbersSpeed", "Speed", "Tokens of the reply written in a second."),
    ("numbersDrafts", "Drafts", "Tokens that were guessed and checked several in a step."),
    ("numbersReplyTokens", "Reply tokens", "How many tokens the reply is long."),
    ("numbersMiss", "Why read", "Why tokens were read for this reply."),
)
SHOW_ALL, HIDE_ALL = "Show all numbers of this reply", "Hide all numbers of this reply"
NOTHING_AGAIN = "all of it was new"
NOTHING_READ = "nothing was read"

# Completed by "Read again from message 3 on (token 1,204): ..."
_REASONS: dict[MissReason, str] = {
    "cold": "nothing of it had been read since the model was loaded, nor kept on disk.",
    "diverged": "from there on the text is not what was read before.",
    "unsettled": "this reply had not been prefilled in idle time yet.",
    "evicted": "it was evicted to make room; more checkpoints or a larger memory budget keep more.",
    "off": "checkpoints are switched off in the settings.",
    "restore_failed": "what was kept could not be restored, so it was read to be safe.",
    "faster_to_read": "reading it was quicker here than restoring it would have been.",
}
_OTHER_BEGINNING = (
    "the conversation begins otherwise now: its oldest turns are left out, or its instructions or "
    "first message are others."
)
_TIERS: dict[Tier, str] = {"slab": "the context in use", "memory": "memory", "disk": "disk"}


def format_count(count: int) -> str:
    """A whole number with its thousands grouped: 262,144."""
    return whole(count)


def format_bytes(count: int) -> str:
    """Bytes in the largest unit (of 1,000) that leaves a whole part: 149.6 MB."""
    if count < 1000:
        return f"{whole(count)} B"
    value = float(count)
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        # 999.95 would be written as 1,000.0 of the smaller unit.
        if value < 999.95:
            return f"{number(value, 1)} {unit}"
    return f"{number(value / 1000, 1)} TB"


def format_seconds(seconds: float) -> str:
    """A duration as short as it can be said: 0.04 s, 0.4 s, 12 s, 2 min 5 s."""
    if seconds < 0.095:
        return f"{number(seconds, 2)} s"
    if seconds < 9.95:
        return f"{number(seconds, 1)} s"
    rounded = round(seconds)
    minutes, rest = divmod(rounded, 60)
    return f"{whole(minutes)} min {whole(rest)} s" if minutes else f"{whole(rest)} s"


def format_speed(tokens_per_second: float) -> str:
    """Tokens per second: whole from ten on, with one decimal below."""
    decimals = 0 if tokens_per_second >= 9.95 else 1
    return f"{number(tokens_per_second, decimals)} tokens/s"


def describe_load(load: LoadFacts) -> str:
    """How long a load took and what it was spared: 'Loaded in 2.1 s, 1.3 s of it packing.'"""
    if not load.seconds:
        return ""
    seconds, packing = format_seconds(load.seconds), format_seconds(load.packing_s)
    words = f"Loaded in {seconds}, {packing} of it packing"
    words += "; quantised weights came from disk." if load.from_disk else "."
    if load.slowed_by:
        words += f" Replies are slower than they could be: {load.slowed_by}."
    return words


def describe_choice(precision: str, choice: PrecisionChoice | None) -> str:
    """Why a precision was chosen automatically; nothing where it was not."""
    if choice is None:
        return ""
    if choice.needed > choice.free:
        why = f"it is the smallest: it needs {_against(choice.needed, choice.free)}"
    elif choice.too_large:
        next_one = choice.too_large[-1]
        why = f"{next_one.precision} would need {_against(next_one.needed, choice.free)}"
    else:
        fast = choice.faster_than
        speed = f" and is faster than {fast} on this processor" if fast else ""
        why = f"it fits{speed}: it needs {_against(choice.needed, choice.free)}"
    return f"Automatic: {precision}, because {why}."


def _against(needed: int, free: int) -> str:
    """What is needed beside what was free; never equal where it is more."""
    need, had = format_bytes(needed), format_bytes(free)
    if need == had and needed > free:
        return f"more than the {had} that were free"
    return f"{need} and {had} were free"


def count_of(count: int, noun: str) -> str:
    """A count with its noun: 1 image, 2 images."""
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def images_reused(stats: RequestStats, done: int | None = None) -> int:
    """How many images of the prompt did not go through the vision tower again.

    With `done` tokens read so far, what comes of the images after them is not known yet.
    """
    coming = sum(
        part.kind == "image" and part.source == "evaluated" and part.end > done
        for part in stats.parts
        if done is not None
    )
    return max(0, stats.images_in_prompt - stats.images_encoded - coming)


def context_used(stats: RequestStats) -> int:
    """Tokens the context holds: the prompt and the reply so far."""
    return stats.prompt_tokens + stats.reply_tokens


def reused_percent(stats: RequestStats) -> int:
    """Reused share of the prompt in whole percent; 100 only when nothing was read."""
    if not stats.prompt_tokens:
        return 0
    return stats.reused_tokens * 100 // stats.prompt_tokens


def describe_restore(stats: RequestStats) -> str:
    """Where the reused part was held, and the token at which reading went on."""
    if stats.restored_from is None:
        return "nothing reused"
    words = _TIERS[stats.restored_from]
    if stats.restored_at is not None:
        words += f", up to token {format_count(stats.restored_at.token)}"
    return words


def describe_reading(stats: RequestStats) -> str:
    """Why tokens were read for a reply."""
    if stats.miss is not None:
        return describe_miss(stats.miss)
    return NOTHING_AGAIN if stats.evaluated_tokens else NOTHING_READ


def describe_miss(miss: Miss) -> str:
    """Why something was read again, and from where on; messages count from one."""
    where = "the beginning" if miss.message is None else f"message {miss.message + 1}"
    read = "Read for the first time" if miss.reason == "unsettled" else "Read again"
    place = f"{read} from {where} on (token {format_count(miss.token)})"
    if miss.reason == "diverged" and miss.token == 0:
        return f"{place}: {_OTHER_BEGINNING}"
    return f"{place}: {_REASONS[miss.reason]}"


def picture_caption(
    size: tuple[int, int], resized: tuple[int, int] | None, tokens: int | None
) -> str:
    """What becomes of a picture: its size, the size the model sees, and its cost in tokens."""
    words = _size(size)
    if resized is not None and resized != size:
        words += f" \N{RIGHTWARDS ARROW} {_size(resized)}"
    if tokens is not None:
        words += f", {count_of(tokens, 'token')}"
    return words


def numbers_text(stats: RequestStats) -> str:
    """One line under a reply: what was reused, what was read, and how fast."""
    prompt = format_count(stats.prompt_tokens)
    words = [f"{format_count(stats.reused_tokens)} of {prompt} tokens reused"]
    words.append(f"{format_count(stats.evaluated_tokens)} read")
    if images_reused(stats):
        words.append(f"{count_of(images_reused(stats), 'image')} reused")
    if stats.images_encoded:
        words.append(f"{count_of(stats.images_encoded, 'image')} encoded")
    if stats.ttft_s is not None:
        words.append(f"first token {format_seconds(stats.ttft_s)}")
    if stats.decode_tokens_per_s is not None:
        words.append(format_speed(stats.decode_tokens_per_s))
    return BETWEEN.join(words)


def format_moment(moment: float) -> str:
    """A moment by the user's clock: 24 November 2026, 14:32; '' where it is not known."""
    if not moment:
        return ""
    day = datetime.fromtimestamp(moment)
    return f"{day.day} {day:%B %Y, %H:%M}"


def tokens_per_step(stats: RequestStats) -> str:
    """How many tokens a step of the reply gave; empty where nothing was drafted."""
    counts = stats.draft
    if counts is None or not counts.drafted:
        return ""
    return f"{number((counts.cycles + counts.accepted) / counts.cycles, 1)} tokens a step"


def describe_drafts(stats: RequestStats) -> str:
    """What became of a reply's drafts; empty where nothing was drafted."""
    counts = stats.draft
    if counts is None or not counts.drafted:
        return ""
    accepted, drafted = format_count(counts.accepted), format_count(counts.drafted)
    words = [f"{accepted} of {drafted} right", tokens_per_step(stats)]
    words.append(f"{count_of(counts.cycles, 'step')}, {format_count(counts.empty)} without a draft")
    if counts.rejected:
        words.append(f"{format_count(counts.rejected)} with none right")
    return BETWEEN.join(words)


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"
