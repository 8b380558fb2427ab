"""What the settings say: their names, what each means, and what is said of a value.

Longer than other files, because it is a list.
"""

from __future__ import annotations

from core.api.params import FORMAT_TOKENS, THOUGHT_TOKENS
from desktop.number_format import number, whole
from desktop.numbers import count_of, format_bytes, format_count

# The parts of the page: the head, and what holds for all that is below it.

PARTS = {
    "Model": ("Model", "For all chats. Takes effect with Load."),
    "Memory": ("Memory", "For all chats together, from the next message on."),
    "Writing": ("Writing", "For all chats, from the next message on."),
    "Appearance": ("Appearance", "Of this window, at once."),
}
SEARCH = "Search settings"
NOTHING_FOUND = "No setting has these words."
RESTORE = "Restore defaults"
RESTORE_ALL = "Restore all defaults"
RESTORE_ALL_NOTE = "The model's folder and your chats stay as they are."
UNDO = "Undo"


def restore_spoken(part: str) -> str:
    """What a screen reader says of a part's button."""
    return f"Restore the defaults of {part}"


def restored_words(part: str) -> str:
    """`part` is '' for all of them."""
    return f"{part}: the defaults are restored." if part else "All defaults are restored."


# Each setting by its key: title and description.

ROWS = {
    "model.device": (
        "Device",
        "Where the model runs. Automatic takes a graphics card if there is one.",
    ),
    "model.precision": (
        "Precision",
        "How exactly the model computes. Automatic is the most exact that fits into memory. int8 "
        "and int4 take a half and a third of the memory of bfloat16 and answer sooner; their "
        "answers differ.",
    ),
    "model.context_length": (
        "Context length",
        "How many tokens a chat may hold. Empty is the model's own limit, or what memory allows.",
    ),
    "model.max_image_tokens": (
        "Image detail",
        "The most tokens one picture may cost, never above the model's own limit. Automatic is "
        f"{whole(1024)} on a CPU and {whole(4096)} on a graphics card.",
    ),
    "cache.count": (
        "Checkpoints",
        "Recurrent states from which reading can resume, held in memory; 0 holds none.",
    ),
    "cache.interval": (
        "Interval",
        "Tokens between checkpoints inside a long message, rounded up to a multiple of {grid}. "
        "Message ends and the edges of pictures always get one.",
    ),
    "cache.host_bytes": (
        "Memory",
        "The most that contexts, checkpoints and pictures may take of this computer's memory.",
    ),
    "cache.device_bytes": (
        "Graphics memory",
        "The most that the context in use may take of the graphics card's memory.",
    ),
    "cache.disk_bytes": (
        "Disk",
        "The most that is kept on disk, so that a chat is resumed after a restart without being "
        "read again.",
    ),
    "model.weights_bytes": (
        "Quantised weights",
        "The most that weights quantised to int8 or int4 take on disk, so that a model loads "
        "faster the next time. Takes effect with Load.",
    ),
    "ahead.settle": (
        "Read replies in idle time",
        "A finished reply, and a chat you open, is read while nothing else is to do, so that the "
        "next turn reads only your message. Costs computing time once for each reply, and gives "
        "way to all you do. Off, the next turn reads the reply first.",
    ),
    "ahead.read_ahead": (
        "Read pictures ahead",
        "A picture of your draft is read while you still type. Costs computing time for nothing "
        "if you take it out again. Off, it is read after Send.",
    ),
    "thinking": ("Thinking", "Whether the model reasons before it answers, where it can do both."),
    "draft.mode": (
        "Several tokens at once",
        "The next words are guessed and checked, several in one step: from what followed the last "
        "ones earlier in the chat, or by a part that some models have for it (an MTP head). The "
        "reply is the same with and without. Automatic guesses where it gains time.",
    ),
    "sampling.temperature": (
        "Temperature",
        "How freely tokens are drawn; 0 always takes the most likely one.",
    ),
    "sampling.top_k": ("Top k", "Draw from so many of the most likely tokens; 0 is no limit."),
    "sampling.top_p": (
        "Top p",
        "Draw from the most likely tokens that together have this probability.",
    ),
    "sampling.min_p": (
        "Min p",
        "Leave out tokens less likely than this share of the most likely one.",
    ),
    "sampling.repetition_penalty": (
        "Repetition penalty",
        "Above 1 makes tokens of the prompt and the reply less likely.",
    ),
    "sampling.presence_penalty": (
        "Presence penalty",
        "Above 0 makes tokens that the reply has less likely.",
    ),
    "sampling.frequency_penalty": (
        "Frequency penalty",
        "Above 0 makes tokens less likely the more often the reply has them.",
    ),
    "sampling.seed": (
        "Seed",
        "The same seed gives the same reply again. Empty draws a new one each time.",
    ),
    "sampling.max_tokens": (
        "Longest reply",
        "Tokens after which a reply is cut off. Empty means the context length is the limit, "
        f"{format_count(FORMAT_TOKENS)} tokens for a reply in a given form, and "
        f"{format_count(THOUGHT_TOKENS)} for a thought.",
    ),
    "window.theme": ("Theme", "Light, dark, or as the system has it."),
    "window.text_size": ("Text size", "Of all text in this window."),
    "window.format_messages": (
        "Format your messages",
        "Show Markdown in your own messages as in replies. Off shows them as you typed them.",
    ),
}

