"""What the engine does when nobody has asked for anything for a while: write to disk, check.

One step at a time, so that whatever arrives goes first. It decides how long to wait for work before
the next step; who waits is the worker.
"""

from __future__ import annotations

from typing import Protocol

from core.client.traces import print_trace
from core.engine.cancel import CancelFlag

# Long enough not to compete with the next message of a quick exchange.
QUIET_S = 2.0


class Writer(Protocol):
    """What is asked of `core.engine.engine.Engine`."""

    def write_some(self, flag: CancelFlag) -> bool: ...
    def check_integrity(self) -> None: ...


class QuietTime:
    """`patience_s` is how long to wait for work before a `step`; None is for ever.

    What fails is in the log and is not tried again before the next request has ended. `checks` has
    the cache's invariants asserted whenever all is written.
    """

    def __init__(self, engine: Writer, checks: bool = False, quiet_s: float = QUIET_S) -> None:
        self._engine = engine
        self._checks = checks
        self._quiet_s = quiet_s
        self.patience_s: float | None = None

    def request_ended(self) -> None:
        """There may be something to write once it has been quiet for long enough."""
        self.patience_s = self._quiet_s

    def step(self) -> None:
        """Write one segment, or say that none is left."""
        self.patience_s = None
        try:
            if self._engine.write_some(CancelFlag()):
                self.patience_s = 0.0
            elif self._checks:
                self._engine.check_integrity()
        except Exception as error:
            print_trace(error)
