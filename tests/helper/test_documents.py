"""Documents become text in parts; what is no document, or is too much, is refused by name."""

from __future__ import annotations

import datetime
import re

import pytest

from core.api import limits
from core.api.errors import DocumentTooLargeError, DocumentUnreadableError
from core.helper import documents, office
from core.helper.documents import DocumentTasks, html_text
from core.helper.sections import LONGEST_SECTION, sections
from tests.documents import W, archive, docx, paragraph, pdf, xlsx


def text_of(name: str, data: bytes) -> str:
    fields, attached = DocumentTasks().open({"name": name}, data)
    assert fields["pages"] == 0
    return attached.decode().replace("\f", "")


def pages_of(data: bytes) -> list[str]:
    tasks = DocumentTasks()
    fields, _ = tasks.open({"name": "a.pdf"}, data)
    found, attached = tasks.pages({"first": 0, "end": fields["pages"]}, b"")
    assert found == {"damaged": 0}
    return attached.decode().split("\f")


def test_a_pdf_is_read_page_by_page() -> None:
    assert pages_of(pdf(["First (page)\nsecond line", "", "Gr\xfc\xdfe"])) == [
        "First (page)\nsecond line",
        "",
        "Gr\xfc\xdfe",
    ]


def test_a_page_is_drawn() -> None:
    tasks = DocumentTasks()
    tasks.open({"name": "a.pdf"}, pdf(["Hello"]))
    _, drawn = tasks.picture({"page": 0, "longest": 300}, b"")
    assert drawn.startswith(b"\x89PNG") and drawn[16:24] == (200).to_bytes(4, "big") + (
        300
    ).to_bytes(4, "big")


def test_no_script_of_a_pdf_runs_and_nothing_it_names_is_opened() -> None:
    action = b"/OpenAction<</S/JavaScript/JS(app.alert\\(1\\))>>/AA<</WC<</S/URI/URI(http://x)>>>>"
    assert pages_of(pdf(["Hello"], action)) == ["Hello"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.pdf", b"%PDF-1.7 and nothing more", "a.pdf is damaged, or isn't a PDF."),
        ("a.zip", archive({"a.txt": "words"}), "an archive"),
        ("a.docx", archive({"word/document.xml": "<w:document"}), "a.docx is damaged."),
        ("a.xlsx", archive({"xl/workbook.xml": "<x/>"}), "a.xlsx is damaged."),
        ("a.docx", b"PK\3\4 cut off", "a.docx is damaged."),
        ("a.doc", b"\xd0\xcf\x11\xe0" + bytes(64), "old Office format, or protected"),
        ("a.bin", b"text\0and zeros", "a text, PDF, Word or Excel"),
    ],
)
def test_what_is_no_document_is_refused(name: str, data: bytes, words: str) -> None:
    with pytest.raises(DocumentUnreadableError, match=re.escape(words)):
        DocumentTasks().open({"name": name}, data)


def test_too_many_pages_are_refused_before_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_PAGES", 2)
    with pytest.raises(DocumentTooLargeError, match="3 pages"):
        DocumentTasks().open({"name": "a.pdf"}, pdf(["x"] * 3))


def test_an_archive_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "MOST_UNPACKED_BYTES", 100_000)
    bomb = archive({"word/document.xml": bytes(1_000_000)})
    assert len(bomb) < 5_000
    with pytest.raises(DocumentTooLargeError, match="unpacks to"):
        DocumentTasks().open({"name": "a.docx"}, bomb)


def test_a_text_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_CHARACTERS", 1_000)
    with pytest.raises(DocumentTooLargeError, match="characters"):
        DocumentTasks().open({"name": "a.txt"}, b"x" * 1_001)
    assert limits.MAX_DOCUMENT_CHARACTERS > 1_000_000