# Other words by which people look for a setting, by its key.
SYNONYMS = {
    "model.device": "GPU CUDA VRAM CPU hardware accelerator offload",
    "model.precision": "quantisation quantization bits dtype float16 bfloat16 float32",
    "model.context_length": "n_ctx num_ctx window size",
    "model.max_image_tokens": "resolution vision picture pixels",
    "model.weights_bytes": "quantisation quantization storage cache SSD",
    "cache.count": "snapshots KV cache prompt cache",
    "cache.interval": "snapshots KV cache prompt cache",
    "cache.host_bytes": "RAM KV cache budget limit",
    "cache.device_bytes": "GPU VRAM KV cache budget limit",
    "cache.disk_bytes": "storage SSD KV cache budget limit",
    "ahead.settle": "prefill background",
    "ahead.read_ahead": "prefill background images draft",
    "thinking": "reasoning chain of thought",
    "draft.mode": "speculative decoding speculation drafts MTP",
    "sampling.temperature": "creativity randomness sampling",
    "sampling.top_k": "sampling",
    "sampling.top_p": "nucleus sampling",
    "sampling.min_p": "sampling",
    "sampling.repetition_penalty": "repeat sampling",
    "sampling.presence_penalty": "repeat sampling",
    "sampling.frequency_penalty": "repeat sampling",
    "sampling.seed": "random reproducible deterministic sampling",
    "sampling.max_tokens": "max tokens n_predict output limit length",
    "window.theme": "dark mode night colours colors appearance",
    "window.text_size": "font size zoom scale letters",
}
# Instructions belong to a chat; the settings lead to them.
INSTRUCTIONS = "Instructions for this chat"
INSTRUCTIONS_SEARCHED = "system prompt persona role instructions"
INSTRUCTIONS_NOTE = "The system prompt. Each chat has its own."

AUTOMATIC = "Automatic"
CPU, CUDA = "Processor (CPU)", "Graphics card (CUDA)"
HALF_MEMORY, THIRD_OF_MEMORY = "int8, half the memory", "int4, a third of the memory"
OWN_LIMIT = "Only the model's own limit"
OWN_WAY, ON, OFF = "The model's own way", "On", "Off"
FROM_CHAT = "From the chat"
FROM_HEAD = "By the model's head"
FROM_BOTH = "Both"
# Beside the facts of a model.
ONE_A_STEP = "With this precision, or on this device, a step gives one token: none is guessed."
SYSTEM, LIGHT, DARK = "System", "Light", "Dark"
OWN_SIZE, NOTHING_ON_DISK = "A size of my own", "Keep nothing on disk"
BUDGET_STAYS = "The budget stays as it was."
ANY_SEED, ANY_LENGTH = "A new one each time", "As long as the context allows"
MODELS_OWN = "The model's own"


def tokens_words(count: int) -> str:
    """A number of tokens to choose."""
    return f"{format_count(count)} tokens"


def percent_words(percent: int) -> str:
    """A size of text to choose."""
    return f"{percent} %" if percent != 100 else "100 % (usual)"


def own_words(value: float) -> str:
    """The model's own value of a setting left empty."""
    return f"{MODELS_OWN}: {number(value)}"


def automatic_words(size: int) -> str:
    """What automatic stands for with the loaded model."""
    return f"{AUTOMATIC}: {format_bytes(size)}"


def budget_spoken(title: str) -> str:
    """What a screen reader says of a budget's choice."""
    return f"{title} budget"


def size_spoken(title: str) -> str:
    """What a screen reader says of a budget's field."""
    return f"{title} budget in GB or MB"


def out_of_range(title: str, given: str, bounds: str) -> str:
    """Why a value is not taken."""
    return f"{given} is out of range: {title} takes {bounds}. It stays as it was."


def too_long(tokens: int, longest: int) -> str:
    """Why a context length is not taken."""
    return (
        f"{format_count(tokens)} is more than this model can hold: its context has at most "
        f"{count_of(longest, 'token')}. It stays as it was."
    )


def not_a_number(title: str, given: str, bounds: str) -> str:
    """Why something typed is not taken."""
    return f"'{given}' is not a number: {title} takes {bounds}. It stays as it was."


