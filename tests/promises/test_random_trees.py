"""Random conversation trees: after every move the logits are those of an engine that read nothing.

Chats are sent, edited, cut, forked, regenerated, swiped, stopped anywhere and deleted, with
pictures, changing settings and budgets, side requests, two models on one cache folder, and
restarts, with drafts of every kind that are right or wrong, and replies of a given form; every
answer goes through `Machine.ask`, which compares all counters with what was
computed, the tree's and the store's invariants, and the peak of memory with its limit. The engine
that read nothing drafts nothing. Every run must have gone on from the KV buffer, from memory and
from disk.

`make test` plays about 200 moves, `make test-long` ten times as many and shows what they did.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.api.chat import AssistantMessage, Message
from core.api.errors import NoRoomBesideError, PromptTooLongError, RequestCancelled
from core.api.params import CacheSettings, DraftSettings, SamplingParams
from core.api.reply_format import ReplyFormat
from core.engine.loaded import LoadedModel
from tests.cache.worlds import traces
from tests.promises.fixtures import SLIDING, LoadedOf, PictureOf
from tests.promises.machine import CountdownFlag, Drafts, Machine, same, system, user, words

HOT = SamplingParams(temperature=1.5, max_tokens=5)
OFF = DraftSettings(mode="off")
DRAFTS = (
    OFF,
    DraftSettings(),
    Drafts(mode="both", tokens=4, draft_noise=0.5),
    DraftSettings(mode="mtp", tokens=2),
    Drafts(mode="mtp", tokens=7, draft_noise=0.2),
    Drafts(mode="lookup", tokens=3, draft_noise=1.0),
)
FORMS = (
    *(None, None, None),
    ReplyFormat(kind="choice", choices=("yes", "no", "yesterday")),
    ReplyFormat(kind="regex", text="[a-c]{1,3}(dog|cat)"),
    ReplyFormat(kind="json"),
)
HOT_0 = HOT.model_copy(update={"seed": 0})
SAID = ("Hi", "What is it?", words(30), words(30) + " end", words(75), words(75, "q"))
SYSTEM = "Be brief. " + words(25)
# Looks that no settling takes.
PATIENT = 10**9
# What fits beside the KV buffer, in states; None is all of it.
BESIDE = (None, 12, 4, 1, 0)

parts = st.lists(st.one_of(st.sampled_from(SAID), st.integers(1, 3)), min_size=1, max_size=3)
seeds = st.integers(0, 2)


@dataclass
class Chat:
    """`replies` are the alternatives to the chat's last message."""

    name: str
    messages: list[Message]
    replies: list[AssistantMessage] = field(default_factory=list)


