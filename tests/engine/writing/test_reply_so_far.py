"""What the window can store of a reply whose engine died: the ids so far, read as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.api.chat import AssistantMessage, ReplyIds
from core.api.events import Generated, Prefilling
from core.engine.loaded import LoadedModel
from tests.promises.machine import Answer, Machine, user


def so_far(answer: Answer) -> ReplyIds | None:
    """The reply's ids, told from the events before the last one."""
    begun: ReplyIds | None = None
    for event in answer.events:
        if isinstance(event, Prefilling):
            begun = event.begun
        elif isinstance(event, Generated):
            assert begun is not None
            begun = begun.extended(event.ids)
    return begun


@pytest.mark.parametrize("model", ["hybrid", "thinking"])
def test_T3_a_reply_that_was_broken_off_keeps_its_ids(
    loaded_of: Callable[..., LoadedModel], model: str
) -> None:
    machine = Machine(loaded_of(model))
    answer = machine.ask([user("Hello")], thinking=True)
    assert answer.finished.reason == "length"
    broken_off = so_far(answer)
    assert broken_off is not None and answer.reply.ids is not None
    assert broken_off == answer.reply.ids and broken_off.paused() == answer.paused.ids
    assert answer.reply.ids.starts_in_reasoning is (model == "thinking")
    cut = AssistantMessage(text="", ids=so_far(answer))
    more = machine.ask([user("Hello"), cut], thinking=True)
    broken_off = so_far(more)
    assert broken_off is not None and more.reply.ids is not None
    assert broken_off.pauses == (4,) and broken_off.paused() == more.paused.ids
    assert more.reply.ids.unpack() == [*answer.reply.ids.unpack(), *more.ids]


def test_how_fast_it_comes_is_said_with_every_burst(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    answer = Machine(loaded_of("hybrid")).ask([user("Hello")])
    bursts = [event for event in answer.events if isinstance(event, Generated)]
    stats = answer.finished.stats
    assert len(bursts) > 1
    assert {burst.ttft_s for burst in bursts} == {stats.ttft_s}
    assert bursts[0].decode_tokens_per_s is None
    assert all((burst.decode_tokens_per_s or 0) > 0 for burst in bursts[1:])
