"""One run in the prefix tree, and the key that names it: what it holds and what hangs on it.

Which nodes there are, and what goes when, is the business of `core.cache.tree`.
"""

from __future__ import annotations

import array
import hashlib
from collections.abc import Iterator
from typing import Literal

from core.api.prompt import ORIGIN, Cut, CutKind, Run, TextRun
from core.cache.slab import KVRows
from core.cache.state import Checkpoint

Role = Literal["system", "user", "reply", "pause"]


class Node:
    """One run in the tree. `rows` holds its KV outside the slab; `in_slab` says the slab has it.

    `role` says whose message ends with the run, where one does, or that a reply paused there;
    `owners` are the chats that used it.
    """

    __slots__ = (
        "checkpoint",
        "children",
        "end",
        "in_slab",
        "key",
        "last_used",
        "num_checkpoints",
        "owners",
        "parent",
        "role",
        "rows",
        "run",
    )

    def __init__(self, key: bytes, parent: Node | None, run: Run | None) -> None:
        self.key = key
        self.parent = parent
        self.run = run
        self.end: Cut = run.end if run is not None else ORIGIN
        self.children: dict[bytes, Node] = {}
        self.checkpoint: Checkpoint | None = None
        self.num_checkpoints = 0  # at this node and below
        self.rows: KVRows | None = None
        self.in_slab = False
        self.last_used = 0
        self.role: Role | None = None
        self.owners: set[str] = set()

    @property
    def is_stop(self) -> bool:
        """True if the run ends at a prompt's end that is no cut of the text.

        Only a prompt that continues the reply there has runs below it.
        """
        return self.run is not None and self.run.is_stop

    @property
    def num_tokens(self) -> int:
        return self.run.num_tokens if self.run is not None else 0

    def ends(self, kind: CutKind) -> bool:
        """Whether the run ends for one of the reasons in `kind`."""
        own = self.run.kind if self.run is not None else None
        return own is not None and bool(own & kind)

    @property
    def ends_message(self) -> bool:
        return self.ends(CutKind.MESSAGE_END)

    def upwards(self) -> Iterator[Node]:
        """This node and those above it, the root left out."""
        node: Node | None = self
        while node is not None and node.parent is not None:
            yield node
            node = node.parent

    def path(self) -> list[Node]:
        """The nodes from the first run down to this one, the root left out."""
        return list(self.upwards())[::-1]


def chained_key(parent: bytes, run: Run) -> bytes:
    """Key of a run below `parent`: a 256-bit digest of the parent's key and the run's content."""
    digest = hashlib.blake2b(parent, digest_size=32)
    content = run.content
    if isinstance(content, TextRun):
        # A prompt's tail that is no cut must not be found as the run it may once become.
        digest.update(b"stop" if run.is_stop else b"text")
        digest.update(array.array("I", content.ids).tobytes())
    else:
        kind = b"line" if content.in_line else b"image"
        digest.update(kind + content.rows.to_bytes(4) + content.columns.to_bytes(4))
        digest.update(content.num_positions.to_bytes(4) + content.key)
    return digest.digest()
