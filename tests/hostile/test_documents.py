"""Documents made to break readers: each ends in a name or in text, and costs a helper at most."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator

import pytest

from core.api.errors import DocumentError
from desktop.documents import reading
from desktop.documents.reading import DocumentReader
from desktop.store.tables.records import Document
from tests.documents import W, archive, docx, paragraph, pdf, xlsx
from tests.hostile.counts import each_of
from tests.hostile.mutation import mutated_bytes

MEMORY = 500 * 2**20
CONTENT = "[Content_Types].xml"


@pytest.fixture
def reader(watched: list[int], monkeypatch: pytest.MonkeyPatch) -> Iterator[DocumentReader]:
    """Its helper may open nothing, and has seconds where a user's has ten."""
    monkeypatch.setattr(reading, "OPEN_S", 2.0)
    monkeypatch.setattr(reading, "PAGES_S", 2.0)
    monkeypatch.setattr(reading, "MEMORY_BYTES", MEMORY)
    made = DocumentReader()
    yield made
    made.close()


def read(reader: DocumentReader, name: str, data: bytes) -> Document | str:
    """The document, or the message of its error."""
    try:
        return reader.text_of(data, name, lambda _words: True)
    except DocumentError as error:
        return error.message


def looping_pages() -> bytes:
    """A page tree that contains itself."""
    return pdf(["x"]).replace(b"/Kids[4 0 R]", b"/Kids[2 0 R]")


def looping_table() -> bytes:
    """A table of objects that names itself as the one before."""
    data = pdf(["x"])
    start = re.findall(rb"startxref\n(\d+)", data)[0]
    return data.replace(b"/Root 1 0 R", b"/Root 1 0 R/Prev " + start)


def inflating_page() -> bytes:
    """A page of 400 MB in half a megabyte."""
    packed = zlib.compress(b"BT " + b" " * 400_000_000, 9)
    data = pdf(["x"])
    stream = re.compile(rb"<</Length \d+>>stream\n.*?\nendstream", re.DOTALL)
    head = b"<</Filter/FlateDecode/Length %d>>stream\n" % len(packed)
    return stream.sub(lambda _found: head + packed + b"\nendstream", data)


def lying_archive() -> bytes:
    """A Word document that says it unpacks to 10 bytes."""
    data = bytearray(docx(paragraph("x" * 3_000_000)))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as whole:
        size = whole.getinfo("word/document.xml").file_size
    return bytes(data).replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))


def laughing() -> bytes:
    """Entities that grow to 10 GB."""
    entities = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 10))
    return archive(
        {
            "word/document.xml": f'<!DOCTYPE d [<!ENTITY e0 "0123456789">{entities}]>'
            f'<w:document xmlns:w="{W}"><w:body><w:p><w:r><w:t>&e9;</w:t></w:r></w:p>'
            "</w:body></w:document>"
        }
    )


def outside(kind: str) -> bytes:
    return archive(
        {
            "word/document.xml": f'<!DOCTYPE d {kind}><w:document xmlns:w="{W}"><w:body>'
            "<w:p><w:r><w:t>&e;</w:t></w:r></w:p></w:body></w:document>"
        }
    )


def huge_sheet() -> bytes:
    """A sheet whose only cells are at its four ends."""
    book = xlsx([["x"]])
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.startswith("xl/worksheets/sheet"):
                cells = "".join(
                    f'<row r="{row}"><c r="XFD{row}"><v>1</v></c></row>'
                    for row in (1, *range(1_000_000, 1_048_577))
                )
                data = re.sub(rb"<sheetData>.*</sheetData>", b"<sheetData/>", data)
                data = data.replace(b"<sheetData/>", f"<sheetData>{cells}</sheetData>".encode())
            new.writestr(name, data)
    return changed.getvalue()


