"""Writes chats to a file that appears whole or not at all.

ZIP and JSON hold everything, to import; HTML and Markdown what is shown.
"""

from __future__ import annotations

import asyncio
import base64
import html
import os
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, TypeVar

from core.api.archive import VERSION, ArchivedChat, ArchivedMessage, ArchivedPicture
from core.api.errors import WaymarkError
from core.api.limits import PICTURE_BEGINNING, picture_format
from core.client.blobs import read_regular
from desktop.chat.markdown.conversion import html_parser
from desktop.i18n import tr
from desktop.numbers import format_bytes

T = TypeVar("T")
# A larger one could not be imported.
LARGEST_JSON = 256 * 2**20
# Formats of pictures that only some browsers show.
NOT_IN_BROWSERS = ("HEIF", "TIFF")

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
       color: #1d1f1e; background: #fff; }
article { margin: 1.5rem 0; } h2 { font-size: 1rem; color: #5c6662; margin: 0; }
.you { background: #eef3f1; border-radius: 12px; padding: .6rem 1rem; }
pre { background: #f4f5f3; padding: .8rem; border-radius: 8px; overflow: auto; }
img { max-width: 100%; } table { border-collapse: collapse; } td, th { border: 1px solid #ccc;
padding: .2rem .6rem; } details { color: #5c6662; }
@media (prefers-color-scheme: dark) {
  body { color: #e3e7e5; background: #17191a; } .you { background: #223330; }
  pre { background: #202424; } h2, details { color: #9aa5a0; } }
"""
HEAD = """<!doctype html>
<html><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>{style}</style></head><body>
"""


class ExportError(WaymarkError, title="The chats could not be exported"): ...


class Writer(ABC):
    """Call `add` for each chat, then `end`; or `discard`.

    `path_of` finds pictures by digest; `missing` counts those gone. Raises OSError, ExportError.
    """

    def __init__(self, path: Path, path_of: Callable[[str], Path]) -> None:
        self._path, self._path_of = path, path_of
        self.missing, self.stopped = 0, False
        descriptor, name = tempfile.mkstemp(prefix=".waymark-", dir=path.parent)
        self._unfinished = Path(name)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")

    @abstractmethod
    def add(self, chat: ArchivedChat) -> None: ...

    def end(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._unfinished, self._path)

    def discard(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._unfinished.unlink(missing_ok=True)

    def _say(self, text: str) -> None:
        self._file.write(text.encode())

    def _picture(self, digest: str) -> bytes:
        """Empty if it is gone."""
        if self.stopped:
            raise InterruptedError
        try:
            return read_regular(self._path_of(digest))
        except (OSError, WaymarkError):
            self.missing += 1
            return b""


class ZipWriter(Writer):
    """An entry for each chat, so that none is too large to read, and each picture."""

    def __init__(self, path: Path, path_of: Callable[[str], Path]) -> None:
        super().__init__(path, path_of)
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED)
        self._count = 0
        self._digests: dict[str, None] = {}

    def add(self, chat: ArchivedChat) -> None:
        self._count += 1
        text = f'{{"waymark": {VERSION}, "chats": [{chat.model_dump_json()}]}}'
        self._zip.writestr(f"chats/{self._count:06}.json", text)
        self._digests |= dict.fromkeys(digests_of(chat))

    def discard(self) -> None:
        # Else it would be closed, and so written, when it is freed.
        with suppress(OSError, ValueError):
            self._zip.close()
        super().discard()

    def end(self) -> None:
        self._add_pictures()
        self._zip.close()
        super().end()

    def _add_pictures(self) -> None:
        for digest in self._digests:
            if data := self._picture(digest):
                name = f"pictures/{digest}{suffix_of(data)}"
                # They are compressed already.
                self._zip.writestr(name, data, zipfile.ZIP_STORED)


class JsonWriter(Writer):
    def __init__(self, path: Path, path_of: Callable[[str], Path]) -> None:
        super().__init__(path, path_of)
        self._first = True
        self._digests: dict[str, None] = {}
        self._say(f'{{"waymark": {VERSION}, "chats": [')

    def add(self, chat: ArchivedChat) -> None:
        self._say(("" if self._first else ",\n") + chat.model_dump_json())
        self._first = False
        self._digests |= dict.fromkeys(digests_of(chat))

    def end(self) -> None:
        self._say('], "pictures": {')
        comma = ""
        for digest in self._digests:
            if data := self._picture(digest):
                self._say(f'{comma}"{digest}": "{base64.b64encode(data).decode()}"')
                comma = ",\n"
        self._say("}}\n")
        super().end()

    def _say(self, text: str) -> None:
        super()._say(text)
        if self._file.tell() > LARGEST_JSON:
            words = tr("As JSON it is larger than {size}, the most that can be imported. Use ZIP.")
            raise ExportError(words.format(size=format_bytes(LARGEST_JSON)))


class MarkdownWriter(Writer):
    def add(self, chat: ArchivedChat) -> None:
        self._say(f"# {chat.title}\n\n{date(chat.created)}\n\n")
        if chat.system:
            self._say("> " + chat.system.replace("\n", "\n> ") + "\n\n")
        for message in shown_messages(chat):
            self._say(f"## {author(message)}\n\n")
            for document in message.documents:
                self._say(f"[{tr('Document')}: {document.name}]\n\n")
                found = chat.documents[document.document]
                if not found.paged:
                    self._say("> " + found.text.replace("\f", "").replace("\n", "\n> ") + "\n\n")
            for picture in message.pictures:
                self._say(f"[{tr('Picture')}: {picture.name}]\n\n")
            self._say(f"{message.text}\n\n")


class HtmlWriter(Writer):
    """A file without scripts, with its pictures, that connects to nothing.

    `drawn`: a PNG in place of the next picture, which browsers don't show.
    """

    def __init__(self, path: Path, path_of: Callable[[str], Path]) -> None:
        super().__init__(path, path_of)
        self.drawn = b""
        self._parser = html_parser()
        self._say(HEAD.format(title=html.escape(self._path.stem), style=STYLE))

    def add(self, chat: ArchivedChat) -> None:
        for _ in self.writing(chat):
            pass

    def writing(self, chat: ArchivedChat) -> Iterator[ArchivedPicture]:
        """Yields each picture before it writes it."""
        self._say(f"<h1>{html.escape(chat.title)}</h1>\n<p>{date(chat.created)}</p>\n")
        if chat.system:
            self._say(f"<details><summary>{tr('Instructions')}</summary>")
            self._say(f"<pre>{html.escape(chat.system)}</pre></details>\n")
        for message in shown_messages(chat):
            role = "reply" if message.reply else "you"
            self._say(f'<article class="{role}"><h2>{html.escape(author(message))}</h2>\n')
            for document in message.documents:
                self._say(f"<details><summary>{html.escape(document.name)}</summary>")
                found = chat.documents[document.document]
                text = found.text.replace("\f", "\n" if found.paged else "")
                self._say(f"<pre>{html.escape(text)}</pre></details>\n")
            for picture in message.pictures:
                yield picture
                data, self.drawn = self.drawn or self._picture(picture.digest), b""
                if data:
                    kind = suffix_of(data).removeprefix(".").replace("jpg", "jpeg")
                    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
                    self._say(f'<img alt="{html.escape(picture.name)}" src="{source}">\n')
            if message.reply and message.reply.reasoning:
                self._say(f"<details><summary>{tr('Reasoning')}</summary>")
                self._say(f"<pre>{html.escape(message.reply.reasoning)}</pre></details>\n")
            self._say(f"{self._parser.render(message.text)}</article>\n")

    def end(self) -> None:
        self._say("</body></html>\n")
        super().end()


WRITERS: dict[str, type[Writer]] = {
    ".zip": ZipWriter,
    ".json": JsonWriter,
    ".html": HtmlWriter,
    ".md": MarkdownWriter,
}


def shown_messages(chat: ArchivedChat) -> Iterator[ArchivedMessage]:
    children: dict[int | None, list[int]] = {}
    for place, message in enumerate(chat.messages):
        children.setdefault(message.parent, []).append(place)
    at: int | None = None
    while below := children.get(at):
        at = max(below, key=lambda place: chat.messages[place].chosen)
        yield chat.messages[at]


def digests_of(chat: ArchivedChat) -> list[str]:
    return [picture.digest for message in chat.messages for picture in message.pictures]


def suffix_of(data: bytes) -> str:
    known = picture_format(data)
    return known.suffixes[0] if known else ".bin"


def shown_by_browsers(path: Path) -> bool:
    """True also for a file that can't be read."""
    try:
        with path.open("rb") as file:
            known = picture_format(file.read(PICTURE_BEGINNING))
    except OSError:
        return True
    return known is None or known.name not in NOT_IN_BROWSERS


def author(message: ArchivedMessage) -> str:
    if message.reply is None:
        return tr("You")
    return message.reply.model or tr("Reply")


def date(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment):%Y-%m-%d %H:%M}"


async def in_thread(work: Callable[[], T], writer: Writer | None = None) -> T:
    future = asyncio.get_running_loop().run_in_executor(None, work)
    if writer is None:
        return await future
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # The thread still uses its file.
        writer.stopped = True
        await asyncio.wait((future,))
        raise
