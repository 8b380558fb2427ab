"""A model that does not fit beside the present one: when that is given up, and that it is said."""

from __future__ import annotations

import io
from typing import Any

import pytest

from core.api.commands import LoadModel
from core.api.errors import NotEnoughMemoryError
from core.api.events import EVENTS, Failed
from core.api.params import ModelSettings
from core.client.codec import decode, read_frame
from core.engine import engine as engine_module
from core.engine import loaded as loaded_module
from core.engine.loaded import LoadedModel
from core.weights.memory import HEADROOM_BYTES
from core.worker.inbox import Entry
from core.worker.worker import Outbox, Worker
from tests.promises.machine import Machine


def no_memory(*_: object) -> LoadedModel:
    raise NotEnoughMemoryError("There is no memory.")


@pytest.mark.parametrize(
    ("free", "kept"),
    [(0, True), (HEADROOM_BYTES, False), (2**40, False)],
    ids=["not even alone", "in its place", "beside"],
)
def test_the_present_model_goes_only_where_the_new_one_fits_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, free: int, kept: bool
) -> None:
    monkeypatch.setattr(engine_module, "load", no_memory)
    monkeypatch.setattr(loaded_module, "available_bytes", lambda device: free)
    events = io.BytesIO()
    worker = Worker(io.BytesIO(), Outbox(events), machine.engine)
    settings: dict[str, Any] = {"path": machine.base.settings.path, "precision": "float32"}
    worker._inbox.put(LoadModel(request=3, settings=ModelSettings(device="cpu", **settings)))
    entry = worker._inbox.take()
    assert isinstance(entry, Entry)
    worker._answer(entry)
    events.seek(0)
    body = read_frame(events)
    assert body is not None
    failed = decode(EVENTS, body)
    assert isinstance(failed, Failed) and failed.error.name == "NotEnoughMemoryError"
    assert failed.no_model is not kept
    assert (machine.engine.loaded is not None) is kept