REFUSED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "pages": ("a.pdf", lambda: pdf([""] * 10_000)),
    "unpacked": ("a.docx", lambda: archive({"word/document.xml": bytes(300_000_000)})),
    "laughs": ("a.docx", laughing),
    "fetched": ("a.docx", lambda: outside('[<!ENTITY e SYSTEM "http://127.0.0.1:9/x">]')),
    "opened": ("a.docx", lambda: outside('[<!ENTITY e SYSTEM "file:///etc/passwd">]')),
    "deep": ("a.docx", lambda: docx("<w:p>" * 50_000 + "</w:p>" * 50_000)),
    "lies": ("a.docx", lying_archive),
    "sheet": ("a.xlsx", huge_sheet),
    "files": ("a.docx", lambda: archive({f"{at}.xml": "" for at in range(20_001)})),
    "long": ("a.txt", lambda: b"x" * 5_000_000),
    "comment": ("a.html", lambda: b"<!DOCTYPE html><!--" * 300_000),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_bomb_is_refused_by_name(kind: str, reader: DocumentReader) -> None:
    name, make = REFUSED[kind]
    refused = read(reader, name, make())
    assert isinstance(refused, str) and name in refused
    # The next document is read.
    found = read(reader, "b.txt", b"words")
    assert isinstance(found, Document) and found.parts == ("words",)


@pytest.mark.parametrize("make", [looping_pages, looping_table, inflating_page])
def test_a_strange_pdf_ends(make: Callable[[], bytes], reader: DocumentReader) -> None:
    found = read(reader, "a.pdf", make())
    assert isinstance(found, str) or all(len(part) < 100 for part in found.parts)


def test_links_macros_and_embedded_files_are_left_alone(reader: DocumentReader) -> None:
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Type="x/attachedTemplate" Target="http://127.0.0.1:9/x.dotm"'
        ' TargetMode="External"/></Relationships>'
    )
    others = {"word/_rels/settings.xml.rels": relations, "word/vbaProject.bin": "x" * 100}
    found = read(reader, "a.docm", docx(paragraph("words"), others))
    assert isinstance(found, Document) and found.parts == ("words\n",)
    page = b"<!DOCTYPE html><img src='file:///etc/passwd'><iframe src='http://127.0.0.1:9'>x"
    page += b"</iframe><link rel=stylesheet href='http://127.0.0.1:9'><p>words"
    found = read(reader, "a.html", page)
    assert isinstance(found, Document) and found.parts == ("words",)


SOURCES: dict[str, Callable[[int], bytes]] = {
    "a.pdf": lambda seed: pdf([f"page {at}\nwords (more)" for at in range(1 + seed % 4)]),
    "a.docx": lambda seed: docx(
        paragraph("Title", "berschrift1") + paragraph("words") * (seed % 5)
    ),
    "a.xlsx": lambda seed: xlsx([["a", seed, 1.5]] * 3),
    "a.html": lambda seed: b"<!DOCTYPE html><h1>x</h1><ul><li>a</ul><table><tr><td>1</table>" * 3,
}


def mutant(name: str, seed: int) -> bytes:
    """A mutant of the file, or of one of the files in it, whose checksum is then right."""
    data = SOURCES[name](seed)
    if not data.startswith(b"PK") or seed % 4 == 0:
        return mutated_bytes(data, seed)
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        inside = {each: whole.read(each) for each in whole.namelist()}
    hit = sorted(inside)[seed % len(inside)]
    return archive({**inside, hit: mutated_bytes(inside[hit], seed, most=1)})


@each_of(1_000)
@pytest.mark.parametrize("name", SOURCES)
def test_mutants_of_documents_cost_their_helper_at_most(
    name: str, seeds: range, reader: DocumentReader
) -> None:
    whole = 0
    for seed in seeds:
        found = read(reader, name, mutant(name, seed))
        if isinstance(found, Document):
            whole += 1
            assert found.parts and all("\f" not in part for part in found.parts)
    assert whole > 0