class RandomTrees(RuleBasedStateMachine):
    """Some chats on one engine and one cache folder."""

    models: tuple[LoadedModel, LoadedModel]
    draw: PictureOf
    opening: ClassVar[str]
    played: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.machine = Machine(self.models[0], Path(self.home.name))
        self.chats = [self._new("chat-0"), self._new("chat-1")]
        self.chat = self.chats[0]
        self.num_named = 2
        self.varied = random.Random(0)
        self.settings = CacheSettings(count=5, interval=64)

    def teardown(self) -> None:
        self.played["conversation trees"] += 1
        self.home.cleanup()

    @invariant()
    def count(self) -> None:
        self.played["moves"] += 1

    @initialize(said=parts)
    def begin(self, said: list[str | int]) -> None:
        """With a chat from before the start, so that no tree does without the disk."""
        self._say(said)
        self._answer(0)
        self.machine.reopen()
        self._answer(0)

    @rule(said=parts, seed=seeds)
    def send(self, said: list[str | int], seed: int) -> None:
        self._settle()
        self._say(said)
        self._answer(seed)

    @rule(seed=seeds)
    @precondition(lambda self: len(self.chat.messages) > 1)
    def regenerate(self, seed: int) -> None:
        self._answer(seed)

    @rule(said=parts, data=st.data(), seed=seeds)
    @precondition(lambda self: len(self.chat.messages) > 1)
    def edit(self, said: list[str | int], data: st.DataObject, seed: int) -> None:
        self._cut(data)
        self._say(said)
        self._answer(seed)

    @rule(data=st.data())
    @precondition(lambda self: len(self.chat.messages) > 3)
    def delete(self, data: st.DataObject) -> None:
        self._cut(data, first=3)
        self.chat.messages.pop()
        self._answer(0)

    @rule(data=st.data())
    @precondition(lambda self: len(self.chat.replies) > 1)
    def swipe(self, data: st.DataObject) -> None:
        chosen = data.draw(st.integers(0, len(self.chat.replies) - 1))
        self.chat.replies.append(self.chat.replies.pop(chosen))

    @rule(looks=st.integers(0, 40), said=parts)
    def stop(self, looks: int, said: list[str | int]) -> None:
        self._settle()
        self._say(said)
        with self._cutting_what_is_too_long():
            answer = self.machine.ask(
                self.chat.messages,
                cache=self.settings,
                sampling=HOT,
                flag=CountdownFlag(looks),
                chat=self.chat.name,
                draft=self.varied.choice(DRAFTS),
            )
            prompt = self.machine.prompt(self.chat.messages)
            cuts = {0, *(run.end.token.value for run in prompt.runs)}
            assert answer.reused + sum(answer.fed) in cuts
        self._answer(0)

    @rule(tokens=st.integers(0, 400), said=parts)
    def stop_after_tokens(self, tokens: int, said: list[str | int]) -> None:
        self._settle()
        self._say(said)
        with self._cutting_what_is_too_long():
            answer = self.machine.ask(
                self.chat.messages,
                cache=self.settings,
                sampling=HOT,
                cancel_prefill_after_tokens=tokens,
                chat=self.chat.name,
            )
            if answer.finished.reason == "cancelled":
                assert sum(answer.fed) >= tokens and not answer.ids
                assert sum(answer.fed[:-1]) < tokens or tokens == 0
        self._answer(0)

    @rule(looks=st.integers(0, 60))
    @precondition(lambda self: self.chat.replies)
    def settle(self, looks: int) -> None:
        with contextlib.suppress(RequestCancelled):
            self.machine.settle(
                [*self.chat.messages, self.chat.replies[-1]],
                cache=self.settings,
                flag=CountdownFlag(looks),
                chat=self.chat.name,
            )

    @rule(said=parts, looks=st.integers(0, 60))
    @precondition(lambda self: self.chat.replies)
    def draft(self, said: list[str | int], looks: int) -> None:
        shown = (part if isinstance(part, str) else self.draw(part) for part in said)
        with contextlib.suppress(RequestCancelled):
            self.machine.read_ahead(
                [*self.chat.messages, self.chat.replies[-1], user(*shown)],
                cache=self.settings,
                flag=CountdownFlag(looks),
                chat=self.chat.name,
            )

    @rule(data=st.data())
    def other_chat(self, data: st.DataObject) -> None:
        self.chat = data.draw(st.sampled_from(self.chats))
        if len(self.chat.messages) == 1:
            self._say(["Hi", 1])
        self._answer(0)

    @rule()
    @precondition(lambda self: len(self.chats) < 4)
    def fork(self) -> None:
        copied = Chat(self._unused_name(), list(self.chat.messages), list(self.chat.replies))
        self.chats.append(copied)
        self.chat = copied

    @rule(said=parts)
    def side(self, said: list[str | int]) -> None:
        shown = (part if isinstance(part, str) else self.draw(part) for part in said)
        asked = [*self.chat.messages, *self.chat.replies[-1:], user(*shown)]
        before = traces(self.machine.cache)
        with contextlib.suppress(NoRoomBesideError, PromptTooLongError):
            beside = self.machine.ask(asked, cache=self.settings, sampling=HOT_0, side=True)
            same(beside, self.machine.cold(asked, sampling=HOT_0))
        assert traces(self.machine.cache) == before

    @rule(everything=st.sampled_from([False, False, True]))
    def forget(self, everything: bool) -> None:
        if everything:
            self.machine.engine.clear_cache()
            self.machine.check_whole()
            assert self.machine.cache.num_states() == self.machine.cache.disk.num_bytes == 0
            return
        gone = self.chat.name
        self.machine.forget(gone)
        cache = self.machine.cache
        assert not any(gone in node.owners for node in cache.tree)
        assert not list(Path(self.home.name).rglob(f"*{gone}*"))
        self.chats.remove(self.chat)
        self.chats.append(self._new(self._unused_name()))
        self.chat = self.chats[0]

    @rule(
        count=st.integers(0, 5),
        interval=st.sampled_from([1, 64, 200, 32_768]),
        beside=st.sampled_from(BESIDE),
        disk=st.sampled_from([None, 100_000, 20_000, 0]),
    )
    def change_settings(
        self, count: int, interval: int, beside: int | None, disk: int | None
    ) -> None:
        self.settings = CacheSettings(
            count=count,
            interval=interval,
            host_bytes=None if beside is None else self._host(beside),
            disk_bytes=disk,
        )

    @rule(segments=st.sampled_from([None, 8, 3, 0]), switch=st.booleans())
    def restart(self, segments: int | None, switch: bool) -> None:
        """After all is written, a part of it or nothing; perhaps with the other model."""
        self.machine.write(segments)
        now = self.models.index(self.machine.base)
        self.machine.restart(self.models[now ^ switch])
        self.machine.check_whole()
        if len(self.chat.messages) > 1:
            self._answer(0)

    @rule(said=parts, data=st.data())
    @precondition(lambda self: self.chat.replies)
    def reopen(self, said: list[str | int], data: st.DataObject) -> None:
        """The reply settled, all written, a clean start, and on with this or an older chat."""
        self.settle(PATIENT)
        self.machine.reopen()
        self.chat = data.draw(st.sampled_from(self.chats))
        self.send(said, 0)

    @rule(said=parts)
    @precondition(lambda self: self.chat.replies)
    def squeeze(self, said: list[str | int]) -> None:
        """The reply settled, all written, memory lost to another chat, and on with this one."""
        self.settle(PATIENT)
        self.machine.write()
        before = self.settings
        self.settings = before.model_copy(update={"host_bytes": self._host(0)})
        self.aside()
        self.settings = before
        self.send(said, 0)

    @rule()
    @precondition(lambda self: self.chat.replies)
    def aside(self) -> None:
        """A word in another chat, and back."""
        here, self.chat = self.chat, self._new(self._unused_name())
        self._say(["Hi", 2])
        self._answer(0)
        self.chat = here
        self._answer(0)

    def _host(self, beside: int) -> int:
        """A budget of either model's KV buffer and so many states."""
        models = [model.info for model in self.models]
        kv_buffer = max(model.context_bytes(model.context_length) for model in models)
        return kv_buffer + beside * (max(model.checkpoint_bytes for model in models) + 1_000)

    def _new(self, name: str) -> Chat:
        return Chat(name, [system(self.opening)])

    def _unused_name(self) -> str:
        self.num_named += 1
        return f"chat-{self.num_named}"

    def _say(self, said: list[str | int]) -> None:
        shown = (part if isinstance(part, str) else self.draw(part) for part in said)
        self.chat.messages.append(user(*shown))

    def _settle(self) -> None:
        """The chosen reply becomes history; a message without one is taken back."""
        if self.chat.replies:
            self.chat.messages.append(self.chat.replies[-1])
            self.chat.replies.clear()
        elif len(self.chat.messages) > 1:
            self.chat.messages.pop()

    def _cut(self, data: st.DataObject, first: int = 1) -> None:
        """Back to right before one of the user's messages, which lie at the odd places."""
        places = range(first, len(self.chat.messages), 2)
        del self.chat.messages[data.draw(st.sampled_from(places)) :]
        self.chat.replies.clear()

    @contextlib.contextmanager
    def _cutting_what_is_too_long(self) -> Iterator[None]:
        """A prompt that is too long is refused and nothing is read; the chat restarts."""
        try:
            yield
        except PromptTooLongError:
            assert not self.machine.model.fed
            del self.chat.messages[2:]

    def _answer(self, seed: int) -> None:
        sampling = HOT.model_copy(update={"seed": seed})
        draft, form = self.varied.choice(DRAFTS), self.varied.choice(FORMS)
        with self._cutting_what_is_too_long():
            warm = self.machine.ask(
                self.chat.messages,
                cache=self.settings,
                sampling=sampling,
                chat=self.chat.name,
                draft=draft,
                format=form,
            )
            cold = self.machine.cold(self.chat.messages, sampling=sampling, draft=OFF, format=form)
            same(warm, cold)
            counts = warm.stats.draft
            assert counts is None or counts.cycles + counts.accepted >= len(warm.ids) - 1
            self.played["drafted"] += counts.drafted if counts is not None else 0
            self.played["held to a form"] += form is not None
            self.played[f"from {warm.stats.restored_from or 'nothing'}"] += 1
            self.chat.replies.append(warm.reply)


