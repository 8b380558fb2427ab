"""T3, S7, X1: an edited reply is read from the edit on, to the same bits as cold."""

from __future__ import annotations

import pytest

from core.api.chat import AssistantMessage, Message, ReplyIds
from core.api.commands import EditReply
from core.api.params import CacheSettings
from tests.promises.fixtures import PURE, RECURRENT, families
from tests.promises.machine import Machine, num_common, system, user, words

# Gemma 4's template writes three tokens before a new reply that it doesn't before an old one.
FAMILIES = [each for each in ("hybrid", *RECURRENT, *PURE) if not each.startswith("gemma4")]


def written(machine: Machine, text: str) -> AssistantMessage:
    """A reply as if the model had sampled it."""
    loaded = machine.engine.loaded
    assert loaded is not None
    ids = loaded.text._kit.tokenizer.ids(text)
    return AssistantMessage(
        text=text, ids=ReplyIds.pack(ids, loaded.text.tokenizer_fingerprint, False)
    )


def edited(machine: Machine, reply: AssistantMessage, text: str) -> tuple[AssistantMessage, int]:
    """The reply with another text, and how many of its ids are before the edit."""
    ids = machine.engine.edit_reply(EditReply(request=1, reply=reply, text=text)).ids
    assert ids is not None and reply.ids is not None
    kept = ids.pauses[-1]
    assert ids.unpack()[:kept] == reply.ids.unpack()[:kept]
    return AssistantMessage(text=text, ids=ids), kept


def begun(reply: AssistantMessage, kept: int) -> AssistantMessage:
    """The part before the edit, which idle work reads while the user types."""
    assert reply.ids is not None
    ids = reply.ids.model_copy(update={"data": reply.ids.data[: 4 * kept]})
    return AssistantMessage(text="", ids=ids)


@pytest.mark.parametrize("machine", families(*FAMILIES), indirect=True)
def test_T3_S7_an_edited_reply_is_read_from_the_edit_on(machine: Machine) -> None:
    chat: list[Message] = [system("Be brief."), user(words(12))]
    start = machine.ask(chat).stats.prompt_tokens
    reply = written(machine, words(60))
    machine.settle([*chat, reply])
    parts = reply.text.split(" ")
    better, kept = edited(machine, reply, " ".join([*parts[:40], "changed", *parts[45:]]))
    assert better.ids is not None and 0 < kept < better.ids.num_ids
    machine.settle([*chat, begun(better, kept)])
    later = [*chat, better, user("More.")]
    answer = machine.same_as_cold(later)
    assert answer.evaluated == answer.stats.prompt_tokens - (start + kept)
    # Edited again, after the first edit.
    parts = better.text.split(" ")
    best, again = edited(machine, better, " ".join([*parts[:-3], "again"]))
    assert best.ids is not None and best.ids.pauses == (kept, again)
    machine.settle([*chat, begun(best, again)])
    answer = machine.same_as_cold([*chat, best, user("More.")])
    assert answer.evaluated == answer.stats.prompt_tokens - (start + again)
    # The first version is still there.
    assert machine.same_as_cold([*chat, reply, user("More.")]).reused >= start


def test_an_edited_reply_without_its_own_ids_is_tokenized_from_its_text(machine: Machine) -> None:
    reply = written(machine, words(5))
    assert reply.ids is not None
    other = reply.ids.model_copy(update={"tokenizer": "0" * 64})
    for each in (AssistantMessage(text=reply.text), reply.model_copy(update={"ids": other})):
        assert machine.engine.edit_reply(EditReply(request=1, reply=each, text="x")).ids is None
    assert machine.engine.edit_reply(EditReply(request=1, reply=reply, text="")).ids is None


@pytest.mark.parametrize("machine", ["hybrid", "thinking"], indirect=True)
def test_S7_the_turn_after_an_edited_reply_reads_from_the_edit_on(machine: Machine) -> None:
    """History doesn't show the empty thought that a new reply begins with."""
    chat: list[Message] = [system("Be brief."), user(words(12))]
    reply, more, settings = written(machine, words(60)), user("More."), CacheSettings()
    before = machine.ask([*chat, reply, more], cache=settings).finished.prompt_ids
    parts = reply.text.split(" ")
    better, kept = edited(machine, reply, " ".join([*parts[:50], "changed", *parts[55:]]))
    machine.settle([*chat, begun(better, kept)], cache=settings)
    answer = machine.same_as_cold([*chat, better, more], cache=settings)
    assert 0 <= num_common(before, answer.finished.prompt_ids) - answer.reused <= 2
