"""The text of Word and Excel files: headings, lists and tables as in Markdown, sheets as CSV."""

from __future__ import annotations

import csv
import datetime
import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import IO
from xml.etree import ElementTree

from core.api.errors import DocumentTooLargeError, DocumentUnreadableError
from core.api.limits import MAX_DOCUMENT_CHARACTERS

MOST_ENTRIES = 20_000
MOST_UNPACKED_BYTES = 256 * 2**20
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
# The same text again, for programs that don't know the newer form, and where it was before.
_AGAIN = ("{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback", f"{_W}moveFrom")
_DEEPEST = 1_000
_LEVEL = re.compile(r"heading ([1-6])", re.IGNORECASE)


def office_text(data: bytes, name: str) -> str:
    """Raises DocumentUnreadableError, DocumentTooLargeError."""
    if not data.startswith(b"PK"):
        raise DocumentUnreadableError(
            f"{name} is in an old Office format, or protected by a password. Save it as .docx or "
            ".xlsx without one."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check(archive, name)
            names = set(archive.namelist())
            if "word/document.xml" in names:
                return "\n".join(_word_lines(archive, names))
            if "xl/workbook.xml" in names:
                return _sheets(data, name)
    except (DocumentUnreadableError, DocumentTooLargeError, MemoryError):
        raise
    except Exception as error:
        # Libraries raise anything for a damaged file.
        raise DocumentUnreadableError(f"{name} is damaged.") from error
    raise DocumentUnreadableError(f"{name} is an archive, and no Word or Excel document.")


def _check(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse bombs by the directory's sizes, which unpacking never exceeds."""
    entries = archive.infolist()
    unpacked = sum(entry.file_size for entry in entries)
    if len(entries) > MOST_ENTRIES or unpacked > MOST_UNPACKED_BYTES:
        raise DocumentTooLargeError(
            f"{name} unpacks to {unpacked:,} bytes in {len(entries):,} files; the limit is "
            f"{MOST_UNPACKED_BYTES:,} in {MOST_ENTRIES:,}."
        )
    if any(entry.flag_bits & 1 for entry in entries):
        raise DocumentUnreadableError(f"{name} is protected by a password.")


def _word_lines(archive: zipfile.ZipFile, names: set[str]) -> Iterator[str]:
    levels = _heading_levels(archive, names)
    with archive.open("word/document.xml") as file:
        yield from _lines(file, levels)
    for notes in ("word/footnotes.xml", "word/endnotes.xml"):
        if notes in names:
            with archive.open(notes) as file:
                yield from _lines(file, levels)


def _heading_levels(archive: zipfile.ZipFile, names: set[str]) -> dict[str, int]:
    """Heading levels by the styles' ids, which depend on Word's language."""
    found: dict[str, int] = {}
    if "word/styles.xml" not in names:
        return found
    with archive.open("word/styles.xml") as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag == f"{_W}style":
                name = element.find(f"{_W}name")
                called = name.get(f"{_W}val", "") if name is not None else ""
                level = _LEVEL.fullmatch(called)
                if level or called == "Title":
                    found[element.get(f"{_W}styleId", "")] = int(level[1]) if level else 1
                element.clear()
    return found


class _Paragraph:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.level = 0
        self.is_item = False

    def line(self) -> str:
        text = "".join(self.texts).strip()
        if not text:
            return ""
        return f"{'#' * self.level} {text}" if self.level else f"- {text}" if self.is_item else text


def _lines(file: IO[bytes], levels: dict[str, int]) -> Iterator[str]:
    reader = _WordReader(levels)
    for event, element in ElementTree.iterparse(file, ("start", "end")):
        if event == "start":
            reader.begin(element.tag)
        elif (line := reader.end(element)) is not None:
            yield line


class _WordReader:
    """Paragraphs and table rows in order; a text box comes before its paragraph."""

    def __init__(self, levels: dict[str, int]) -> None:
        self._levels = levels
        self._open: list[_Paragraph] = []
        self._cells: list[list[str]] = []
        self._row: list[str] = []
        self._depth = self._skipped = self._total = 0

    def begin(self, tag: str) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("nested too deep")
        self._skipped += tag in _AGAIN
        if tag == f"{_W}p":
            self._open.append(_Paragraph())
        elif tag == f"{_W}tc":
            self._cells.append([])

    def end(self, element: ElementTree.Element) -> str | None:
        self._depth -= 1
        match element.tag.rpartition("}")[2]:
            case "Fallback" | "moveFrom":
                self._skipped -= element.tag in _AGAIN
            case "p" if element.tag == f"{_W}p":
                return self._end_paragraph(element)
            case "tc" if element.tag == f"{_W}tc":
                text = " ".join(filter(None, self._cells.pop()))
                # A table inside a cell is a part of its text.
                (self._cells[-1] if self._cells else self._row).append(text)
            case "tr" if element.tag == f"{_W}tr" and not self._cells:
                row, self._row = self._row, []
                element.clear()
                return f"| {' | '.join(row)} |" if any(row) else None
            case _ if self._open and not self._skipped:
                _add(self._open[-1], element, self._levels)
        return None

    def _end_paragraph(self, element: ElementTree.Element) -> str | None:
        line = self._open.pop().line()
        element.clear()
        self._total += len(line)
        if self._total > MAX_DOCUMENT_CHARACTERS:
            raise DocumentTooLargeError(
                f"The document has more than {MAX_DOCUMENT_CHARACTERS:,} characters of text."
            )
        if self._skipped:
            return None
        if self._cells:
            self._cells[-1].append(line)
            return None
        return f"{line}\n" if line else None


def _add(paragraph: _Paragraph, element: ElementTree.Element, levels: dict[str, int]) -> None:
    tag = element.tag
    if tag in (f"{_W}t", f"{_M}t"):
        paragraph.texts.append(element.text or "")
    elif tag == f"{_W}tab":
        paragraph.texts.append("\t")
    elif tag in (f"{_W}br", f"{_W}cr"):
        paragraph.texts.append("\n")
    elif tag == f"{_W}noBreakHyphen":
        paragraph.texts.append("-")
    elif tag == f"{_W}pStyle":
        paragraph.level = levels.get(element.get(f"{_W}val", ""), 0)
    elif tag == f"{_W}numPr":
        paragraph.is_item = True


def _sheets(data: bytes, name: str) -> str:
    """The values are those calculated last."""
    from openpyxl import load_workbook

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for sheet in book.worksheets:
        written.write(f"# {sheet.title}\n\n")
        # The declared size may be anything.
        sheet.reset_dimensions()
        for cells in sheet.iter_rows(values_only=True):
            row = [_cell(value) for value in cells]
            while row and not row[-1]:
                row.pop()
            if row:
                writer.writerow(row)
            if written.tell() > MAX_DOCUMENT_CHARACTERS:
                raise DocumentTooLargeError(
                    f"{name} has more than {MAX_DOCUMENT_CHARACTERS:,} characters of text."
                )
        written.write("\n")
    return written.getvalue()


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case float() if value.is_integer():
            return str(int(value))
        case datetime.datetime():
            return value.isoformat(sep=" ").removesuffix(" 00:00:00")
        case _:
            return str(value)
