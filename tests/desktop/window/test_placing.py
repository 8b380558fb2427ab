from __future__ import annotations

import pytest
from PySide6.QtCore import QRect, QSize

from desktop.window.sides import FRAME, fitted, fitted_size

SMALL, LARGE = QRect(0, 0, 1366, 768), QRect(1366, 0, 2560, 1400)


@pytest.mark.parametrize("screen", [SMALL, QRect(0, 0, 800, 500), QRect(70, 30, 1024, 700)])
def test_the_first_size_leaves_room_for_the_frame(screen: QRect) -> None:
    size = fitted_size(QSize(1280, 820), screen)
    assert (size + FRAME).boundedTo(screen.size()) == size + FRAME
    assert fitted_size(QSize(300, 200), screen) == QSize(300, 200)


@pytest.mark.parametrize(
    ("window", "place"),
    [
        # As it was left.
        (QRect(100, 100, 900, 600), QRect(100, 100, 900, 600)),
        (QRect(1500, 200, 2000, 1000), QRect(1500, 200, 2000, 1000)),
        (QRect(0, 0, 1366, 768), QRect(0, 0, 1366, 768)),
        # Hanging over an edge, and on a screen that is gone.
        (QRect(-300, -50, 900, 600), QRect(0, 0, 900, 600)),
        (QRect(3900, 100, 900, 600), QRect(3026, 100, 900, 600)),
        (QRect(9000, 9000, 900, 600), QRect(466, 168, 900, 600)),
        # Larger than the screen it lies on.
        (QRect(10, 10, 2000, 760), QRect(8, 10, 1358, 728)),
    ],
)
def test_a_window_comes_back_whole_on_a_screen(window: QRect, place: QRect) -> None:
    assert fitted(window, [SMALL, LARGE]) == place
