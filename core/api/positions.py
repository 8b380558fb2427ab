"""Token indices and RoPE positions, kept apart by the type checker and at run time.

Under M-RoPE an image of 1,024 tokens may advance the position by only 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True, order=True, slots=True)
class _Index:
    value: int
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError(f"{self.name} {self.value} is negative")

    def __add__(self, number: int) -> Self:
        if not isinstance(number, int):
            return NotImplemented
        return type(self)(self.value + number)

    def __sub__(self, other: Self) -> int:
        if type(other) is not type(self):
            return NotImplemented
        return self.value - other.value

    def __int__(self) -> int:
        return self.value


@dataclass(frozen=True, order=True, slots=True)
class TokenIndex(_Index):
    """A token's place in the cache."""

    name = "token index"


@dataclass(frozen=True, order=True, slots=True)
class PositionIndex(_Index):
    """A RoPE number; after an image, the maximum over the axes plus one."""

    name = "position"
