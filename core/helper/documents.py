"""Tasks on documents: from bytes to text in parts: a PDF's pages, or sections. No link is opened,
no script or macro runs."""

from __future__ import annotations

import io
import re
from contextlib import closing
from html.parser import HTMLParser

import pypdfium2 as pdfium

from core.api.errors import DocumentTooLargeError, DocumentUnreadableError
from core.api.limits import MAX_DOCUMENT_CHARACTERS, MAX_DOCUMENT_PAGES
from core.client.codec import Fields
from core.helper.office import office_text
from core.helper.sections import PART_END, sections

HTML_SUFFIXES = (".html", ".htm", ".xhtml")
MARKDOWN_SUFFIXES = (".md", ".markdown")
_HTML = re.compile(rb"\s*(?:<!doctype html|<html)\b", re.IGNORECASE)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset=["']?([\w-]{1,40})""", re.IGNORECASE)
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# Control characters, and the marks that PDFium leaves where a word was hyphenated.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
_HYPHENATED = re.compile(r"[\x02\ufffe]\n?")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n){3,}")
_WRONG_PASSWORD = 4
LARGEST_PAGE_PIXELS = 16_000_000


class DocumentTasks:
    def __init__(self) -> None:
        self._pdf: pdfium.PdfDocument | None = None

    def open(self, fields: Fields, attached: bytes) -> tuple[Fields, bytes]:
        """A PDF's number of pages, whose text `pages` reads; else 0 and the text."""
        self.close(fields, b"")
        name = fields["name"]
        if _is_pdf(attached):
            self._pdf = _opened(attached, name)
            return {"pages": len(self._pdf)}, b""
        text = PART_END.join(sections(*_read(attached, name)))
        if len(text) > MAX_DOCUMENT_CHARACTERS:
            raise DocumentTooLargeError(
                f"{name} has {len(text):,} characters of text; the limit is "
                f"{MAX_DOCUMENT_CHARACTERS:,}."
            )
        # Some declared encodings make half surrogate pairs.
        return {"pages": 0}, text.encode("utf-8", "replace")

    def close(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        if self._pdf is not None:
            self._pdf.close()
        self._pdf = None
        return {}, b""

    def pages(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        """Pages from `first` up to `end`; a damaged one counts as empty."""
        texts, damaged = [], 0
        for number in range(fields["first"], fields["end"]):
            try:
                texts.append(self._page_text(number))
            except pdfium.PdfiumError:
                texts.append("")
                damaged += 1
        return {"damaged": damaged}, PART_END.join(texts).encode()

    def picture(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        assert self._pdf is not None
        try:
            with closing(self._pdf[fields["page"]]) as page:
                width, height = page.get_size()
                scale = fields["longest"] / max(width, height, 1.0)
                if not 0 < width * height * scale * scale <= LARGEST_PAGE_PIXELS:
                    raise DocumentUnreadableError("This page has no size that can be drawn.")
                drawn = page.render(scale=scale, may_draw_forms=False).to_pil()
        except pdfium.PdfiumError as error:
            raise DocumentUnreadableError("This page is damaged.") from error
        data = io.BytesIO()
        drawn.convert("RGB").save(data, "PNG")
        return {}, data.getvalue()

    def _page_text(self, number: int) -> str:
        assert self._pdf is not None
        with closing(self._pdf[number]) as page, closing(page.get_textpage()) as text:
            found = text.get_text_range().replace("\r\n", "\n").replace("\r", "\n")
        return cleaned(_HYPHENATED.sub("", found)).strip()


def _is_pdf(data: bytes) -> bool:
    """Also with bytes before its beginning."""
    begins = data[:1024].lstrip().startswith(b"%PDF-")
    return begins or (b"%PDF-" in data[:1024] and b"startxref" in data[-1024:])


def _opened(data: bytes, name: str) -> pdfium.PdfDocument:
    try:
        pdf = pdfium.PdfDocument(data)
        count = len(pdf)
    except pdfium.PdfiumError as error:
        if error.err_code == _WRONG_PASSWORD:
            raise DocumentUnreadableError(f"{name} is protected by a password.") from error
        raise DocumentUnreadableError(f"{name} is damaged, or isn't a PDF.") from error
    if count > MAX_DOCUMENT_PAGES:
        raise DocumentTooLargeError(
            f"{name} has {count:,} pages; the limit is {MAX_DOCUMENT_PAGES:,}."
        )
    if not count:
        raise DocumentUnreadableError(f"{name} has no pages.")
    return pdf


def _read(data: bytes, name: str) -> tuple[str, bool]:
    """A document's text; True if lines that begin with # are headings."""
    if data.startswith((b"PK\3\4", b"\xd0\xcf\x11\xe0")):
        return cleaned(office_text(data, name)), True
    text = decoded(data, name)
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    if suffix in HTML_SUFFIXES or _HTML.match(data[:1024]):
        return html_text(text), True
    return cleaned(text), suffix in MARKDOWN_SUFFIXES


def decoded(data: bytes, name: str) -> str:
    """Decode by byte order mark or declared encoding, else as UTF-8, else Windows-1252."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace").replace("\r\n", "\n")
    if b"\0" in data[:65_536]:
        raise DocumentUnreadableError(f"{name} isn't a text, PDF, Word or Excel document.")
    declared = _CHARSET.search(data[:2048])
    for encoding in ("utf-8", declared[1].decode() if declared else "cp1252"):
        try:
            return data.decode(encoding).replace("\r\n", "\n")
        except (UnicodeError, LookupError):
            continue
    return data.decode("cp1252", "replace").replace("\r\n", "\n")


def cleaned(text: str) -> str:
    return _CONTROL.sub("", text.replace("\r", "\n"))


class _HtmlText(HTMLParser):
    # All else ends the head, whose tags may be missing.
    IN_HEAD = frozenset("title meta link base style script noscript template".split())
    SKIPPED = frozenset("head title script style template noscript svg math iframe object".split())
    BLOCKS = frozenset(
        """address article aside blockquote body dd div dl dt fieldset figure footer form header hr
        li main nav ol p pre section table tr ul""".split()
    )

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._skipped: list[str] = []
        self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if self._skipped == ["head"] and tag not in self.IN_HEAD:
            self._skipped.clear()
        if tag in self.SKIPPED:
            self._skipped.append(tag)
        if self._skipped:
            return
        self._preformatted += tag == "pre"
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.pieces.append(f"\n\n{'#' * int(tag[1])} ")
        elif tag == "li":
            self.pieces.append("\n- ")
        elif tag in ("td", "th"):
            self.pieces.append("| " if self._begins_line() else " | ")
        elif tag in ("br", "tr"):
            self.pieces.append("\n")
        elif tag in self.BLOCKS:
            self.pieces.append("\n\n")

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        if tag not in self.SKIPPED:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._skipped:
            # An element that was left open ends with the one around it.
            del self._skipped[self._skipped.index(tag) :]
        elif not self._skipped:
            self._preformatted -= tag == "pre" and self._preformatted > 0
            if tag in self.BLOCKS or re.fullmatch("h[1-6]", tag):
                self.pieces.append("\n" if tag in ("tr", "li") else "\n\n")

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        if not self._preformatted:
            data = re.sub(r"\s+", " ", data)
            data = data.lstrip() if self._begins_line() else data
        self.pieces.append(data)

    def _begins_line(self) -> bool:
        return not self.pieces or self.pieces[-1].endswith("\n")


def html_text(source: str) -> str:
    """Convert headings and lists to Markdown; links become their words."""
    parser = _HtmlText()
    parser.feed(source)
    parser.close()
    text = re.sub(r"[ \t]+\n", "\n", cleaned("".join(parser.pieces)))
    return _BLANK_LINES.sub("\n\n", text).strip()
