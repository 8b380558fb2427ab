"""`python -m core.worker`: take the pipes, greet the window, then load torch."""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import BinaryIO

from core.api.commands import PROTOCOL_VERSION
from core.api.events import Hello
from core.client.programs import die_with_parent, forbid_core_dumps, say_running
from core.client.traces import report_uncaught
from core.worker.worker import Outbox, Worker


def _frames() -> tuple[BinaryIO, BinaryIO]:
    """Take the pipes before any library can print into them."""
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb"), events


def main() -> None:
    die_with_parent()
    forbid_core_dumps()
    report_uncaught()
    say_running()
    commands, events = _frames()
    faulthandler.enable()
    # Ctrl-C in a terminal reaches the whole group; the window decides when the worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outbox = Outbox(events)
    outbox.emit(Hello(protocol=PROTOCOL_VERSION, pid=os.getpid()))
    # Torch takes seconds to import; the window is told before that the worker lives.
    from core.engine import debug
    from core.engine.engine import Engine
    from core.engine.loaded import fix_threads

    fix_threads()
    Worker(commands, outbox, Engine(), debug.integrity()).run()


if __name__ == "__main__":
    main()
