"""What the cache's settings cost with the loaded model: bytes, and tokens read again."""

from __future__ import annotations

from core.api.model_info import ModelInfo
from core.api.params import CacheSettings
from desktop.settings.budgets import automatic, smallest, too_small
from desktop.words import settings as words


def setting_cost(key: str, cache: CacheSettings, model: ModelInfo | None) -> str:
    """The cost of a setting of what is cached; '' for a setting that has none."""
    costs = {
        "cache.count": _count_cost,
        "cache.interval": _interval_cost,
        "cache.host_bytes": _host_cost,
        "cache.device_bytes": _device_cost,
        "cache.disk_bytes": _disk_cost,
        "model.weights_bytes": _weights_cost,
    }
    if key not in costs:
        return ""
    return words.NO_MODEL if model is None else costs[key](cache, model)


def budget_in_force(key: str, cache: CacheSettings, model: ModelInfo) -> int:
    """Bytes of a budget: the size set, or what automatic stands for."""
    own: int | None = getattr(cache, key.partition(".")[2])
    return automatic(key, model) if own is None else own


def _count_cost(cache: CacheSettings, model: ModelInfo) -> str:
    if not model.checkpoint_bytes:
        return words.NO_STATE
    if not cache.count:
        return words.SWITCHED_OFF
    fits = _spare_host(cache, model) // model.checkpoint_bytes
    return words.count_words(cache.count, model.checkpoint_bytes, fits)


def _interval_cost(cache: CacheSettings, model: ModelInfo) -> str:
    if not model.checkpoint_bytes:
        return words.NO_STATE
    if not cache.count:
        return words.WITHOUT_EFFECT
    spacing = -(-cache.interval // model.grid) * model.grid
    return words.interval_words(spacing + model.grid - 1)


def _host_cost(cache: CacheSettings, model: ModelInfo) -> str:
    key = "cache.host_bytes"
    trouble = too_small(key, cache.host_bytes, model)
    if trouble:
        return trouble
    spare = _spare_host(cache, model)
    holds = _holds(spare, cache.count, model)
    if not model.smallest_host_budget:
        return words.room_for(holds)
    beside = holds if spare else ""
    return words.full_context_words(model.context_length, smallest(key, model), beside)


def _device_cost(cache: CacheSettings, model: ModelInfo) -> str:
    trouble = too_small("cache.device_bytes", cache.device_bytes, model)
    if trouble:
        return trouble
    return words.context_words(_tokens(budget_in_force("cache.device_bytes", cache, model), model))


def _disk_cost(cache: CacheSettings, model: ModelInfo) -> str:
    size = budget_in_force("cache.disk_bytes", cache, model)
    if not size:
        return words.NO_DISK
    each = model.checkpoint_bytes
    return words.disk_words(_tokens(size, model), size // each if each else None)


def _weights_cost(_: CacheSettings, model: ModelInfo) -> str:
    kept = model.load.kept_bytes
    return words.weights_words(kept) if kept else words.NO_WEIGHTS


def _spare_host(cache: CacheSettings, model: ModelInfo) -> int:
    """Bytes of the memory budget that the largest context leaves to everything else."""
    size = budget_in_force("cache.host_bytes", cache, model)
    return max(0, size - model.smallest_host_budget)


def _holds(size: int, count: int, model: ModelInfo) -> str:
    """What so many bytes hold: never more checkpoints than are allowed."""
    if not model.checkpoint_bytes or not count:
        return words.kept_words(_tokens(size, model))
    rest = size - count * model.checkpoint_bytes
    if rest < 0:
        return words.kept_or_words(_tokens(size, model), size // model.checkpoint_bytes)
    return words.all_and_words(count, _tokens(rest, model))


def _tokens(size: int, model: ModelInfo) -> int:
    return size // max(1, model.kv_bytes_per_token)
