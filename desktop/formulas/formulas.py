"""Formulas as drawings in a block's HTML, made in a helper process and kept by their source.

A formula is shown as it was written until its drawing is there.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from html import unescape
from typing import NamedTuple

from PySide6.QtCore import QByteArray, QObject, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QFontMetrics, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from core.api.errors import WaymarkError
from core.helper.process import Helper, HelperFailedError
from desktop.threads import DaemonExecutor

# The size of letters in the helper's drawings.
EM = 16.0
MEMORY_BYTES = 2**30
# Formulas take milliseconds; of a batch that takes longer, each is tried alone.
BATCH, BATCH_S, ALONE_S = 16, 6.0, 2.0
LONGEST = 2_000
# Drawings kept, and formulas that may wait: about a thousand screens of them.
MOST_KEPT = 4_000
MOST_WAITING = 4_000
# At least those of one block: it asks again for what is missing.
MOST_KEPT_BYTES = 2**27
# More, some 400 letters, would take longer than a moment to show.
LARGEST_BYTES = 600_000
# The helper ends when nothing was asked of it for this long.
IDLE_MS = 30_000
_CLOSERS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$", "$": "$"}
# Only shapes: a drawing that named a file would have it opened.
_SAFE = re.compile(r"<svg[^<>]*>(?:</?(?:path|rect|line|polyline|g)\b[^<>&:]*>)*</svg>")
# More in one block stay as they were written: Qt lays out each picture on its own.
MOST_IN_BLOCK = 100
# A wider formula in a line of text is drawn smaller.
WIDEST_IN_LINE = 560
# Letters of formulas have lower small letters than those of interfaces.
LARGER = 1.12
SCHEME = "formula:"
# A helper that reads strangers' formulas may answer anything.
FAILURES = (HelperFailedError, WaymarkError, KeyError, TypeError, ValueError)
_SPAN = re.compile(r'<span class="math">(.*?)</span>', re.DOTALL)
_ONE = re.compile(r'<p><span class="math">(?:(?!</span>).)*</span></p>', re.DOTALL)
_ALONE = re.compile(r'<p>(<img src="formula:[^>]*>)</p>')


class Source(NamedTuple):
    """A formula without its delimiters."""

    latex: str
    display: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """Sizes are in pixels at letters of `EM`."""

    source: str
    width: float
    ascent: float
    descent: float
    svg: str

    def image(self, colour: str, width: int, height: int, top: float, density: float) -> QImage:
        """`top` is the drawing's upper edge, in pixels."""
        return _image(self, colour, width, height, top, density)


# Qt asks for an image each time it paints it.
@lru_cache(maxsize=256)
def _image(
    drawing: Drawing, colour: str, width: int, height: int, top: float, density: float
) -> QImage:
    image = QImage(
        round(width * density), round(height * density), QImage.Format.Format_ARGB32_Premultiplied
    )
    image.setDevicePixelRatio(density)
    image.fill(Qt.GlobalColor.transparent)
    coloured = drawing.svg.replace('"black"', f'"{colour}"')
    painter = QPainter(image)
    scale = width / drawing.width
    place = QRectF(0, top, width, (drawing.ascent + drawing.descent) * scale)
    QSvgRenderer(QByteArray(coloured.encode())).render(painter, place)
    painter.end()
    return image


def source_of(written: str) -> Source | None:
    """None while it isn't closed."""
    opener = next((each for each in _CLOSERS if written.startswith(each)), "")
    closer = _CLOSERS.get(opener, "")
    latex = written[len(opener) : -len(closer) or None]
    if not opener or not written.endswith(closer) or len(written) < len(opener + closer) + 1:
        return None
    return Source(latex.strip(), opener in ("\\[", "$$")) if latex.strip() else None


