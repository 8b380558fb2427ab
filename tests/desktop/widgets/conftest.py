"""The app dressed as the user sees it, and undressed again for the next test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication

from desktop import theme


@pytest.fixture(autouse=True)
def dressed(qapp: QApplication) -> Iterator[QApplication]:
    theme.apply(qapp)
    theme.force(qapp, "light")
    yield qapp
    theme.force(qapp, "system")
