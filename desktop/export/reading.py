"""Reads exported files of Waymark and other programs, one chat at a time.

A helper process interprets JSON. Of a ZIP, entries with known names are read up to a limit; nothing
is unpacked to disk.
"""

from __future__ import annotations

import errno
import hashlib
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, NamedTuple

from core.api.archive import ArchivedChat, ArchivedPicture
from core.api.errors import NotAnExportError
from core.api.limits import MAX_PICTURE_BYTES
from core.client.blobs import open_regular
from core.client.codec import Fields
from core.helper.chats import Lost, Program
from core.helper.process import Helper, HelperFailedError
from desktop.export.writing import LARGEST_JSON
from desktop.i18n import tr
from desktop.numbers import format_bytes

# JSON takes up to ten times its size while it is interpreted.
MEMORY_BYTES = 4 * 2**30
OPEN_S, CHAT_S = 60.0, 20.0
MOST_ENTRIES, MOST_CHATS = 200_000, 200_000
MOST_DIRECTORY_BYTES, _DIRECTORY_SIZE = 32 * 2**20, 5
# What a damaged ZIP raises, also in each of its compressions.
DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError)
_CHATS = re.compile(r"chats/\d{1,9}\.json|(?:[^/]+/)?conversations(?:-\d+)?\.json")
_DIGEST = re.compile(r"pictures/([0-9a-f]{64})\.\w+")


class FoundChat(NamedTuple):
    """`chat` is None if it can't be read."""

    title: str
    chat: ArchivedChat | None
    lost: Counter[Lost]


class ChatsFile:
    """`chats` tells the `program`. Not thread-safe. Raises WaymarkError, OSError."""

    def __init__(self, path: Path) -> None:
        self.program: Program = "Waymark"
        self._helper = Helper(MEMORY_BYTES)
        self._file = open_regular(path)
        self._zip: zipfile.ZipFile | None = None
        try:
            if self._file.read(4).startswith((b"PK\3\4", b"PK\5\6")):
                self._zip = _opened(self._file)
        # zipfile raises the last for features that it does not have.
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            self.close()
            raise NotAnExportError(tr("It is a damaged ZIP file.")) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._helper.close()
        self._file.close()

    def chats(self) -> Iterator[FoundChat]:
        names = [name for name in self.names if _CHATS.fullmatch(name)]
        if self._zip is not None and not names:
            raise NotAnExportError(tr("It contains no chats."))
        left = MOST_CHATS
        for name in names or [""]:
            data = self.read(name, LARGEST_JSON)
            fields, _ = self._ask("open", OPEN_S, data)
            self.program = fields["program"]
            del data
            left -= int(fields["count"])
            if left < 0:
                raise NotAnExportError(tr("It contains too many chats."))
            for number in range(int(fields["count"])):
                if self._helper.pid is None:
                    # A chat that ended the helper costs itself only.
                    self._ask("open", OPEN_S, self.read(name, LARGEST_JSON))
                yield self._chat(number)

    def picture(self, picture: ArchivedPicture) -> bytes:
        """Empty if it is missing or damaged."""
        with suppress(NotAnExportError):
            return self._picture(picture)
        return b""

    def _picture(self, picture: ArchivedPicture) -> bytes:
        wanted = picture.digest
        if wanted:
            fields, data = self._ask("picture", CHAT_S, digest=wanted)
            if fields["known"]:
                return data
        begins = [name for name in self.names if picture.file and _begins(name, picture.file)]
        for name in (*self._by_digest.get(wanted, ()), *begins):
            data = self.read(name, MAX_PICTURE_BYTES)
            if not wanted or hashlib.sha256(data).hexdigest() == wanted:
                return data
        return b""

    def _chat(self, number: int) -> FoundChat:
        try:
            fields, data = self._ask("chat", CHAT_S, number=number)
        except NotAnExportError:
            return FoundChat("", None, Counter())
        chat = ArchivedChat.model_validate_json(data) if fields["chat"] else None
        return FoundChat(str(fields["title"]), chat, Counter(fields["lost"]))

    def _ask(
        self, task: str, seconds: float, attached: bytes = b"", **fields: object
    ) -> tuple[Fields, bytes]:
        try:
            return self._helper.ask(f"chats.{task}", fields, attached, seconds=seconds)
        except HelperFailedError as error:
            words = tr("It could not be read ({reason}).")
            raise NotAnExportError(words.format(reason=error.reason)) from error

    @cached_property
    def names(self) -> list[str]:
        return sorted(set(self._zip.namelist())) if self._zip is not None else []

    @cached_property
    def _by_digest(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self.names:
            if known := _DIGEST.fullmatch(name):
                found.setdefault(known[1], []).append(name)
        return found

    def read(self, name: str, most: int) -> bytes:
        """Up to `most` bytes; '' is the whole file. Raises NotAnExportError, OSError."""
        try:
            if self._zip is None:
                self._file.seek(0)
                data = self._file.read(most + 1)
            else:
                with self._zip.open(name) as entry:
                    # A bomb announces less than it holds.
                    data = entry.read(most + 1)
        except (*DAMAGE, OSError) as error:
            # Of damaged data in bzip2, and of places that no file has.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            raise NotAnExportError(tr("It is a damaged or encrypted ZIP file.")) from error
        if len(data) > most:
            words = tr("{name} is larger than {size}.")
            called = name or tr("The file")
            raise NotAnExportError(words.format(name=called, size=format_bytes(most)))
        return data


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    # zipfile reads the whole directory, and makes an object of each entry, before it can be asked.
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end is not None and end[_DIRECTORY_SIZE] > MOST_DIRECTORY_BYTES:
        raise NotAnExportError(tr("It has too many entries."))
    archive = zipfile.ZipFile(file)
    if len(archive.infolist()) > MOST_ENTRIES:
        raise NotAnExportError(tr("It has too many entries."))
    if any(_leads_outside(name) for name in archive.namelist()):
        raise NotAnExportError(tr("It contains names that point outside its folder."))
    return archive


def _leads_outside(name: str) -> bool:
    for path in (PurePosixPath(name), PureWindowsPath(name)):
        if path.is_absolute() or path.drive or ".." in path.parts:
            return True
    return False


def _begins(name: str, file: str) -> bool:
    return len(file) > 4 and PurePosixPath(name).name.startswith(file)
