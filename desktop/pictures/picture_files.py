"""Reads files that may be pictures, and says why some aren't added."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from core.api.errors import ImageTooLargeError, NotRegularFileError, WaymarkError
from core.api.limits import MAX_PICTURE_BYTES, PICTURE_BEGINNING, picture_format
from core.client.blobs import open_regular
from desktop.i18n import tr
from desktop.numbers import format_bytes, format_count

NAMES_SHOWN = 3
SENTENCES_SHOWN = 4


class Refusal(NamedTuple):
    """`name` as the user knows it. `why` is a sentence about `{names}`, for one and for several;
    `said` one in its place."""

    name: str = ""
    why: tuple[str, str] | None = None
    said: str = ""


def read_picture_file(path: Path) -> bytes:
    return read_up_to(path, MAX_PICTURE_BYTES, ImageTooLargeError)


def read_up_to(path: Path, most: int, error: type[WaymarkError]) -> bytes:
    """Raises OSError, or `error` for a larger file."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise error(tr("It is larger than {limit}.").format(limit=format_bytes(most)))
    return data


def why_no_picture(path: Path) -> tuple[str, str] | None:
    """None if it may be a picture."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            beginning = file.read(PICTURE_BEGINNING)
    except NotRegularFileError as error:
        if error.folder:
            return (
                tr("{names} is a folder. Add the files inside it."),
                tr("{names} are folders. Add the files inside them."),
            )
        return tr("{names} is not a file."), tr("{names} are not files.")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        one, many = tr("{names} can't be read ({reason})."), tr("{names} can't be read ({reason}).")
        return one.replace("{reason}", reason), many.replace("{reason}", reason)
    if size > MAX_PICTURE_BYTES:
        limit = format_bytes(MAX_PICTURE_BYTES)
        one, many = tr("{names} is larger than {limit}."), tr("{names} are larger than {limit}.")
        return one.replace("{limit}", limit), many.replace("{limit}", limit)
    if not size:
        return tr("{names} is empty."), tr("{names} are empty.")
    if picture_format(beginning) is not None:
        return None
    return (
        tr("{names} is neither a picture nor a document that Waymark can read."),
        tr("{names} are neither pictures nor documents that Waymark can read."),
    )


def not_added(refusals: Iterable[Refusal]) -> str:
    """A few names for each reason, and how many more."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    sentences: list[str] = []
    for name, why, said in dict.fromkeys(refusals):
        if why is not None:
            by_reason.setdefault(why, []).append(name)
        elif not name:
            sentences.append(said)
        elif name in said:
            sentences.append(tr("Not added: {reason}").format(reason=said))
        else:
            sentences.append(tr("{name} was not added: {reason}").format(name=name, reason=said))
    grouped = [_grouped(why, names) for why, names in by_reason.items()]
    more = len(sentences) - SENTENCES_SHOWN
    if more > 0:
        words = (
            tr("And {count} more was not added.")
            if more == 1
            else tr("And {count} more were not added.")
        )
        sentences[SENTENCES_SHOWN:] = [words.format(count=format_count(more))]
    return "\n".join([*grouped, *sentences])


def _grouped(why: tuple[str, str], names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        more = tr("and {count} more").format(count=format_count(len(names) - NAMES_SHOWN))
        shown = f"{shown} {more}"
    reason = why[0 if len(names) == 1 else 1].replace("{names}", shown)
    return tr("Not added: {reason}").format(reason=reason)
