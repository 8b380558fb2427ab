"""P1, P2: a model's own head drafts, its rows are kept like others, and no reply changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

from core.api.chat import Message
from core.api.params import CacheSettings
from core.api.reply_format import ReplyFormat
from core.engine import debug
from core.engine.cancel import CancelFlag
from core.engine.drafting import speculation
from core.engine.drafting.costs import StepCosts
from core.engine.drafting.speculation import HeadDrafter, Offer
from core.engine.loaded import LoadedModel
from core.engine.passes.captured import StepCapture
from core.engine.passes.decode import MOST_TOKENS
from tests.engine.place import sweep
from tests.kernels.native.here import NEEDS_COMPILER
from tests.promises.fixtures import HEADED, FolderOf, LoadedOf, PictureOf
from tests.promises.machine import (
    Answer,
    CountdownFlag,
    CountingModel,
    Drafts,
    Machine,
    same,
    system,
    user,
    words,
)
from tests.promises.test_speculation import GREEDY, LENGTH, OFF, SEEDED, THOROUGH
from tests.replays import play

pytestmark = NEEDS_COMPILER

ALL = [(tokens, noise) for tokens in range(1, 8) for noise in (0.0, 0.5, 1.0)]


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is restored is compared with a prefill of the same, the head's rows included, and
    the context is searched after every step for what does not belong there."""
    monkeypatch.setenv("WAYMARK_DEBUG", "integrity")
    check = debug.check

    def uncounted(loaded: LoadedModel, *rest: Any) -> None:
        model = cast(CountingModel, loaded.model)
        fed, num_encoded = list(model.fed), model.num_encoded
        check(loaded, *rest)
        model.fed, model.num_encoded = fed, num_encoded

    monkeypatch.setattr(debug, "check", uncounted)


def drafts(mode: str = "mtp", tokens: int | None = None, noise: float = 0.0) -> Drafts:
    return Drafts.model_validate({"mode": mode, "tokens": tokens, "draft_noise": noise})


def foresees(monkeypatch: pytest.MonkeyPatch, plain: Answer) -> None:
    """From now on the head's drafts are right, whatever a random head would draft."""
    take = HeadDrafter._take

    def foreseen(drafter: HeadDrafter, depth: int) -> list[int]:
        behind = drafter._next - drafter._start.token.value + len(drafter._ids)
        found = take(drafter, depth)
        known = list(plain.ids[behind : behind + depth])
        return known + found[len(known) :]

    monkeypatch.setattr(HeadDrafter, "_take", foreseen)


@pytest.fixture
def headed(loaded_of: LoadedOf) -> LoadedModel:
    return loaded_of("headed", "int8")


@pytest.mark.parametrize(("family", "precision"), sweep(HEADED, ("bfloat16", "int8", "int4")))
def test_P1_drafts_of_the_head_change_no_token(
    loaded_of: LoadedOf,
    monkeypatch: pytest.MonkeyPatch,
    picture: PictureOf,
    family: str,
    precision: str,
) -> None:
    loaded = loaded_of(family, precision)
    assert loaded.info.mtp and loaded.info.batch_invariant_steps and not loaded.info.mtp_refused
    chat: list[Message] = [user(words(10), picture(1), words(12))]
    accepted = 0
    for sampling in (GREEDY, SEEDED):
        plain = Machine(loaded).ask(chat, sampling=sampling, draft=OFF)
        for draft in (
            *(drafts(), drafts("auto"), drafts("both", 5), drafts(tokens=7)),
            *(drafts(tokens=1), drafts(tokens=4, noise=0.5), drafts(tokens=7, noise=1.0)),
            *(drafts("both", *each) for each in ALL if THOROUGH),
        ):
            with monkeypatch.context() as context:
                if draft.tokens:
                    foresees(context, plain)
                answer = Machine(loaded).ask(chat, sampling=sampling, draft=draft)
            same(answer, plain)
            assert answer.finished.reason == plain.finished.reason
            assert answer.stats.draft is not None
            assert answer.stats.draft.drafted > 0 or draft.tokens is None
            accepted += answer.stats.draft.accepted
    assert accepted > 0


