"""Whatever a request ends in becomes an event with words for a person; nothing ends the process."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import cast

import pytest
import torch

from core.api.chat import AssistantMessage
from core.api.commands import ClearCache, LoadModel
from core.api.errors import NoModelError, ProtocolError
from core.api.events import EVENTS, Answer, Done, Failed, Finished, Generated
from core.api.params import ModelSettings
from core.client.codec import MAX_FRAME_BYTES, decode, read_frame
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.engine.loaded import LoadedModel
from core.worker.__main__ import Outbox, Worker

SECRET = "what somebody wrote"


def no_model() -> Answer:
    raise NoModelError("Choose a model folder first.")


def too_much() -> Answer:
    torch.empty(2**61, dtype=torch.uint8)
    raise AssertionError("nobody has so much memory")


def no_memory() -> Answer:
    raise MemoryError


def gpu_full() -> Answer:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def surprise() -> Answer:
    raise ZeroDivisionError(SECRET)


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (no_model, "NoModelError"),
        (too_much, "NotEnoughMemoryError"),
        (no_memory, "NotEnoughMemoryError"),
        (gpu_full, "NotEnoughMemoryError"),
        (surprise, "InternalError"),
    ],
)
def test_every_error_has_a_name_and_quotes_nothing(
    action: Callable[[], Answer], name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = Engine()
    worker = Worker(io.BytesIO(), Outbox(io.BytesIO()), engine)
    worker._handlers[ClearCache] = lambda command, flag: action()
    event = worker._last_event(ClearCache(request=5), CancelFlag())
    assert isinstance(event, Failed) and event.request == 5
    assert event.error.name == name and 0 < len(event.error.message) < 1_000
    printed = capfd.readouterr().err
    assert SECRET not in printed + event.error.message
    if name == "InternalError":
        assert "ZeroDivisionError, raised at" in printed and __file__ in printed
        assert event.error.message.startswith("ZeroDivisionError at test_errors.py:")


def test_a_last_event_too_large_to_send_is_an_error_and_the_worker_goes_on() -> None:
    pipe = io.BytesIO()
    outbox = Outbox(pipe)
    reply = AssistantMessage(text="\0" * (MAX_FRAME_BYTES // 6))
    outbox.emit(Finished.unbegun(5).model_copy(update={"reply": reply}))
    outbox.emit(Done(request=6))
    pipe.seek(0)
    failed, done = (decode(EVENTS, read_frame(pipe) or b"") for _ in range(2))
    assert isinstance(failed, Failed) and (failed.request, done) == (5, Done(request=6))
    assert failed.error.name == "ProtocolError" and "too large" in failed.error.message


def test_words_too_large_to_send_end_their_request() -> None:
    with pytest.raises(ProtocolError):
        Outbox(io.BytesIO()).emit(Generated(request=5, answer="\0" * (MAX_FRAME_BYTES // 6)))


@pytest.mark.parametrize("kept", [True, False])
def test_a_failed_load_says_if_it_cost_the_model_before(kept: bool) -> None:
    pipe, engine = io.BytesIO(), Engine()
    engine.loaded = cast(LoadedModel, object()) if kept else None
    worker = Worker(io.BytesIO(), Outbox(pipe), engine)
    worker._handlers[LoadModel] = lambda command, flag: no_memory()
    worker._inbox.put(LoadModel(request=3, settings=ModelSettings(path="x")))
    entry = worker._inbox.take()
    assert entry is not None
    worker._answer(entry)
    pipe.seek(0)
    failed = decode(EVENTS, read_frame(pipe) or b"")
    assert isinstance(failed, Failed) and failed.no_model is not kept
