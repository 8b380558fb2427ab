"""`python -m core.worker`: the pipes are taken, the window is greeted, then torch is loaded."""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import BinaryIO

from core.api.commands import PROTOCOL_VERSION
from core.api.events import Hello
from core.client.programs import die_with_parent, forbid_core_dumps, say_running
from core.client.traces import report_uncaught
from core.engine.quiet import QuietTime
from core.worker.worker import Outbox, Worker


def _frames() -> tuple[BinaryIO, BinaryIO]:
    """The pipes, taken before any library can print into them."""
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb"), events


def main() -> None:
    """Run as the child of a window; there is nothing to see when started by hand."""
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
    # Torch takes seconds to import; the window needn't wait for it to know that the worker lives.
    from core.engine import debug
    from core.engine.engine import Engine
    from core.engine.threads import fix_threads

    fix_threads()
    engine = Engine()
    Worker(commands, outbox, engine, QuietTime(engine, debug.integrity())).run()


if __name__ == "__main__":
    main()
