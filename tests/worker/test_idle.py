"""Writing contexts to disk when idle: one segment at a time, and failures are logged."""

from __future__ import annotations

import pytest

from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.worker.__main__ import IdleWriter


class Disk(Engine):
    """An engine with so many segments to write, one of which may fail."""

    def __init__(self, segments: int, broken: bool = False) -> None:
        super().__init__()
        self.segments = segments
        self.broken = broken
        self.written = self.checked = 0

    def write_some(self, flag: CancelFlag) -> bool:
        if self.broken:
            raise OSError("the disk is gone")
        self.written += self.segments > 0
        self.segments -= self.segments > 0
        return self.segments > 0

    def check_integrity(self) -> None:
        self.checked += 1
        raise AssertionError("a sum is wrong")


def test_D2_one_segment_at_a_time_is_written_when_idle() -> None:
    disk = Disk(segments=2)
    writer = IdleWriter(disk, idle_s=7)
    writer.request_ended()
    seen = [(writer.wait_s, disk.written)]
    for _ in range(2):
        writer.step()
        seen.append((writer.wait_s, disk.written))
    # The inbox is looked at before each; in the end there is nothing to wait for.
    assert seen == [(7, 0), (0, 1), (None, 2)] and disk.checked == 0


def test_what_fails_while_idle_is_logged_and_waits_for_the_next_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    writer = IdleWriter(Disk(segments=1, broken=True), idle_s=7)
    writer.request_ended()
    writer.step()
    assert writer.wait_s is None and "OSError, raised at" in capsys.readouterr().err
    writer.request_ended()
    assert writer.wait_s == 7


def test_integrity_is_checked_when_all_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    disk = Disk(segments=2)
    writer = IdleWriter(disk, checks=True)
    writer.step()
    assert disk.checked == 0
    writer.step()
    assert disk.checked == 1 and "AssertionError, raised at" in capsys.readouterr().err
