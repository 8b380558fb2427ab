"""`python -m core.worker`: take the pipes, greet the window, then load torch."""

from __future__ import annotations

import faulthandler
import os

from core.api.commands import PROTOCOL_VERSION
from core.api.events import Hello
from core.client.programs import become_child
from core.worker.worker import Outbox, Worker


def main() -> None:
    commands, events = become_child()
    faulthandler.enable()
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
