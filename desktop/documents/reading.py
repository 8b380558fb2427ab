"""Reads documents in a helper process: text in parts, PDF pages as pictures."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from core.api.errors import (
    DocumentError,
    DocumentTooLargeError,
    DocumentUnreadableError,
    NotRegularFileError,
)
from core.api.limits import MAX_DOCUMENT_BYTES, MAX_DOCUMENT_CHARACTERS, picture_format
from core.client.blobs import open_regular
from core.client.codec import Fields
from core.helper.process import Helper, HelperFailedError
from core.helper.sections import sections
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.pictures.picture_files import read_up_to
from desktop.store.tables.attachments import PART_END, document_of
from desktop.store.tables.fields import storable
from desktop.store.tables.records import Document

FileKind: TypeAlias = Literal["picture", "document", "folder", "other"]
MEMORY_BYTES = 2**30
# Processor time for a document of another kind than PDF, for some pages of one, and for a picture.
OPEN_S, PAGES_S, PICTURE_S = 30.0, 20.0, 20.0
PAGES_AT_ONCE = 20
# The longest edge of a page as a picture: letters of ten points stay legible.
PAGE_PIXELS = 1_536
MOST_FILES = 200
DEEPEST_FOLDER = 16
_BEGINNING = 8_192
_ARCHIVES = (b"PK\3\4", b"\xd0\xcf\x11\xe0")
_WIDE_TEXT = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")


def kind_of(path: Path) -> FileKind:
    """By its first bytes; "other" if it can't be read."""
    try:
        with open_regular(path) as file:
            beginning = file.read(_BEGINNING)
    except NotRegularFileError as error:
        return "folder" if error.folder else "other"
    except OSError:
        return "other"
    is_text = bool(beginning) and (b"\0" not in beginning or beginning.startswith(_WIDE_TEXT))
    # Two letters begin a picture's file, or a text.
    if picture_format(beginning) and not (is_text and beginning.startswith(b"BM")):
        return "picture"
    if b"%PDF-" in beginning[:1024] or beginning.startswith(_ARCHIVES) or is_text:
        return "document"
    return "other"


def files_in(folder: Path) -> list[Path]:
    """Also in folders below, but no hidden ones and links; at most `MOST_FILES` + 1."""
    return [path for path, _ in zip(_files_in(folder, 0), range(MOST_FILES + 1), strict=False)]


def _files_in(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            # It is gone.
            continue
        if stat.S_ISREG(mode):
            yield Path(entry.path)
        elif stat.S_ISDIR(mode) and depth < DEEPEST_FOLDER:
            yield from _files_in(Path(entry.path), depth + 1)


def read_document_file(path: Path) -> bytes:
    """Raises OSError, DocumentTooLargeError."""
    return read_up_to(path, MAX_DOCUMENT_BYTES, DocumentTooLargeError)


def document_of_text(name: str, text: str) -> Document:
    """Its sections joined are the text."""
    text = storable(text).replace(PART_END, "\n")
    return document_of(name, False, PART_END.join(sections(text, has_headings=False)))


def source_of(data: bytes, name: str) -> str:
    """Digest of bytes and suffix, which tells HTML, Markdown and text apart."""
    digest = hashlib.sha256(Path(name).suffix.lower().encode("utf-8", "replace"))
    digest.update(b"\0")
    digest.update(data)
    return digest.hexdigest()


class DocumentReader:
    """Calls come from one thread. `read` counts documents."""

    def __init__(self) -> None:
        self._helper = Helper(MEMORY_BYTES)
        # The source whose pages the helper with this id holds.
        self._opened: tuple[str, int | None] | None = None
        self.read = 0

    def close(self) -> None:
        self._helper.close()

    def text_of(self, data: bytes, name: str, progress: Callable[[str], bool]) -> Document:
        """`progress` gets words, and returns whether to go on.

        Raises DocumentUnreadableError, DocumentTooLargeError.
        """
        self._opened = None
        fields, attached = self._ask("document.open", {"name": name}, name, OPEN_S, data)
        pages = int(fields["pages"])
        text = self._pages(name, pages, progress) if pages else _decoded(attached)
        if not pages and not text.strip():
            raise DocumentUnreadableError(tr("{name} has no text.").format(name=name))
        self.read += 1
        return document_of(name, bool(pages), text, source=source_of(data, name))

    def picture_of(self, path: Path, page: int, source: str) -> bytes:
        """A page as PNG. Raises OSError, DocumentError."""
        name = path.name
        if self._opened != (source, self._helper.pid):
            self._opened = None
            data = read_document_file(path)
            if source_of(data, name) != source:
                raise DocumentUnreadableError(tr("{name} has changed.").format(name=name))
            self._ask("document.open", {"name": name}, name, OPEN_S, data)
            self._opened = source, self._helper.pid
        wanted = {"page": page, "longest": PAGE_PIXELS}
        return self._ask("document.picture", wanted, name, PICTURE_S)[1]

    def _pages(self, name: str, count: int, progress: Callable[[str], bool]) -> str:
        texts: list[str] = []
        length = 0
        for first in range(0, count, PAGES_AT_ONCE):
            end = min(first + PAGES_AT_ONCE, count)
            words = tr("Reading page {page} of {count}")
            said = words.format(page=format_count(first + 1), count=format_count(count))
            if not progress(said):
                break
            wanted = {"first": first, "end": end}
            _, attached = self._ask("document.pages", wanted, name, PAGES_S)
            # A page for each, whatever the helper wrote.
            pages = _decoded(attached).split(PART_END)[: end - first]
            texts += pages + [""] * (end - first - len(pages))
            length += sum(map(len, pages))
            if length > MAX_DOCUMENT_CHARACTERS:
                words = tr("{name} has more than {limit} characters of text, the limit.")
                limit = format_count(MAX_DOCUMENT_CHARACTERS)
                raise DocumentTooLargeError(words.format(name=name, limit=limit))
        return PART_END.join(texts)

    def _ask(
        self, task: str, fields: Fields, name: str, seconds: float, data: bytes = b""
    ) -> tuple[Fields, bytes]:
        try:
            return self._helper.ask(task, fields, data, seconds=seconds)
        except HelperFailedError as failure:
            raise _failed(name, failure.reason) from None


def _decoded(attached: bytes) -> str:
    return attached.decode("utf-8", "replace")[: 2 * MAX_DOCUMENT_CHARACTERS]


def _failed(name: str, reason: str) -> DocumentError:
    if reason == "time":
        words = tr("Reading {name} took too long and was stopped.")
        return DocumentTooLargeError(words.format(name=name))
    if reason == "memory":
        words = tr("Reading {name} needs more memory than is allowed.")
        return DocumentTooLargeError(words.format(name=name))
    if reason == "started":
        words = tr("{name} can't be read: the process that reads documents could not be started.")
        return DocumentUnreadableError(words.format(name=name))
    return DocumentUnreadableError(tr("{name} is damaged: reading it failed.").format(name=name))