class Formulas(QObject):
    # frozenset[Source]: their drawings are there, or there can't be any.
    ready = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._drawings: OrderedDict[Source, Drawing | None] = OrderedDict()
        self._num_bytes = 0
        self._waiting: OrderedDict[Source, None] = OrderedDict()
        self._helper: Helper | None = None
        self._executor: DaemonExecutor | None = None
        self._busy = False
        self._idle = QTimer(self, singleShot=True, interval=IDLE_MS)
        self._idle.timeout.connect(self._rest)
        self.ready.connect(self._on_ready)

    def begin(self) -> None:
        self._executor, self._helper = DaemonExecutor("formulas", 1), Helper(MEMORY_BYTES)

    def close(self) -> None:
        self._idle.stop()
        self._waiting.clear()
        self._drawings.clear()
        self._num_bytes = 0
        _image.cache_clear()
        if self._executor is not None and self._helper is not None:
            self._executor.submit(self._helper.close)
            self._executor.shutdown()
        self._executor = self._helper = None
        self._busy = False

    def find(self, source: Source) -> Drawing | None:
        """Otherwise `ready` tells when it is there, or that there is none."""
        if source in self._drawings:
            self._drawings.move_to_end(source)
            return self._drawings[source]
        if self._executor is not None and len(source.latex) <= LONGEST:
            # The newest are looked at now.
            self._waiting[source] = None
            self._waiting.move_to_end(source)
            if len(self._waiting) > MOST_WAITING:
                self._waiting.popitem(last=False)
            self._go_on()
        return None

    def is_pending(self, source: Source) -> bool:
        return source in self._waiting

    def _go_on(self) -> None:
        if self._busy or not self._waiting or self._executor is None or self._helper is None:
            return
        self._busy = True
        self._idle.stop()
        batch = list(reversed(self._waiting))[:BATCH]
        helper = self._helper
        self._executor.submit(lambda: self._drawn.emit(batch, _draw(helper, batch)))

    # From the thread: list[Source], list[Drawing | None].
    _drawn = Signal(object, object)

    def _on_ready(self, _sources: frozenset[Source]) -> None:
        self._go_on()
        if not self._busy:
            self._idle.start()

    def take(self, batch: Sequence[Source], drawings: Sequence[Drawing | None]) -> None:
        self._busy = False
        if self._executor is None:
            return
        for source, drawing in zip(batch, drawings, strict=True):
            self._waiting.pop(source, None)
            self._num_bytes += _size(drawing) - _size(self._drawings.get(source))
            self._drawings[source] = drawing
        while len(self._drawings) > MOST_KEPT or self._num_bytes > MOST_KEPT_BYTES:
            self._num_bytes -= _size(self._drawings.popitem(last=False)[1])
        self.ready.emit(frozenset(batch))

    def _rest(self) -> None:
        if self._executor is not None and self._helper is not None:
            self._executor.submit(self._helper.close)


def _size(drawing: Drawing | None) -> int:
    return len(drawing.svg) if drawing is not None else 0


def _draw(helper: Helper, batch: Sequence[Source]) -> list[Drawing | None]:
    with contextlib.suppress(*FAILURES):
        return _ask(helper, batch, BATCH_S)
    found: list[Drawing | None] = []
    for source in batch:
        try:
            found += _ask(helper, [source], ALONE_S)
        except FAILURES:
            found.append(None)
    return found


def _ask(helper: Helper, batch: Sequence[Source], seconds: float) -> list[Drawing | None]:
    fields, attached = helper.ask("formulas.render", {"formulas": batch}, seconds=seconds)
    svgs = iter(attached.decode("utf-8", "replace").split("\0"))
    return [
        _checked(source, size, next(svgs, "")) if size else None
        for source, size in zip(batch, fields["sizes"], strict=True)
    ]


def _checked(source: Source, size: Sequence[float], svg: str) -> Drawing | None:
    width, ascent, descent = size
    if (
        len(svg) > LARGEST_BYTES
        or not _SAFE.fullmatch(svg)
        or not width > 0
        or not ascent + descent > 0
    ):
        return None
    return Drawing(source.latex, width, ascent, descent, svg)


@cache
def formulas() -> Formulas:
    made = Formulas()
    made._drawn.connect(made.take)
    return made


@dataclass(frozen=True, slots=True)
class Picture:
    """`top` is the room above it. In pixels."""

    written: str
    drawing: Drawing
    width: int
    height: int
    top: float

    def image(self, colour: str, density: float) -> QImage:
        return self.drawing.image(colour, self.width, self.height, self.top, density)


class Illustrated:
    """Drawings of `pending` may still come. A formula alone, of `least_width`, scrolls."""

    def __init__(self, html: str, metrics: QFontMetrics, pixels: float) -> None:
        self.pictures: dict[str, Picture] = {}
        self.pending: set[Source] = set()
        self.least_width = 0
        self._scale = LARGER * pixels / EM
        # Qt puts a picture's middle this far above the baseline.
        self._middle = metrics.xHeight() / 2
        # Alone, the formula may be as wide as it is.
        self._alone = _ONE.fullmatch(html.strip()) is not None
        self.html = _SPAN.sub(self._drawn, html)
        if self._alone and _ALONE.fullmatch(self.html):
            self.least_width = max(each.width for each in self.pictures.values())
            self.html = _ALONE.sub(r'<p align="center">\1</p>', self.html)

    def _drawn(self, span: re.Match[str]) -> str:
        written = unescape(span[1].replace("<br>", "\n"))
        source = source_of(written)
        if source is None or len(self.pictures) >= MOST_IN_BLOCK:
            return span[0]
        drawing = formulas().find(source)
        if drawing is None:
            if formulas().is_pending(source):
                self.pending.add(source)
            return span[0]
        scale = self._scale
        if not self._alone:
            scale *= min(1.0, WIDEST_IN_LINE / (drawing.width * scale))
        ascent, descent = drawing.ascent * scale, drawing.descent * scale
        # Room above or below, so that the picture's middle is where Qt puts it.
        height = math.ceil(max(2 * ascent - self._middle, 2 * descent + self._middle, 1))
        name = f"{SCHEME}{len(self.pictures)}"
        picture = Picture(
            written,
            drawing,
            max(1, round(drawing.width * scale)),
            height,
            (height + self._middle) / 2 - ascent,
        )
        self.pictures[name] = picture
        return (
            f'<img src="{name}" width="{picture.width}" height="{picture.height}"'
            ' style="vertical-align: middle">'
        )
