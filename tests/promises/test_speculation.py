"""P1, P2, P4 to P6: drafts change how fast a reply comes, and nothing else."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import Message
from core.api.params import DraftSettings, SamplingParams
from core.engine import debug
from core.engine.drafting import speculation
from core.engine.drafting.costs import StepCosts
from core.engine.loaded import LoadedModel
from core.engine.passes.decode import Decode
from tests.engine.place import sweep
from tests.kernels.native.here import NEEDS_COMPILER
from tests.promises.fixtures import MAPPED, PUBLISHED, PURE, RECURRENT, LoadedOf, PictureOf
from tests.promises.machine import Answer, CountdownFlag, Drafts, Machine, same, user, words
from tests.sweeps import first_quick

pytestmark = NEEDS_COMPILER

# By hand before a release: 400 tokens of each family, at every depth and noise.
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
LENGTH = 400 if THOROUGH else 60
FAMILIES = ("hybrid", *PURE, *RECURRENT)
PRECISIONS = ("bfloat16", "int8", "int4")
OFF = DraftSettings(mode="off")
GREEDY = SamplingParams(temperature=0, max_tokens=LENGTH)
SEEDED = SamplingParams(temperature=0.8, top_p=0.9, presence_penalty=0.2, seed=3, max_tokens=LENGTH)
CHAT: list[Message] = [user(words(30) + " " + words(30))]


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every step the context is searched for what does not belong there."""
    monkeypatch.setenv("WAYMARK_DEBUG", "integrity")
    # What restores promise is looked at elsewhere, and would be counted here.
    monkeypatch.setattr(debug, "check", lambda *_: None)


def drafts(tokens: int | None = None, noise: float = 0.0) -> Drafts:
    return Drafts(mode="lookup", tokens=tokens, draft_noise=noise)


DRAFTS = [drafts(), drafts(1), drafts(3, 0.5), drafts(7), drafts(4, 1.0)]
if THOROUGH:
    DRAFTS += [drafts(tokens, noise) for tokens in range(1, 8) for noise in (0.0, 0.5, 1.0)]


class Knowing:
    """Drafts what the model is going to say, in place of `PromptLookup`."""

    def __init__(self, ids: tuple[int, ...]) -> None:
        self._ids, self._next = ids, 0

    def follow(self, ids: list[int]) -> None:
        self._next += len(ids)

    def propose(self, most: int) -> tuple[list[int], int]:
        found = list(self._ids[self._next : self._next + max(0, most)])
        return found, len(found)


def knows(monkeypatch: pytest.MonkeyPatch, plain: Answer) -> None:
    """From now on drafts are right, but for what noise there is."""
    monkeypatch.setattr(speculation, "PromptLookup", lambda _: Knowing(plain.ids))


def alike(answer: Answer, plain: Answer) -> None:
    """The same tokens, drawn from the same logits, and counters that fit them."""
    assert answer.ids == plain.ids and answer.finished.reason == plain.finished.reason
    assert answer.finished.reply.text == plain.finished.reply.text
    same(answer, plain)
    assert plain.stats.draft is None
    counts = answer.stats.draft
    assert counts is not None
    # The first token is the prompt's; what ends a reply may be the last that a draft had right.
    assert counts.cycles + counts.accepted in (len(answer.ids) - 1, len(answer.ids))
    assert counts.accepted <= counts.drafted <= 7 * counts.cycles
    assert counts.empty + counts.rejected <= counts.cycles


def ask(
    loaded: LoadedModel,
    draft: DraftSettings = OFF,
    sampling: SamplingParams = GREEDY,
    chat: list[Message] = CHAT,
) -> Answer:
    return Machine(loaded).ask(chat, sampling=sampling, draft=draft)


@pytest.fixture
def loaded(loaded_of: LoadedOf) -> LoadedModel:
    return loaded_of("hybrid", "int8")


@pytest.fixture
def plain(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """The reply without drafts, which drafts know from now on."""
    answer = ask(loaded)
    knows(monkeypatch, answer)
    return answer


@pytest.mark.parametrize(
    ("family", "precision"),
    [
        *sweep(FAMILIES, PRECISIONS),
        *first_quick(PUBLISHED),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in MAPPED),
    ],
)
def test_P1_drafts_change_no_token(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch, family: str, precision: str
) -> None:
    loaded = loaded_of(family, precision)
    if not loaded.info.batch_invariant_steps:
        pytest.skip("nothing is drafted: plain torch multiplies these blocks")
    drafted = accepted = 0
    for sampling in (GREEDY, SEEDED):
        plain = ask(loaded, OFF, sampling)
        alike(ask(loaded, drafts(7), sampling), plain)
        for draft in DRAFTS:
            with monkeypatch.context() as context:
                knows(context, plain)
                answer = ask(loaded, draft, sampling)
            alike(answer, plain)
            assert answer.stats.draft is not None
            drafted += answer.stats.draft.drafted
            accepted += answer.stats.draft.accepted
    assert drafted > accepted > 0, "some drafts were right, and some wrong"