def unclear_number(given: str) -> str:
    """Why something typed is not taken that another country may read differently."""
    return (
        f"'{given}' is not clear: numbers are written like {number(1234.5)} here. It stays as it "
        "was."
    )


def not_a_size(given: str) -> str:
    """Why something typed is not taken as a size."""
    return f"'{given}' is not a size. Write it like {number(1.5)} GB or 700 MB."


def rounded_words(value: int, step: int) -> str:
    """What became of a value between two steps."""
    return f"Rounded up to {format_count(value)}, a multiple of {format_count(step)}."


def too_small_words(size: str, place: str, context: int, least: str) -> str:
    """Why a budget is too small for the loaded model."""
    return (
        f"{size} of {place} is too small: a context of {format_count(context)} tokens alone takes "
        f"{least}. Allow at least that, or load the model with a shorter context."
    )


def too_large_words(size: str, place: str, most: int) -> str:
    """Why a budget is too large for this computer."""
    return f"{size} is more than this computer has: {format_bytes(most)} of {place}."


def not_written(why: str) -> str:
    """The file of settings could not be written."""
    return f"The settings could not be written: {why}."


# What a setting costs with the loaded model.

NO_MODEL = "What it costs is known once a model is loaded."
NO_STATE = "This model has no recurrent state, so it needs no checkpoints."
SWITCHED_OFF = "Switched off: what was read is read again, every turn."
WITHOUT_EFFECT = "Without effect while checkpoints are switched off."
NO_DISK = "Nothing is kept on disk: after a restart, chats are read again."
NO_WEIGHTS = "Nothing is kept now."


def count_words(count: int, each: int, fits: int) -> str:
    """What so many checkpoints of `each` bytes take, and how many of them fit into the budget."""
    words = f"{count_of(count, 'checkpoint')}: up to {format_bytes(count * each)}"
    words += f" ({format_bytes(each)} each)." if count > 1 else "."
    if fits < count:
        words += f" The memory budget has room for {format_count(fits)} of them."
    return words


def interval_words(most: int) -> str:
    """What is read again at most inside a message."""
    return f"At most {format_count(most)} tokens are read again inside a long message."


def room_for(what: str) -> str:
    """What a budget holds."""
    return f"Room for {what}."


def full_context_words(length: int, size: int, beside: str) -> str:
    """A budget that holds a full context, and what there is room for beside it."""
    full = f"Room for a full context of {format_count(length)} tokens ({format_bytes(size)})"
    return f"{full}, and beside it for {beside}." if beside else f"{full} only."


def context_words(tokens: int) -> str:
    """What graphics memory holds."""
    return f"Room for {count_of(tokens, 'token')} of context."


def disk_words(tokens: int, checkpoints: int | None) -> str:
    """What the disk holds; None where the model has no checkpoints."""
    held = f"{count_of(tokens, 'token')} kept"
    if checkpoints is not None:
        held += f", or {count_of(checkpoints, 'checkpoint')} on disk"
    return f"Room for {held}, of all chats together."


def kept_words(tokens: int) -> str:
    """Tokens whose keys and values are held."""
    return f"{count_of(tokens, 'token')} kept"


def kept_or_words(tokens: int, checkpoints: int) -> str:
    """Where there is no room for all checkpoints that are allowed."""
    return f"{kept_words(tokens)} or {count_of(checkpoints, 'checkpoint')}"


def all_and_words(checkpoints: int, tokens: int) -> str:
    """Where there is room for all checkpoints that are allowed, and more."""
    return f"all {count_of(checkpoints, 'checkpoint')} and {kept_words(tokens)}"


def weights_words(kept: int) -> str:
    """What quantised weights take on disk."""
    return f"{format_bytes(kept)} kept now, of all models."


# The model's box.

DEMO = "The demo model"
LOAD, CANCEL = "Load", "Cancel"
LOAD_SPOKEN, CANCEL_SPOKEN = "Load the model", "Cancel loading"
FOLDER_SPOKEN, BROWSE = "Model folder", "Choose a model folder"
PRESS_LOAD = "Press Load to work with these settings."
CANCELLED = "Loading was cancelled."
DELETE_KEPT = "Delete what is kept"
DELETE_KEPT_SPOKEN = "Delete the quantised weights kept on disk"
DELETE_KEPT_TIP = "The next load of each model takes longer once."


def model_words(
    family: str, parameters: int, sees: bool, place: str, context: tuple[int, int], each: int
) -> str:
    """What is loaded; `context` is the length in force and the model's own, `each` is bytes."""
    length, own = map(format_count, context)
    return (
        f"{family}, {format_count(parameters)} parameters, "
        f"{'sees pictures' if sees else 'reads text only'}. {place}; context {length} of {own} "
        f"tokens, {format_bytes(each)} for each."
    )
