"""What a helper process may use: memory, time of the processor, and no files.

Called inside the process. Memory is bounded by the address space (RLIMIT_AS) where the system keeps
that limit; the worker watches what is resident besides, on every system.
"""

from __future__ import annotations

import signal
import sys

from core.client.programs import forbid_core_dumps


def limit_process(memory_bytes: int) -> None:
    """Bound memory, forbid writing files and dumping core. Irrevocable."""
    if sys.platform == "win32":
        return
    import resource

    forbid_core_dumps()
    # A write to a pipe is not bounded by this one.
    _lower(resource.RLIMIT_FSIZE, 0)
    if sys.platform == "linux":
        _lower(resource.RLIMIT_AS, memory_bytes)


def limit_time(seconds: float) -> None:
    """End the process when it has computed for `seconds` from now on; 0 takes the limit back.

    The processor's time, not the clock's: a busy machine makes no picture a bomb. The signal's own
    action ends the process even inside one long call of a library.
    """
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _lower(kind: int, wanted: int) -> None:
    import resource

    _, hard = resource.getrlimit(kind)
    lowest = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (lowest, lowest))
