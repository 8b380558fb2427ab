"""Whatever a message holds, it can cross the pipe."""

from __future__ import annotations

from core.api.errors import ErrorInfo, MissingFileError


def test_half_a_character_in_a_message_is_spelt_out() -> None:
    info = MissingFileError("no \ud800 here").info()
    assert info.message == "no \\ud800 here"
    assert ErrorInfo.model_validate_json(info.model_dump_json()) == info
