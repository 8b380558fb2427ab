from __future__ import annotations

import pytest

from desktop.engine.engine_status import EngineStatus, Phase
from tests.desktop.fake_engine import model_info


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (EngineStatus(), "Starting the engine"),
        (EngineStatus(Phase.LOADING), "Loading the model"),
        (EngineStatus(Phase.LOADING, done=512, total=1024), "Loading the model: 50 %"),
        (EngineStatus(Phase.READY, model_info()), "cpu, float32"),
        (EngineStatus(Phase.READY), "No model is loaded"),
        (EngineStatus(Phase.EMPTY), "No model is loaded"),
        (EngineStatus(Phase.RESTARTING), "The engine stopped; restarting it"),
        (EngineStatus(Phase.FAILED), "The engine could not be started"),
        (EngineStatus(Phase.CLOSED), "Closing"),
    ],
)
def test_every_state_has_words(status: EngineStatus, words: str) -> None:
    assert status.words() == words
    assert "Waiting for" in status.waiting_words()
