"""Mutants from seeds: of bytes whatever they mean, and of JSON that stays JSON."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

# What a reader of numbers, names and sizes has to bear.
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308,
    float("inf"), float("nan"), "", "x", "\0", "\ud800", "../../etc/passwd", "/dev/zero",
    "a" * 10_000, [], {},
    [[]], [0] * 1000, {"a": 1}, ["a", 1], "<|im_end|>", "int8", "bfloat16",
)  # fmt: skip


def mutated_bytes(data: bytes, seed: int, most: int = 8) -> bytes:
    """`data` after some random changes; never the same as before, except by chance."""
    random_ = random.Random(f"bytes {seed}")
    mutant = bytearray(data)
    for _ in range(random_.randint(1, most)):
        random_.choice(_BYTE_CHANGES)(mutant, random_)
    return bytes(mutant)


def mutated_json(values: Any, seed: int, most: int = 4) -> Any:
    """A deep copy of what JSON gave, some of its values changed, dropped, doubled or nested."""
    random_ = random.Random(f"json {seed}")
    mutant = copy.deepcopy(values)
    for _ in range(random_.randint(1, most)):
        places = list(_places(mutant))
        if not places:
            return random_.choice(ODD_VALUES)
        holder, key = random_.choice(places)
        random_.choice(_JSON_CHANGES)(holder, key, random_)
    return mutant


def mutated_text(values: Any, seed: int) -> bytes:
    """A JSON file of a mutant; one in four is torn as bytes besides."""
    text = json.dumps(mutated_json(values, seed)).encode()
    return mutated_bytes(text, seed) if seed % 4 == 0 else text


def _flip(data: bytearray, random_: random.Random) -> None:
    if data:
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)


def _overwrite(data: bytearray, random_: random.Random) -> None:
    if data:
        at = random_.randrange(len(data))
        size = random_.choice((1, 2, 4, 8, 64))
        value = random_.choice((b"\0", b"\xff", b"\x7f", b"\x80", random_.randbytes(1)))
        data[at : at + size] = value * min(size, len(data) - at)


def _cut(data: bytearray, random_: random.Random) -> None:
    del data[random_.randrange(len(data) + 1) :]


def _drop(data: bytearray, random_: random.Random) -> None:
    at = random_.randrange(len(data) + 1)
    del data[at : at + random_.choice((1, 4, 16, 256))]


def _repeat(data: bytearray, random_: random.Random) -> None:
    at = random_.randrange(len(data) + 1)
    part = bytes(data[at : at + random_.choice((1, 8, 64, 512))])
    data[at:at] = part * random_.choice((1, 2, 50))


def _insert(data: bytearray, random_: random.Random) -> None:
    at = random_.randrange(len(data) + 1)
    data[at:at] = random_.randbytes(random_.choice((1, 4, 32)))


def _swap(data: bytearray, random_: random.Random) -> None:
    if len(data) > 64:
        one, other = random_.randrange(len(data) - 32), random_.randrange(len(data) - 32)
        data[one : one + 32], data[other : other + 32] = (
            data[other : other + 32],
            data[one : one + 32],
        )


_BYTE_CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _flip, _flip, _overwrite, _overwrite, _cut, _drop, _repeat, _insert, _swap,
)  # fmt: skip


def _places(value: Any) -> Any:
    """Every place in a nest of objects and lists: what holds it, and its key."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in list(pairs):
            yield value, key
            yield from _places(inner)


def _replace(holder: Any, key: Any, random_: random.Random) -> None:
    holder[key] = copy.deepcopy(random_.choice(ODD_VALUES))


def _scale(holder: Any, key: Any, random_: random.Random) -> None:
    value = holder[key]
    if isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = value * random_.choice((-1, 0, 2, 3, 1000, 2**20)) + random_.choice((0, 1))
    else:
        _replace(holder, key, random_)


def _delete(holder: Any, key: Any, random_: random.Random) -> None:
    del holder[key]


def _nest(holder: Any, key: Any, random_: random.Random) -> None:
    for _ in range(random_.choice((1, 3, 60))):
        holder[key] = [holder[key]] if random_.random() < 0.5 else {"a": holder[key]}


def _double(holder: Any, key: Any, random_: random.Random) -> None:
    value = holder[key]
    if isinstance(value, list) and len(value) < 1000:
        holder[key] = value * 2
    elif isinstance(value, str) and len(value) < 10_000:
        holder[key] = value * random_.choice((2, 100))
    elif isinstance(holder, dict):
        holder[f"{key}{random_.randrange(9)}"] = copy.deepcopy(value)


_JSON_CHANGES = (_replace, _replace, _scale, _scale, _delete, _nest, _double)
