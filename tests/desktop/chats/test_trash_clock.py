"""The trash's clock: a moment counts once a look a day later has confirmed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from desktop.chats.deletion import confirmed_moment as confirmed

DAY = 86_400.0
YEAR = 365 * DAY
NOW = 1_800_000_000.0


def test_a_moment_counts_when_a_later_look_confirms_it(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    assert confirmed(path, NOW) is None
    assert confirmed(path, NOW + DAY - 1) is None
    assert confirmed(path, NOW + DAY) == NOW
    assert confirmed(path, NOW + DAY + 1) == NOW
    assert confirmed(path, NOW + 2 * DAY) == NOW + DAY
    assert path.stat().st_mode & 0o077 == 0


def test_a_clock_that_jumps_ahead_and_is_put_right_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    confirmed(path, NOW)
    for hour in range(20):
        assert confirmed(path, NOW + YEAR + hour * 3_600) == NOW
    assert confirmed(path, NOW + 2 * DAY) == NOW
    assert confirmed(path, NOW + 3 * DAY) == NOW + 2 * DAY


def test_a_clock_that_was_ahead_for_days_is_no_longer_believed_when_it_is_right(
    tmp_path: Path,
) -> None:
    path = tmp_path / "clock"
    for day in range(4):
        confirmed(path, NOW + YEAR + day * DAY)
    assert confirmed(path, NOW) is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"seen": "x", "confirmed": []}', b"[" * 9_999]
)
def test_a_file_that_says_nothing_begins_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clock"
    path.write_bytes(content)
    assert confirmed(path, NOW) is None
    assert confirmed(path, NOW + DAY) == NOW
