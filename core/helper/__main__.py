"""The helper process: one task at a time on standard input, its result on standard output.

Named errors are returned, anything worse ends the process. Libraries' output is dropped: it could
quote people.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import warnings
from typing import BinaryIO

from core.api.errors import WaymarkError
from core.client.codec import MAX_TASK_BYTES, Fields, Task, frame, read_frame, split
from core.client.programs import die_with_parent, forbid_core_dumps, lower_limit, say_running

_MAX_WORDS = 500
_AREAS = {
    "chats": ("core.helper.chats", "ChatTasks"),
    "document": ("core.helper.documents", "DocumentTasks"),
    "picture": ("core.helper.pictures", "PictureTasks"),
    "formulas": ("core.helper.formulas", "FormulaTasks"),
    "grammar": ("core.helper.grammars", "GrammarTasks"),
    "schema": ("core.helper.schemas", "SchemaTasks"),
    "template": ("core.helper.templates", "TemplateTasks"),
    "tokenizer": ("core.helper.tokenizer", "TokenizerTasks"),
}
"""The classes whose methods are tasks: "picture.open" is `PictureTasks.open`."""


class Tasks:
    """A library is imported by the first task that needs it."""

    def __init__(self) -> None:
        self._made: dict[str, object] = {}

    def __getitem__(self, name: str) -> Task:
        area, _, method = name.partition(".")
        if area not in self._made:
            module, kind = _AREAS[area]
            self._made[area] = getattr(importlib.import_module(module), kind)()
        task: Task = getattr(self._made[area], method)
        return task


def answer(tasks: Tasks, body: bytes) -> bytes:
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


def limit_process(memory_bytes: int) -> None:
    """Bound memory, and forbid writing files and dumping core, for good."""
    if sys.platform == "win32":
        return
    import resource

    forbid_core_dumps()
    # This one doesn't limit writing to a pipe.
    lower_limit(resource.RLIMIT_FSIZE, 0)
    if sys.platform == "linux":
        lower_limit(resource.RLIMIT_AS, memory_bytes)


def limit_time(seconds: float) -> None:
    """End the process after `seconds` of processor time; 0 removes the limit.

    The signal's default action works even inside a long call of a library.
    """
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    tasks, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    return tasks, results


def main() -> None:
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
