"""What a process does that writes segments until it is killed; it tells what is done."""

from __future__ import annotations

import itertools
from multiprocessing.connection import Connection
from pathlib import Path

from core.storage.files import Files
from tests.cache.disk.worlds import open_store, put_chain
from tests.storage.disks import RoomyFiles


class WaitingFiles(RoomyFiles):
    """Waits for the disk as the app does, so that a kill may meet it there."""

    def _sync(self, handle: int) -> None:
        Files._sync(self, handle)


def write_for_ever(folder: Path, first: int, told: Connection) -> None:
    """Put chains of three runs, each for a chat of its own, from number `first` on.

    After every third, the chat before is forgotten again.
    """
    store = open_store(folder, files=WaitingFiles())
    for chat in itertools.count(first):
        assert put_chain(store, range(3 * chat, 3 * chat + 3), f"chat-{chat}")
        told.send(("wrote", chat))
        if chat % 3 == 2:
            told.send(("forgetting", chat - 1))
            store.forget(f"chat-{chat - 1}")
            told.send(("forgot", chat - 1))