@pytest.mark.parametrize("family", HEADED)
def test_P2_rows_of_the_head_survive_turns_edits_and_restarts(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path, family: str
) -> None:
    """The first rows that it drafts from are to the bit those of a model that read all anew."""
    loaded = loaded_of(family, "int8")
    machine = Machine(loaded, tmp_path / "cache")
    few = CacheSettings(count=3, interval=64)
    sampling = SEEDED.model_copy(update={"max_tokens": 9})
    chat: list[Message] = [system("Be brief."), user(picture(1), words(30)), user(words(5, "e"))]
    for turn in range(6):
        if turn == 3:
            machine.reopen()
        answer = machine.ask(chat, few, sampling, draft=drafts(tokens=1 + turn))
        assert turn == 0 or answer.reused > 0
        same(answer, Machine(loaded).ask(chat, sampling=sampling, draft=OFF))
        chat = [*chat, answer.reply, user(words(4 + turn))]
        if turn % 2:
            machine.settle(chat[:-1], cache=few)
        if turn == 4:
            chat = [*chat[:4], user("Another question.")]


def test_P2_a_cancel_between_or_during_drafts_of_the_head_leaves_nothing(
    headed: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat: list[Message] = [user(words(30))]
    settings: dict[str, Any] = {"sampling": GREEDY, "draft": drafts(tokens=4)}
    plain = Machine(headed).ask(chat, sampling=GREEDY, draft=OFF)
    take, taken, during = HeadDrafter._take, 0, CancelFlag()

    def cancelled(drafter: HeadDrafter, depth: int) -> list[int]:
        nonlocal taken
        taken += 1
        if taken == 3:
            during.set()
        return take(drafter, depth)

    for flag in (*map(CountdownFlag, (30, 31, 33, 37, 44, 60)), during):
        machine = Machine(headed)
        with monkeypatch.context() as context:
            if flag is during:
                context.setattr(HeadDrafter, "_take", cancelled)
            cut = machine.ask(chat, flag=flag, **settings)
        assert cut.finished.reason == "cancelled" and cut.ids == plain.ids[: len(cut.ids)]
        same(machine.ask(chat, **settings), plain)
    assert taken == 3


@pytest.mark.parametrize("tokens", [1, 4, 7])
def test_P2_drafts_that_a_format_refuses_leave_nothing(headed: LoadedModel, tokens: int) -> None:
    chat: list[Message] = [user(words(20))]
    for text in ("[0-9]{30,40}", "(red|blue|green)( (red|blue|green)){5}"):
        form = ReplyFormat(kind="regex", text=text)
        plain = Machine(headed).ask(chat, sampling=GREEDY, draft=OFF, format=form)
        same(
            Machine(headed).ask(chat, sampling=GREEDY, draft=drafts(tokens=tokens), format=form),
            plain,
        )


def test_P5_drafts_that_a_format_refuses_are_given_up(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = replace(loaded_of("headed", "int8"), step_costs=StepCosts())
    for tokens in range(1, 9):
        for _ in range(3):
            loaded.step_costs.note(tokens, 1.0 + 0.1 * (tokens - 1))
    monkeypatch.setattr(StepCosts, "note", lambda *_: None)
    monkeypatch.setattr(StepCosts, "note_drafting", lambda *_: None)
    takes, take = [], HeadDrafter._take

    def wrong(drafter: HeadDrafter, depth: int) -> list[int]:
        takes.append(len(take(drafter, depth)))
        return [1] * depth

    monkeypatch.setattr(HeadDrafter, "_take", wrong)
    form = ReplyFormat(kind="regex", text="[0-9]{100,120}")
    sampling = GREEDY.model_copy(update={"max_tokens": 100})
    answer = Machine(loaded).ask([user(words(9))], sampling=sampling, draft=drafts(), format=form)
    assert len(answer.ids) == 100 and 0 < len(takes) < 10


def test_steps_stay_captured_beside_rows_of_the_head(
    headed: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a draft, and of a longer prompt that was read before."""
    monkeypatch.delenv("WAYMARK_DEBUG")
    assert headed.model.batch_invariant_steps
    for first, second in ((9, 9), (90, 9)):
        machine = Machine(replace(headed, steps=StepCapture(headed.steps._capture)))
        machine.ask([user(words(first))], sampling=GREEDY, draft=drafts(tokens=4))
        machine.ask([user(words(second, "q"))], sampling=GREEDY, draft=drafts("lookup", 2))
        machine.ask([user(words(second, "r"))], sampling=GREEDY, draft=drafts("both", 7))
        assert machine.engine.loaded is not None
        assert machine.engine.loaded.steps._capture is not None


def test_rows_that_nobody_drafts_from_are_not_piled_up(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, offer = 0, HeadDrafter.offer

    def noted(drafter: HeadDrafter, wanted: int) -> Offer:
        nonlocal most
        found = offer(drafter, 0)
        most = max(most, len(drafter._ids), sum(map(len, drafter._hidden)))
        return found

    monkeypatch.setattr(HeadDrafter, "offer", noted)
    monkeypatch.setattr(speculation, "MOST_WAITING", 20)
    answer = Machine(loaded_of("headed", "int8")).ask(
        [user(words(9))], sampling=GREEDY, draft=drafts()
    )
    assert len(answer.ids) == LENGTH and most == 19


@pytest.mark.parametrize("late", [8, 40])
def test_P2_what_the_head_was_not_asked_for_is_made_up_for(
    headed: LoadedModel, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """Drafts by the same head, whether it followed token by token or was asked at last: to the bit
    as long as a step takes what waits, else but for what a prompt's products round otherwise."""
    take, offer = HeadDrafter._take, HeadDrafter.offer
    found: list[list[list[int]]] = []
    rows: list[torch.Tensor] = []

    def noted(drafter: HeadDrafter, depth: int) -> list[int]:
        found[-1].append(take(drafter, depth))
        keys, _ = drafter._kv_buffer.rows(len(drafter._model.layer_specs) - 1)
        rows[-1] = keys[drafter._start.token.value : drafter._next].float()
        return found[-1][-1]

    monkeypatch.setattr(HeadDrafter, "_take", noted)
    for first in (1, late):
        found.append([])
        rows.append(torch.empty(0))

        def asked(drafter: HeadDrafter, most: int, first: int = first) -> Offer:
            drawn = drafter._next - drafter._start.token.value + len(drafter._ids)
            return offer(drafter, most if drawn >= first else 0)

        monkeypatch.setattr(HeadDrafter, "offer", asked)
        settings = drafts(tokens=3, noise=1.0)
        answer = Machine(headed).ask([user(words(30))], sampling=GREEDY, draft=settings)
        assert answer.stats.draft is not None and len(answer.ids) == LENGTH
    assert len(found[0]) > len(found[1]) > 5
    assert rows[0].shape == rows[1].shape and len(rows[0]) > 40
    if late <= MOST_TOKENS:
        assert found[0][-len(found[1]) :] == found[1] and torch.equal(*rows)
    else:
        torch.testing.assert_close(*rows, rtol=0, atol=2.0**-6 * float(rows[0].abs().max()))


def test_a_model_without_a_head_drafts_nothing_by_one(loaded_of: LoadedOf) -> None:
    loaded = loaded_of("hybrid", "int8")
    assert not loaded.info.mtp and not loaded.info.mtp_refused
    answer = Machine(loaded).ask([user(words(9))], sampling=GREEDY, draft=drafts(tokens=3))
    assert answer.stats.draft is not None and answer.stats.draft.drafted == 0
    # What can't be checked is not drafted, and the head is not even read.
    floats = loaded_of("headed", "float32")
    assert not floats.info.mtp and not floats.info.batch_invariant_steps


@pytest.mark.slow
def test_the_heads_first_logits_are_written_for_a_script(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    steps = [{"op": "send", "chat": "a", "content": [{"text": "Hi there"}]}]
    options = ("--model", folder_of("headed"), "--dtype", "int8")
    found = {}
    for mode in ("lookup", "mtp"):
        file = tmp_path / f"{mode}.safetensors"
        run = play(tmp_path, steps, *options, "--draft", mode, "--logits", file)
        assert run.code == 0, run.errors
        found[mode] = load_file(file)
    assert set(found["lookup"]) == {"step.0.logits"}
    assert set(found["mtp"]) == {"step.0.logits", "step.0.mtp"}
    assert found["mtp"]["step.0.mtp"].shape == found["mtp"]["step.0.logits"].shape
    assert torch.equal(found["mtp"]["step.0.logits"], found["lookup"]["step.0.logits"])
