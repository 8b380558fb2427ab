"""What the cache's settings cost with the loaded model, in words: bytes, and tokens read again."""

from __future__ import annotations

from core.api.events import ModelInfo
from core.api.params import CacheSettings
from desktop.item_models.budgets import automatic, smallest, too_small
from desktop.words.numbers import count_of, format_bytes, format_count

NO_MODEL = "What it costs is known once a model is loaded."
NO_STATE = "This model has no recurrent state, so it needs no checkpoints."


def setting_cost(key: str, cache: CacheSettings, model: ModelInfo | None) -> str:
    """The cost of a setting of what is cached; '' for a setting that has none."""
    words = {
        "cache.count": _count_cost,
        "cache.interval": _interval_cost,
        "cache.host_bytes": _host_cost,
        "cache.device_bytes": _device_cost,
        "cache.disk_bytes": _disk_cost,
        "model.weights_bytes": _weights_cost,
    }
    if key not in words:
        return ""
    return NO_MODEL if model is None else words[key](cache, model)


def budget_in_force(key: str, cache: CacheSettings, model: ModelInfo) -> int:
    """Bytes of a budget: the size set, or what automatic stands for."""
    own: int | None = getattr(cache, key.partition(".")[2])
    return automatic(key, model) if own is None else own


def _count_cost(cache: CacheSettings, model: ModelInfo) -> str:
    if not model.checkpoint_bytes:
        return NO_STATE
    if not cache.count:
        return "Switched off: what was read is read again, every turn."
    whole = format_bytes(cache.count * model.checkpoint_bytes)
    words = f"{count_of(cache.count, 'checkpoint')}: up to {whole}"
    words += f" ({format_bytes(model.checkpoint_bytes)} each)." if cache.count > 1 else "."
    fits = _spare_host(cache, model) // model.checkpoint_bytes
    if fits < cache.count:
        words += f" The memory budget has room for {format_count(fits)} of them."
    return words


def _interval_cost(cache: CacheSettings, model: ModelInfo) -> str:
    if not model.checkpoint_bytes:
        return NO_STATE
    if not cache.count:
        return "Without effect while checkpoints are switched off."
    spacing = -(-cache.interval // model.grid) * model.grid
    most = format_count(spacing + model.grid - 1)
    return f"At most {most} tokens are read again inside a long message."


def _host_cost(cache: CacheSettings, model: ModelInfo) -> str:
    key = "cache.host_bytes"
    trouble = too_small(key, cache.host_bytes, model)
    if trouble:
        return trouble
    spare = _spare_host(cache, model)
    holds = _holds(spare, cache.count, model)
    if not model.smallest_host_budget:
        return f"Room for {holds}."
    full = f"a full context of {format_count(model.context_length)} tokens"
    size = format_bytes(smallest(key, model))
    return f"Room for {full} ({size})" + (f", and beside it for {holds}." if spare else " only.")


def _device_cost(cache: CacheSettings, model: ModelInfo) -> str:
    trouble = too_small("cache.device_bytes", cache.device_bytes, model)
    if trouble:
        return trouble
    size = budget_in_force("cache.device_bytes", cache, model)
    return f"Room for {_tokens(size, model)} of context."


def _disk_cost(cache: CacheSettings, model: ModelInfo) -> str:
    size = budget_in_force("cache.disk_bytes", cache, model)
    if not size:
        return "Nothing is kept on disk: after a restart, chats are read again."
    held = f"{_tokens(size, model)} kept"
    if model.checkpoint_bytes:
        held += f", or {count_of(size // model.checkpoint_bytes, 'checkpoint')} on disk"
    return f"Room for {held}, of all chats together."


def _weights_cost(_: CacheSettings, model: ModelInfo) -> str:
    kept = model.load.kept_bytes
    return f"{format_bytes(kept)} kept now, of all models." if kept else "Nothing is kept now."


def _spare_host(cache: CacheSettings, model: ModelInfo) -> int:
    """Bytes of the memory budget that the largest context leaves to everything else."""
    size = budget_in_force("cache.host_bytes", cache, model)
    return max(0, size - model.smallest_host_budget)


def _holds(size: int, count: int, model: ModelInfo) -> str:
    """What so many bytes hold: never more checkpoints than are allowed."""
    if not model.checkpoint_bytes:
        return f"{_tokens(size, model)} kept"
    rest = size - count * model.checkpoint_bytes
    if rest < 0:
        fits = count_of(size // model.checkpoint_bytes, "checkpoint")
        return f"{_tokens(size, model)} kept or {fits}"
    kept = f"{_tokens(rest, model)} kept"
    return f"all {count_of(count, 'checkpoint')} and {kept}" if count else kept


def _tokens(size: int, model: ModelInfo) -> str:
    return count_of(size // max(1, model.kv_bytes_per_token), "token")