@pytest.mark.parametrize(
    ("one", "other", "precision"),
    [
        ("headed", "other", "bfloat16"),
        pytest.param("hybrid", "other", "float32", marks=pytest.mark.slow),
        pytest.param("pure", "hybrid", "float32", marks=pytest.mark.slow),
        pytest.param("gemma3_long", "gemma4_long", "bfloat16", marks=pytest.mark.slow),
    ],
)
def test_X1_X3_I8_S4_S12_M1_W2_random_trees_answer_like_cold_engines(
    loaded_of: LoadedOf, picture: PictureOf, one: str, other: str, precision: str
) -> None:
    class Trees(RandomTrees):
        models = (loaded_of(one, precision), loaded_of(other, precision))
        draw = staticmethod(picture)
        # So long that windows slide.
        opening = words(300) if one in SLIDING else SYSTEM
        played: ClassVar[Counter[str]] = Counter()

    few = hypothesis_settings(
        max_examples=hypothesis_settings().max_examples // 33, stateful_step_count=14
    )
    run_state_machine_as_test(Trees, settings=few)
    print(dict(Trees.played))
    assert {"from slab", "from memory", "from disk"} <= Trees.played.keys()
    assert Trees.played["held to a form"]
    assert bool(Trees.played["drafted"]) == any(
        each.model.batch_invariant_steps for each in Trees.models
    )
