"""Documents for tests, written byte by byte: PDFs, and Word and Excel files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def pdf(pages: Sequence[str], extra: bytes = b"") -> bytes:
    """A PDF whose pages show these lines; `extra` goes into the catalog."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R" + extra + b">>",
        b"<</Type/Pages/Count %d/Kids[%s]>>"
        % (len(pages), b" ".join(b"%d 0 R" % (4 + 2 * at) for at in range(len(pages)))),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for at, text in enumerate(pages):
        lines = [b"(%s)Tj T*" % _escaped(line) for line in text.split("\n")]
        content = b"BT /F1 10 Tf 12 TL 20 280 Td " + b" ".join(lines) + b" ET"
        objects += [
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 300]/Resources<</Font<</F1 3 0 R>>>>"
            b"/Contents %d 0 R>>" % (5 + 2 * at),
            b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        ]
    data = bytearray(b"%PDF-1.7\n")
    places = []
    for number, written in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, written)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    data += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(data)


def _escaped(line: str) -> bytes:
    data = line.encode("latin-1")
    return data.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def archive(files: dict[str, str | bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in files.items():
            written.writestr(name, content)
    return data.getvalue()


def paragraph(text: str, style: str = "", item: bool = False) -> str:
    """A paragraph of Word; `style` is the id of its style."""
    properties = f'<w:pStyle w:val="{style}"/>' if style else ""
    properties += "<w:numPr/>" if item else ""
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"


def docx(body: str, others: dict[str, str] | None = None) -> bytes:
    """A Word document with this body, whose style `berschrift1` is a heading."""
    styles = f'<w:styles xmlns:w="{W}"><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/>'
    return archive(
        {
            "word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>',
            "word/styles.xml": f"{styles}</w:style></w:styles>",
            **(others or {}),
        }
    )


def xlsx(rows: Iterable[Sequence[object]], title: str = "Sheet") -> bytes:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet(title)
    for row in rows:
        sheet.append(row)
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()
