"""Tasks on the regular expressions of a model folder: compile them, match a name with them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from core.helper.wire import Fields, Task


class PatternTasks:
    """One list of patterns at a time."""

    def __init__(self) -> None:
        self._compiled: list[re.Pattern[str]] = []

    def handlers(self) -> Mapping[str, Task]:
        """The tasks by name."""
        return {"pattern.compile": self._compile, "pattern.match": self._match}

    def _compile(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        """Compile `sources`; `broken` is the place of the first that is no expression, or None."""
        self._compiled = []
        for place, source in enumerate(fields["sources"]):
            try:
                self._compiled.append(re.compile(source))
            except (re.error, OverflowError):
                return {"broken": place}, b""
        return {"broken": None}, b""

    def _match(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        """Whether any of them matches `name` from its beginning."""
        return {"matches": any(each.match(fields["name"]) for each in self._compiled)}, b""
