"""The byte budgets for people: what automatic stands for, what is too small, and how sizes step.

Knows sizes as a person writes them ('1.5 GB'). What a budget holds is said in `setting_costs`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise

from core.api.model_info import ModelInfo
from desktop.number_format import (
    NotANumberError,
    UnclearNumberError,
    number,
    parse_number,
    whole,
)
from desktop.numbers import format_bytes
from desktop.words import settings as words

MB = 1000**2
GB = 1000**3
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
# How the place of a budget is called where a size doesn't fit it.
_PLACES = {
    "cache.host_bytes": "memory",
    "cache.device_bytes": "graphics memory",
    "cache.disk_bytes": "disk",
    "model.weights_bytes": "disk",
}


def automatic(key: str, model: ModelInfo) -> int:
    """The bytes that a budget left alone stands for with this model."""
    budgets = {
        "cache.host_bytes": model.host_budget,
        "cache.device_bytes": model.device_budget,
        "cache.disk_bytes": model.disk_budget,
        "model.weights_bytes": model.load.kept_budget,
    }
    return budgets[key]


def smallest(key: str, model: ModelInfo) -> int:
    """The bytes below which the engine refuses to work; 0 where nothing is too small."""
    least = {
        "cache.host_bytes": model.smallest_host_budget,
        "cache.device_bytes": model.smallest_device_budget,
    }
    return least.get(key, 0)


def too_small(key: str, value: object, model: ModelInfo | None) -> str:
    """Why a budget of `value` bytes is too small for the loaded model, with numbers; '' if not."""
    if key not in _PLACES or model is None or not isinstance(value, int):
        return ""
    least = smallest(key, model)
    if value >= least:
        return ""
    return words.too_small_words(
        exact_bytes(value), _PLACES[key], model.context_length, at_least(least)
    )


def too_large(key: str, value: object, most: int | None) -> str:
    """Why a budget of `value` bytes is more than there is here, with numbers; '' if not."""
    if most is None or not isinstance(value, int) or value <= most:
        return ""
    return words.too_large_words(exact_bytes(value), _PLACES[key], most)


def parse_size(text: str) -> int | None:
    """Bytes of a size as it is written: '1.5 GB', '700 mb'; a bare number is GB. None: no size.

    Raises UnclearNumberError for a number that this locale doesn't write so.
    """
    found = re.fullmatch(r"([^a-zA-Z]*)([a-zA-Z]*)", text.strip())
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        return None
    try:
        size = parse_number(found[1])
    except UnclearNumberError:
        raise
    except NotANumberError:
        return None
    return round(size * unit) if size >= 0 else None


def exact_bytes(size: int) -> str:
    """A size as short as it can be written without changing it: 1.5 GB, 700 MB, 0 MB."""
    for unit, name in ((1000 * GB, "TB"), (GB, "GB"), (MB, "MB"), (1000, "KB")):
        if size >= unit and size * 1000 % unit == 0:
            return f"{number(size / unit)} {name}"
    return f"{whole(size)} B" if size else f"{whole(0)} MB"


def at_least(size: int) -> str:
    """A size rounded up, so that allowing what is written is enough."""
    for unit in (1000 * GB, GB, MB, 1000):
        if size >= unit:
            return format_bytes(-(-size * 10 // unit) * unit // 10)
    return f"{whole(size)} B"


def stepped(size: int, steps: int) -> int:
    """The size so many steps up or down from `size`."""
    place = bisect_right(STEPS, size) - 1 if steps > 0 else bisect_left(STEPS, size)
    return STEPS[max(0, min(len(STEPS) - 1, place + steps))]