def test_P1_a_small_context_and_many_requests_change_no_token(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path
) -> None:
    """Twenty in a row, ten times the same, swipes and a restart in between."""
    loaded = loaded_of("hybrid", "int8")
    machine = Machine(loaded, tmp_path / "cache")
    chat: list[Message] = [user(picture(1), words(20))]
    sampling = SEEDED.model_copy(update={"max_tokens": 12})
    for turn in range(20):
        if turn == 10:
            machine = Machine(loaded, tmp_path / "cache")
        draft = drafts(1 + turn % 7, (turn % 3) / 2)
        answer = machine.ask(chat, sampling=sampling, draft=draft)
        alike(answer, ask(loaded, OFF, sampling, chat))
        if turn % 4 == 3:
            chat = [*chat, answer.reply, user(words(3 + turn))]
            machine.settle(chat[:-1])
    again = [machine.ask(chat, sampling=sampling, draft=drafts(5)) for _ in range(10)]
    assert len({each.ids for each in again}) == 1


def test_P2_what_is_not_rolled_back_is_found(loaded: LoadedModel, plain: Answer) -> None:
    wrong = drafts(4, 1.0)
    with pytest.raises(AssertionError, match=r"holds other tokens|doubled"):
        ask(loaded, wrong.model_copy(update={"skip_rollback": True}))
    # What it left behind belongs to nothing.
    alike(ask(loaded, wrong), plain)


@pytest.mark.parametrize("fault", ["rows", "states", "places"])
def test_P2_a_rollback_that_leaves_something_shows(
    loaded: LoadedModel, plain: Answer, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    keep = Decode.keep

    def forgets(decode: Decode, count: int) -> None:
        places, kv_buffer = list(decode.places), decode._kv_buffer
        if fault == "states":
            monkeypatch.setattr(type(decode._steps), "keep", lambda *_: None)
        with monkeypatch.context() as context:
            if fault == "rows":
                context.setattr(type(kv_buffer), "clear", lambda *_: None)
            keep(decode, count)
        if fault == "places":
            decode.places = places

    monkeypatch.setattr(Decode, "keep", forgets)
    if fault == "states":
        assert ask(loaded, drafts(4, 1.0)).ids != plain.ids
    else:
        with pytest.raises(AssertionError, match=r"rejected|doubled|other tokens"):
            ask(loaded, drafts(4, 1.0))


def test_P2_a_cancel_or_a_fault_inside_a_draft_leaves_nothing(
    loaded: LoadedModel, plain: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"sampling": GREEDY, "draft": drafts(7)}
    for looks in (30, 33, 36, 40, 47, 60):
        machine = Machine(loaded)
        cut = machine.ask(CHAT, flag=CountdownFlag(looks), **settings)
        assert cut.finished.reason == "cancelled" and cut.ids == plain.ids[: len(cut.ids)]
        alike(machine.ask(CHAT, **settings), plain)
    machine, step, calls = Machine(loaded), Decode.step, 0

    def fails(decode: Decode, ids: list[int]) -> object:
        nonlocal calls
        calls += 1
        found = step(decode, ids)
        if calls == 3:
            raise MemoryError("no memory")
        return found

    with monkeypatch.context() as context:
        context.setattr(Decode, "step", fails)
        with pytest.raises(MemoryError):
            machine.ask(CHAT, **settings)
    alike(machine.ask(CHAT, **settings), plain)


@pytest.mark.parametrize("room", [1, 2, 7, 13])
def test_P4_a_context_that_ends_inside_a_draft_ends_the_reply(
    loaded: LoadedModel, plain: Answer, room: int
) -> None:
    unbound = GREEDY.model_copy(update={"max_tokens": None})
    length = plain.stats.prompt_tokens + room
    narrow = replace(loaded, info=loaded.info.model_copy(update={"context_length": length}))
    whole = ask(narrow, OFF, unbound)
    assert len(whole.ids) <= room
    for tokens in (3, 7):
        alike(ask(narrow, drafts(tokens), unbound), whole)


def test_P4_a_stop_string_inside_a_draft_ends_the_reply(loaded: LoadedModel, plain: Answer) -> None:
    text = plain.finished.reply.text
    for place in (len(text) // 3, len(text) // 2):
        sampling = GREEDY.model_copy(update={"stop": (text[place : place + 3],)})
        stopped = ask(loaded, OFF, sampling)
        for tokens in (2, 7):
            alike(ask(loaded, drafts(tokens), sampling), stopped)


def test_P5_drafts_that_are_wrong_are_given_up(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = replace(loaded, step_costs=StepCosts())
    for tokens in range(1, 9):
        for _ in range(3):
            loaded.step_costs.note(tokens, 1.0 + 0.3 * (tokens - 1))
    long = GREEDY.model_copy(update={"max_tokens": 300, "frequency_penalty": 0.3})
    knows(monkeypatch, ask(loaded, OFF, long))
    monkeypatch.setattr(StepCosts, "note", lambda *_: None)
    counts = ask(loaded, drafts(noise=1.0), long).stats.draft
    assert counts is not None and counts.accepted <= 1
    lost = 0.3 * counts.drafted / counts.cycles
    assert lost < 0.03, "what wrong drafts cost, in steps"


def test_P6_counters_are_in_the_stats_and_nowhere_without_drafts(
    loaded_of: LoadedOf, loaded: LoadedModel, plain: Answer
) -> None:
    counts = ask(loaded, drafts(3)).stats.draft
    assert counts is not None and counts.cycles > 0 < counts.drafted
    assert plain.stats.draft is None
    # Torch's products round a row by how many there are: nothing is drafted over them.
    assert ask(loaded_of("hybrid", "float32"), drafts(3)).stats.draft is None