def test_entities_are_not_expanded_or_fetched() -> None:
    entities = (
        '<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
        '<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    )
    body = f'<w:document xmlns:w="{W}"><w:body>{paragraph("X")}</w:body></w:document>'
    with pytest.raises(DocumentUnreadableError):
        text_of("a.docx", archive({"word/document.xml": entities + body.replace("X", "&e;")}))


def test_a_word_document_keeps_its_headings_lists_and_tables() -> None:
    cell = "<w:tc>{}</w:tc>"
    table = "<w:tbl><w:tr>{}{}</w:tr></w:tbl>".format(
        cell.format(paragraph("a")), cell.format(paragraph("b") + paragraph("c"))
    )
    deleted = "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
    body = (
        paragraph("Title", "berschrift1")
        + paragraph("Words & <marks>")
        + paragraph("item", item=True)
        + table
        + deleted
    )
    assert text_of("a.docx", docx(body)) == ("# Title\n\nWords & <marks>\n\n- item\n\n| a | b c |")


def test_a_sheet_becomes_csv() -> None:
    day = datetime.datetime(2024, 1, 2)
    rows: list[list[object]] = [["name", "a, b", None], [], [1.0, 2.5, True, day, None]]
    assert text_of("a.xlsx", xlsx(rows, "Prices")) == (
        '# Prices\n\nname,"a, b"\n1,2.5,TRUE,2024-01-02\n\n'
    )


def test_html_becomes_its_words() -> None:
    page = (
        "<!DOCTYPE html><html><head><title>t</title><script>evil()</script></head><body>"
        "<h2>Head</h2><p>Some <b>bold</b>\n words.<br>Line<ul><li>one<li>two</ul>"
        "<table><tr><td>1<td>2</table><pre>x\n  y</pre><img src='http://x'><svg>no</svg>end"
    )
    assert html_text(page) == (
        "## Head\n\nSome bold words.\nLine\n\n- one\n- two\n\n| 1 | 2\n\nx\n  y\n\nend"
    )


def test_text_that_was_moved_is_read_where_it_is_now() -> None:
    moved = "<w:p><w:{0}><w:r><w:t>moved</w:t></w:r></w:{0}></w:p>"
    body = moved.format("moveFrom") + paragraph("between") + moved.format("moveTo")
    assert text_of("a.docx", docx(body)) == "between\n\nmoved\n"


@pytest.mark.parametrize(
    "page", ["<html><head><title>x</title><body>words", "<html><head><meta charset=utf-8><p>words"]
)
def test_the_end_of_a_head_may_be_left_out(page: str) -> None:
    assert html_text(page) == "words"


def test_a_text_about_pdf_is_a_text() -> None:
    code = "HEADER = b'%PDF-1.7'\n"
    assert text_of("a.py", code.encode()) == code
    tasks = DocumentTasks()
    assert tasks.open({"name": "a.pdf"}, b"junk" + pdf(["x"]))[0] == {"pages": 1}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Gr\xfc\xdfe\r\n".encode(), "Gr\xfc\xdfe\n"),
        ("Gr\xfc\xdfe".encode("utf-8-sig"), "Gr\xfc\xdfe"),
        ("Gr\xfc\xdfe".encode("utf-16"), "Gr\xfc\xdfe"),
        ("Gr\xfc\xdfe \x80".encode("latin-1"), "Gr\xfc\xdfe \u20ac"),
        (b"bell\x07 feed\x0c", "bell feed"),
        (b"<meta charset=undefined> \xff", "<meta charset=undefined> \xff"),
        (b"<meta charset=unicode_escape> \xff\\ud800", "<meta charset=unicode_escape> \xff?"),
    ],
)
def test_text_is_read_in_its_encoding(data: bytes, text: str) -> None:
    assert text_of("a.txt", data) == text


def test_sections_are_the_text_in_parts() -> None:
    long = "# One\n" + "words\n" * 100 + "## Two\n```\n# no heading\n```\n" + "x" * 20_000 + "\n"
    parts = list(sections(long, True))
    assert "".join(parts) == long
    assert parts[1].startswith("## Two\n") and max(map(len, parts)) <= LONGEST_SECTION
    assert list(sections("", True)) == []
