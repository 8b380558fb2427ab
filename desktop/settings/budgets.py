"""Budgets in bytes: defaults, bounds, costs in words, and sizes as text ('1.5 GB')."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise

from core.api.model_info import ModelInfo
from core.api.params import CacheSettings
from desktop.i18n import tr
from desktop.number_format import NotANumberError, number, parse_number
from desktop.numbers import count_of, format_bytes, format_count

MB = 1000**2
GB = 1000**3
# If these budgets are 0, nothing is saved.
ON_DISK = ("cache.disk_bytes", "model.weights_bytes")
UNITS = {"": GB, "b": 1, "kb": 1000, "mb": MB, "gb": GB, "tb": 1000 * GB}
# Each step is a quarter to a half more than the one before.
STEPS = tuple(
    int(size * unit)
    for unit, sizes in (
        (MB, (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768)),
        (GB, (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768)),
        (1000 * GB, (1, 1.5, 2)),
    )
    for size in sizes
)
assert all(one < other for one, other in pairwise(STEPS))


def _place(key: str) -> str:
    if key == "cache.host_bytes":
        return tr("memory")
    return tr("graphics memory") if key == "cache.device_bytes" else tr("disk")


def automatic(key: str, model: ModelInfo) -> int:
    budgets = {
        "cache.host_bytes": model.host_budget,
        "cache.device_bytes": model.device_budget,
        "cache.disk_bytes": model.disk_budget,
        "model.weights_bytes": model.load.kept_budget,
    }
    return budgets[key]


def smallest(key: str, model: ModelInfo) -> int:
    """The fewest bytes with which the engine works."""
    least = {
        "cache.host_bytes": model.smallest_host_budget,
        "cache.device_bytes": model.smallest_device_budget,
    }
    return least.get(key, 0)


def too_small(key: str, value: object, model: ModelInfo | None) -> str:
    if not key.endswith("_bytes") or model is None or not isinstance(value, int):
        return ""
    least = smallest(key, model)
    if value >= least:
        return ""
    return tr(
        "{size} of {place} is too small: a context of {tokens} tokens alone takes {least}. Allow "
        "at least that, or load the model with a shorter context."
    ).format(
        size=exact_bytes(value),
        place=_place(key),
        tokens=format_count(model.context_length),
        least=at_least(least),
    )


def too_large(key: str, value: object, most: int | None) -> str:
    if most is None or not isinstance(value, int) or value <= most:
        return ""
    return tr("{size} is more than this computer has: {most} of {place}.").format(
        size=exact_bytes(value), most=format_bytes(most), place=_place(key)
    )


def parse_size(text: str) -> int:
    """'1.5 GB', '700 mb'; a bare number is GB. Raises NotANumberError."""
    found = re.fullmatch(r"([^a-zA-Z]*)([a-zA-Z]*)", text.strip())
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise NotANumberError(text)
    size = parse_number(found[1])
    if size < 0:
        raise NotANumberError(text)
    return round(size * unit)


def exact_bytes(size: int) -> str:
    """Without rounding: 1.5 GB, 700 MB, 0 MB."""
    for unit, name in ((1000 * GB, "TB"), (GB, "GB"), (MB, "MB"), (1000, "KB")):
        if size >= unit and size * 1000 % unit == 0:
            return f"{number(size / unit)} {name}"
    return f"{format_count(size)} B" if size else f"{format_count(0)} MB"


def at_least(size: int) -> str:
    """Rounded up, so that allowing what is written is enough."""
    for unit in (1000 * GB, GB, MB, 1000):
        if size >= unit:
            return format_bytes(-(-size * 10 // unit) * unit // 10)
    return f"{format_count(size)} B"


def stepped(size: int, steps: int) -> int:
    place = bisect_right(STEPS, size) - 1 if steps > 0 else bisect_left(STEPS, size)
    return STEPS[max(0, min(len(STEPS) - 1, place + steps))]


def setting_cost(key: str, cache: CacheSettings, model: ModelInfo | None) -> str:
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
    return (
        tr("The cost is known once a model is loaded.")
        if model is None
        else costs[key](cache, model)
    )


def budget_in_force(key: str, cache: CacheSettings, model: ModelInfo) -> int:
    own: int | None = getattr(cache, key.partition(".")[2])
    return automatic(key, model) if own is None else own


def _count_cost(cache: CacheSettings, model: ModelInfo) -> str:
    each = model.checkpoint_bytes
    if not each:
        return _no_checkpoints()
    if not cache.count:
        return tr("Switched off: every turn reads the whole chat again.")
    if model.tail_bytes(model.context_length):
        words = tr("{checkpoints} of one chat: up to {total}.")
    elif cache.count == 1:
        words = tr("{checkpoints}: up to {total}.")
    else:
        words = tr("{checkpoints}: up to {total} ({each} each).")
    words = words.format(
        checkpoints=count_of(cache.count, "checkpoint"),
        total=format_bytes(_bytes_of(cache.count, model)),
        each=format_bytes(each),
    )
    fits = _within(_spare_host(cache, model), cache.count, model)
    if fits == cache.count:
        return words
    room = tr("The memory budget has room for {} of them.").format(format_count(fits))
    return f"{words} {room}"


def _interval_cost(cache: CacheSettings, model: ModelInfo) -> str:
    if not model.checkpoint_bytes:
        return _no_checkpoints()
    if not cache.count:
        return tr("No effect while checkpoints are switched off.")
    spacing = -(-cache.interval // model.grid) * model.grid
    most = format_count(spacing + model.grid - 1)
    return tr("Inside a long message, at most {} tokens are read again.").format(most)


def _host_cost(cache: CacheSettings, model: ModelInfo) -> str:
    key = "cache.host_bytes"
    trouble = too_small(key, cache.host_bytes, model)
    if trouble:
        return trouble
    spare = _spare_host(cache, model)
    holds = _holds(spare, cache.count, model)
    if not model.smallest_host_budget:
        return tr("Room for {}.").format(holds)
    if spare:
        words = tr("Room for a full context of {tokens} tokens ({size}), and also for {more}.")
    else:
        words = tr("Room for a full context of {tokens} tokens ({size}) only.")
    tokens, size = format_count(model.context_length), format_bytes(smallest(key, model))
    return words.format(tokens=tokens, size=size, more=holds)


def _device_cost(cache: CacheSettings, model: ModelInfo) -> str:
    trouble = too_small("cache.device_bytes", cache.device_bytes, model)
    if trouble:
        return trouble
    tokens = model.context_within(budget_in_force("cache.device_bytes", cache, model))
    return tr("Room for {} of context.").format(count_of(tokens, "token"))


def _disk_cost(cache: CacheSettings, model: ModelInfo) -> str:
    size = budget_in_force("cache.disk_bytes", cache, model)
    if not size:
        return tr("Nothing is saved on disk: after a restart, chats are read again.")
    held = _saved(_tokens(size, model))
    if not model.checkpoint_bytes:
        return tr("Room for {}, for all chats together.").format(held)
    checkpoints = count_of(size // model.checkpoint_bytes, "checkpoint")
    words = tr("Room for {held}, or {checkpoints} on disk, for all chats together.")
    return words.format(held=held, checkpoints=checkpoints)


def _weights_cost(_: CacheSettings, model: ModelInfo) -> str:
    kept = model.load.kept_bytes
    if not kept:
        return tr("No quantised weights are saved.")
    return tr("{} saved, for all models.").format(format_bytes(kept))


def _spare_host(cache: CacheSettings, model: ModelInfo) -> int:
    size = budget_in_force("cache.host_bytes", cache, model)
    return max(0, size - model.smallest_host_budget)


def _holds(size: int, count: int, model: ModelInfo) -> str:
    if not model.checkpoint_bytes or not count:
        return _saved(_tokens(size, model))
    rest = size - _bytes_of(count, model)
    if rest < 0:
        checkpoints = count_of(_within(size, count, model), "checkpoint")
        return tr("{} or {}").format(_saved(_tokens(size, model)), checkpoints)
    everything = tr("{} and {}") if count == 1 else tr("all {} and {}")
    return everything.format(count_of(count, "checkpoint"), _saved(_tokens(rest, model)))


def _bytes_of(count: int, model: ModelInfo) -> int:
    """Checkpoints of one chat share the rows of sliding windows."""
    tail = model.tail_bytes(model.context_length)
    rows = min(count * tail, model.context_length * model.window_bytes_per_token)
    return count * (model.checkpoint_bytes - tail) + rows


def _within(size: int, most: int, model: ModelInfo) -> int:
    return next((n for n in range(most, 0, -1) if _bytes_of(n, model) <= size), 0)


def _saved(tokens: int) -> str:
    return tr("{} of saved context").format(count_of(tokens, "token"))


def _no_checkpoints() -> str:
    return tr("This model has no recurrent state, so it needs no checkpoints.")


def _tokens(size: int, model: ModelInfo) -> int:
    return size // max(1, model.bytes_per_token(model.context_length))
