"""Two ways to say where a token is, kept apart by the type checker.

A *token index* counts entries in the cache; a *position* is the number given to RoPE. Under M-RoPE
an image of 1,024 tokens may advance the position by only 32, so neither can stand in for the other:
mixing them is a type error under mypy --strict and a TypeError at run time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class TokenIndex:
    """Order of a token in the cache; the first token has index 0."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError(f"token index {self.value} is negative")

    def __add__(self, num_tokens: int) -> TokenIndex:
        if not isinstance(num_tokens, int):
            return NotImplemented
        return TokenIndex(self.value + num_tokens)

    def __sub__(self, other: TokenIndex) -> int:
        if not isinstance(other, TokenIndex):
            return NotImplemented
        return self.value - other.value

    def __int__(self) -> int:
        return self.value


@dataclass(frozen=True, order=True, slots=True)
class PositionIndex:
    """Number given to RoPE for a token; after an image it is the maximum over the axes plus one."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError(f"position {self.value} is negative")

    def __add__(self, num_positions: int) -> PositionIndex:
        if not isinstance(num_positions, int):
            return NotImplemented
        return PositionIndex(self.value + num_positions)

    def __sub__(self, other: PositionIndex) -> int:
        if not isinstance(other, PositionIndex):
            return NotImplemented
        return self.value - other.value

    def __int__(self) -> int:
        return self.value
