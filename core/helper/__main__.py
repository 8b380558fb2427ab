"""The helper process: a task on standard input, its result on standard output, one at a time.

Whatever a task raises becomes a named error, and whatever it can't come back from ends the process:
the worker says so and starts another. Nothing that libraries print is kept, for it could quote what
people wrote.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Mapping
from typing import BinaryIO

from core.api.errors import WaymarkError
from core.client.codec import frame, read_frame, split
from core.client.programs import die_with_parent
from core.client.running import say_running
from core.helper.limits import limit_process, limit_time
from core.helper.wire import MAX_TASK_BYTES, Fields, Task

_MAX_WORDS = 500


class Tasks:
    """Every task by its name. A library is imported by the first task that needs it."""

    def __init__(self) -> None:
        self._found: dict[str, Task] = {}

    def __getitem__(self, name: str) -> Task:
        if name not in self._found:
            self._found.update(_tasks_of(name.partition(".")[0]))
        return self._found[name]


def _tasks_of(area: str) -> Mapping[str, Task]:
    if area == "picture":
        from core.helper.pictures import PictureTasks

        return PictureTasks().handlers()
    if area == "grammar":
        from core.helper.grammars import GrammarTasks

        return GrammarTasks().handlers()
    if area == "schema":
        from core.helper.schemas import SchemaTasks

        return SchemaTasks().handlers()
    if area == "template":
        from core.helper.templates import TemplateTasks

        return TemplateTasks().handlers()
    from core.helper.tokenizer import TokenizerTasks

    return TokenizerTasks().handlers()


def answer(tasks: Tasks, body: bytes) -> bytes:
    """The reply to one frame: the task's own fields, or `error` and `message`."""
    text, attached = split(body)
    fields: Fields = json.loads(text)
    limit_time(fields.pop("seconds"))
    try:
        found, attachment = tasks[fields.pop("task")](fields, attached)
        return frame(json.dumps(found).encode(), attachment, MAX_TASK_BYTES)
    except WaymarkError as error:
        return _failed(type(error).__name__, error.message)
    except BaseException as error:
        # A library in another language panics past Exception, and its words may quote anything.
        return _failed("MemoryError" if isinstance(error, MemoryError) else "Exception", "")
    finally:
        limit_time(0)


def _failed(name: str, message: str) -> bytes:
    return frame(json.dumps({"error": name, "message": message[:_MAX_WORDS]}).encode())


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Both ends, out of reach of what libraries print or read."""
    tasks, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    return tasks, results


def main() -> None:
    """Run as the child of a worker, with the bytes of memory it may use as the only argument."""
    die_with_parent()
    say_running()
    incoming, outgoing = _pipes()
    warnings.simplefilter("ignore")
    limit_process(int(sys.argv[1]))
    tasks = Tasks()
    while (body := read_frame(incoming, MAX_TASK_BYTES)) is not None:
        outgoing.write(answer(tasks, body))
        outgoing.flush()
        del body


if __name__ == "__main__":
    main()
