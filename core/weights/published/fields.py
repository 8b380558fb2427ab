"""Typed reading of `quantization_config`; errors name the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError

# Released models list some hundred unquantised modules, and each is compared with every layer.
_MAX_NAMES = 20_000


class Fields:
    """An object of config.json at `path`; null counts as absent. Methods take the value under the
    first of `keys` that is there, and raise BrokenConfigError for another type."""

    def __init__(self, values: object, path: str) -> None:
        if not isinstance(values, Mapping):
            raise BrokenConfigError(f'"{path}" in config.json is not an object.')
        self.path = path
        self._values = {key: value for key, value in values.items() if value is not None}

    def whole(self, *keys: str, default: int | None = None) -> int:
        key, value = self._first(keys, default)
        # type() and not isinstance(): JSON's true would pass as the number 1.
        if type(value) is not int:
            raise self._wrong(key, "a whole number")
        return value

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        _, value = self._first((key,), default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def word(self, *keys: str, default: str | None = None) -> str:
        """A text in lower case."""
        key, value = self._first(keys, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value.lower()

    def names(self, *keys: str) -> tuple[str, ...]:
        """A list of texts; empty if all keys are absent."""
        key, value = self._first(keys, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._wrong(key, "a list of texts")
        if len(value) > _MAX_NAMES:
            raise BrokenConfigError(f'"{self.path}.{key}" is too long to be true.')
        return tuple(value)

    def section(self, key: str) -> Fields:
        return Fields(self._values.get(key, {}), f"{self.path}.{key}")

    def sections(self) -> Iterator[tuple[str, Fields]]:
        if len(self._values) > _MAX_NAMES:
            raise BrokenConfigError(f'"{self.path}" is too long to be true.')
        for key, value in self._values.items():
            yield key, Fields(value, f"{self.path}.{key}")

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def expect(self, known: tuple[object, ...], *keys: str, default: Any = None) -> None:
        """Raise UnsupportedQuantisationError unless the value is one of `known`."""
        key, value = self._first(keys, default)
        if isinstance(value, str):
            value = value.lower()
        # JSON's true equals 1 in Python.
        if not any(type(value) is type(each) and value == each for each in known):
            raise self.unknown(key, value)

    def unknown(self, key: str, value: object) -> UnsupportedQuantisationError:
        return UnsupportedQuantisationError(
            f"Waymark can't read weights with {self.path}.{key} = {str(value)[:80]}. "
            "Choose another version of this model."
        )

    def _first(self, keys: tuple[str, ...], default: Any) -> tuple[str, Any]:
        for key in keys:
            if key in self._values:
                return key, self._values[key]
        return keys[0], default

    def _wrong(self, key: str, what: str) -> BrokenConfigError:
        return BrokenConfigError(f'"{self.path}.{key}" in config.json is not {what}.')


def group_size(fields: Fields, *keys: str) -> int:
    """Columns in a group; -1 for one group over the whole row."""
    size = fields.whole(*keys)
    if size != -1 and not 1 <= size < 2**31:
        raise BrokenConfigError(f'"{fields.path}.{keys[0]}" can\'t be {size}.')
    return size
