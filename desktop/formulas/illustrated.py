"""Puts drawings of formulas into the HTML of a block, on the line's baseline."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from html import unescape

from PySide6.QtGui import QFontMetrics, QImage

from desktop.formulas.formulas import EM, Drawing, Source, formulas, source_of

# More in one block stay as they were written: Qt lays out each picture on its own.
MOST_IN_BLOCK = 100
# A wider formula in a line of text is drawn smaller.
WIDEST_IN_LINE = 560
# Letters of formulas have lower small letters than those of interfaces.
LARGER = 1.12
SCHEME = "formula:"
_SPAN = re.compile(r'<span class="math">(.*?)</span>', re.DOTALL)
_ONE = re.compile(r'<p><span class="math">(?:(?!</span>).)*</span></p>', re.DOTALL)
_ALONE = re.compile(r'<p>(<img src="formula:[^>]*>)</p>')


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing in a text; `top` is the room above it. In pixels."""

    written: str
    drawing: Drawing
    width: int
    height: int
    top: float

    def image(self, colour: str, density: float) -> QImage:
        return self.drawing.image(colour, self.width, self.height, self.top, density)


class Illustrated:
    """A block's HTML with drawings, the pictures by their names, and the sources that may still
    come. `least_width` is that of a formula alone, which scrolls."""

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
