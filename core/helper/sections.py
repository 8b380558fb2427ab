"""A text's sections, of which the model can be given some."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Between the parts of a text; removed from the parts themselves.
PART_END = "\f"
# A section ends before a heading if it is at least so long, and at a line's end before it gets
# longer than this.
SHORTEST_SECTION, LONGEST_SECTION = 500, 6_000
_HEADING = re.compile(r"#{1,6} \S")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def sections(text: str, has_headings: bool) -> Iterator[str]:
    """Lines of the text, unchanged when joined."""
    part: list[str] = []
    length = 0
    fenced = False
    for line in text.splitlines(keepends=True):
        fenced ^= _FENCE.match(line) is not None
        begins = has_headings and not fenced and _HEADING.match(line) is not None
        ends = begins and length >= SHORTEST_SECTION
        if part and (ends or length + len(line) > LONGEST_SECTION):
            yield "".join(part)
            part, length = [], 0
        # A file may be one line.
        while len(line) > LONGEST_SECTION:
            yield line[:LONGEST_SECTION]
            line = line[LONGEST_SECTION:]
        part.append(line)
        length += len(line)
    if part:
        yield "".join(part)
