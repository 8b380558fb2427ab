"""How long a folder's small files may be looked at before any weights are read.

Its template is tried on conversations, its tokenizer is built, its headers are compared with what
its config describes. A stranger decides how long each of these takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from core.api.errors import SlowFolderError

# Published folders take a few seconds, most of them for the tokenizer.
FOLDER_S = 60.0


class LookingTime:
    """Bounds the time that is spent inside `with`, all such blocks together."""

    def __init__(self, check: Callable[[], None] = lambda: None, seconds: float = FOLDER_S) -> None:
        """`check` is asked by every call, and may raise."""
        self._check, self._left = check, seconds
        self._entered = 0.0

    def __enter__(self) -> LookingTime:
        self._entered = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left -= time.monotonic() - self._entered

    def __call__(self) -> None:
        """To be asked often, inside `with`. Raises SlowFolderError, and what `check` raises."""
        self._check()
        if time.monotonic() - self._entered > self._left:
            raise SlowFolderError(
                "The files of this model folder take longer to look at than any model's should. "
                "If the computer is busy or the disk is slow, try again."
            )
