"""Dropped or pasted data on its way into a draft: pictures to the engine, text into the field."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QDropEvent

from desktop.pictures.draft import Draft
from desktop.pictures.given_data import sort_data
from desktop.pictures.pictures import PictureController
from desktop.widgets.long_text import LongText
from desktop.words.pictures import PASTED


def take_data(data: QMimeData, draft: Draft, pictures: PictureController, text: LongText) -> str:
    """Take in what was given; returns why it was not taken, '' if it was."""
    given = sort_data(data)
    if given.files:
        pictures.add_files(draft, given.files)
    elif given.read is not None:
        pictures.add_bytes(draft, given.read, PASTED)
    elif given.text:
        text.take_text(given.text)
    return given.refused


def may_take(event: QDropEvent) -> bool:
    """Accept a drag that holds anything to take in; returns whether it does."""
    data = event.mimeData()
    if not (data.hasUrls() or data.hasImage() or data.hasText()):
        return False
    accept_copy(event)
    return True


def accept_copy(event: QDropEvent) -> None:
    """Answer Copy, whatever was proposed: after Move the source would delete its file."""
    event.setDropAction(Qt.DropAction.CopyAction)
    event.accept()
