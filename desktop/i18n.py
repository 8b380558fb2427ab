"""Translation of the window's sentences, which are written beside the code that shows them."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication


def tr(text: str, comment: str = "", n: int = -1) -> str:
    """The text in the user's language; `pyside6-lupdate` extracts literal arguments.

    Call it when the text is shown, never at import time: translators are installed after imports.
    `n` replaces `%n` and chooses the plural; other values go in with `str.format`.
    """
    return QCoreApplication.translate("", text, comment, n)
