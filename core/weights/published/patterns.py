"""The regular expressions with which a config names layers, matched in a helper.

A pattern can be made to take for ever, such as `(\\w+\\.?)+X`; the helper that works on it then
ends, and the folder is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError
from core.helper.process import Helper, HelperFailedError
from core.helper.wire import Fields

MAX_LENGTH = 1_000
MOST = 200
# For one name. Ordinary patterns take microseconds.
TIME_LIMIT_S = 0.5
MEMORY_BYTES = 256 * 2**20


class Patterns:
    """Patterns that match from the start of a name, as Python's re.match has it.

    Raises UnsupportedQuantisationError for one that can't be read, BrokenConfigError for too many
    of them and where matching takes too long.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        if len(sources) > MOST:
            raise BrokenConfigError(f"quantization_config has {len(sources)} patterns.")
        if any(len(source) > MAX_LENGTH for source in sources):
            raise UnsupportedQuantisationError("A pattern in quantization_config is too long.")
        self._sources = list(sources)
        self._helper = Helper(MEMORY_BYTES)
        self._known: dict[str, bool] = {}
        self._compiled_in = -1
        if sources:
            self._compile()

    def match(self, name: str) -> bool:
        """Whether any of them matches."""
        if not self._sources:
            return False
        if name not in self._known:
            if self._helper.pid != self._compiled_in:
                self._compile()
            self._known[name] = bool(self._ask("pattern.match", {"name": name})["matches"])
        return self._known[name]

    def _compile(self) -> None:
        broken = self._ask("pattern.compile", {"sources": self._sources})["broken"]
        if broken is not None:
            source = self._sources[broken][:80]
            raise UnsupportedQuantisationError(
                f"A pattern in quantization_config can't be read: {source}"
            )
        self._compiled_in = self._helper.pid or -1

    def _ask(self, task: str, fields: Fields) -> Fields:
        try:
            return self._helper.ask(task, fields, seconds=TIME_LIMIT_S)[0]
        except HelperFailedError as failure:
            why = "takes too long" if failure.reason == "time" else "can't be matched"
            raise BrokenConfigError(f"A pattern in quantization_config {why}.") from None
