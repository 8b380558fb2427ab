"""Dropped or pasted data on its way into a draft: pictures to the engine, text into the field."""

from __future__ import annotations

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QDragEnterEvent

from desktop.controllers.drafting.pictures import PictureController
from desktop.presentation.draft import Draft
from desktop.views.given_data import sort_data
from desktop.views.widgets.long_text import LongText
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


def may_take(event: QDragEnterEvent) -> bool:
    """Whether there is anything in a drag that could be taken in."""
    data = event.mimeData()
    return bool(data.hasUrls() or data.hasImage() or data.hasText())
