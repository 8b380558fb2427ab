"""Windows' installer is told that Waymark runs, by every process that has its files open."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import pytest

import core.helper.__main__ as helper
import core.worker.__main__ as worker
from core.client import programs
from desktop import app


def test_a_mark_of_the_installers_name_is_held_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    kernel32 = SimpleNamespace(CreateMutexW=lambda *given: made.append(given))
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel32), raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    programs.say_running()
    assert made == [(None, False, programs.MARK)]


def test_elsewhere_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "windll", None, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    programs.say_running()


class ToldError(Exception):
    """The mark was asked for; no more of a program is run."""


@pytest.mark.parametrize("program", [app, worker, helper])
def test_every_process_holds_it(program: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> None:
        raise ToldError

    monkeypatch.setattr(program, "say_running", told)
    monkeypatch.setattr(program, "die_with_parent", lambda: None, raising=False)
    arguments: tuple[list[str], ...] = ([],) if program is app else ()
    with pytest.raises(ToldError):
        program.main(*arguments)  # type: ignore[attr-defined]
