"""An LRU cache of results for texts, keyed by digest and bounded in bytes.

A conversation is sent whole with every turn, and only what is new in it is asked of the tokenizer.
Texts are known by their digest, so none is held here.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Callable

# Of an entry beside its numbers: its key, its place in the table, the headers of its objects.
_ENTRY_BYTES = 400

Numbers = tuple["array[int]", ...]


class RememberedTexts:
    """Arrays of numbers by text and kind of question; `most_bytes` bounds all of them together."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.num_bytes = 0
        self._known: OrderedDict[bytes, Numbers] = OrderedDict()

    def find(self, kind: str, text: str, ask: Callable[[], Numbers]) -> Numbers:
        """The cached result for `text`, or that of `ask`, which is cached."""
        key = hashlib.sha256(f"{kind}\0{text}".encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        found = ask()
        self._known[key] = found
        self.num_bytes += _num_bytes(found)
        while self.num_bytes > self.most_bytes:
            _, oldest = self._known.popitem(last=False)
            self.num_bytes -= _num_bytes(oldest)
        return found

    def clear(self) -> None:
        """Forget every text."""
        self._known.clear()
        self.num_bytes = 0


def _num_bytes(numbers: Numbers) -> int:
    return _ENTRY_BYTES + sum(len(each) * each.itemsize for each in numbers)
