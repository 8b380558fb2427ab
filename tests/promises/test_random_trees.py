"""Random conversation trees: after every move the logits are those of an engine that read nothing.

Chats are sent, edited, cut, regenerated, swiped and stopped anywhere, with pictures and changing
settings; every answer goes through `Machine.ask`, which compares all counters with what was
computed, and the tree's own invariants.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.api.chat import AssistantMessage, ImagePart, Message
from core.api.errors import RequestCancelled
from core.api.params import CacheSettings, SamplingParams
from core.engine.loaded import LoadedModel
from tests.promises.machine import CountdownFlag, Machine, same, system, user, words

HOT = SamplingParams(temperature=1.5, max_tokens=3)
SAID = ("Hi", "What is it?", words(30), words(30) + " end", words(75), words(75, "q"))
SYSTEM = "Be brief. " + words(25)

parts = st.lists(st.one_of(st.sampled_from(SAID), st.integers(1, 3)), min_size=1, max_size=3)
seeds = st.integers(0, 2)


class RandomTrees(RuleBasedStateMachine):
    """Two chats on one engine. `replies` are the alternatives to a chat's last message."""

    base: LoadedModel
    draw: Callable[..., ImagePart]

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(self.base)
        self.chats: list[list[Message]] = [[system(SYSTEM)], [system(SYSTEM)]]
        self.replies: list[list[AssistantMessage]] = [[], []]
        self.at = 0
        self.settings = CacheSettings(count=5, interval=64)

    @initialize(said=parts)
    def begin(self, said: list[str | int]) -> None:
        self._say(said)

    @rule(said=parts, seed=seeds)
    def send(self, said: list[str | int], seed: int) -> None:
        self._settle()
        self._say(said)
        self._answer(seed)

    @rule(seed=seeds)
    @precondition(lambda self: len(self.chat) > 1)
    def regenerate(self, seed: int) -> None:
        self._answer(seed)

    @rule(said=parts, data=st.data(), seed=seeds)
    @precondition(lambda self: len(self.chat) > 1)
    def edit(self, said: list[str | int], data: st.DataObject, seed: int) -> None:
        self._cut(data)
        self._say(said)
        self._answer(seed)

    @rule(data=st.data())
    @precondition(lambda self: len(self.chat) > 3)
    def delete(self, data: st.DataObject) -> None:
        self._cut(data, first=3)
        self.chat.pop()
        self._answer(0)

    @rule(data=st.data())
    @precondition(lambda self: len(self.alternatives) > 1)
    def swipe(self, data: st.DataObject) -> None:
        chosen = data.draw(st.integers(0, len(self.alternatives) - 1))
        self.alternatives.append(self.alternatives.pop(chosen))

    @rule(looks=st.integers(0, 40), said=parts)
    def stop(self, looks: int, said: list[str | int]) -> None:
        self._settle()
        self._say(said)
        answer = self.machine.ask(
            self.chat, cache=self.settings, sampling=HOT, flag=CountdownFlag(looks)
        )
        cuts = {0, *(run.end.token.value for run in self.machine.prompt(self.chat).runs)}
        assert answer.reused + sum(answer.fed) in cuts
        self._answer(0)

    @rule(looks=st.integers(0, 60))
    @precondition(lambda self: self.alternatives)
    def settle(self, looks: int) -> None:
        with contextlib.suppress(RequestCancelled):
            self.machine.settle(
                [*self.chat, self.alternatives[-1]],
                cache=self.settings,
                flag=CountdownFlag(looks),
            )

    @rule(said=parts, looks=st.integers(0, 60))
    @precondition(lambda self: self.alternatives)
    def draft(self, said: list[str | int], looks: int) -> None:
        shown = (part if isinstance(part, str) else self.draw(part) for part in said)
        with contextlib.suppress(RequestCancelled):
            self.machine.read_ahead(
                [*self.chat, self.alternatives[-1], user(*shown)],
                cache=self.settings,
                flag=CountdownFlag(looks),
            )

    @rule()
    def other_chat(self) -> None:
        self.at = 1 - self.at
        if len(self.chat) == 1:
            self._say(["Hi", 1])
            self._answer(0)

    @rule(count=st.integers(0, 5), interval=st.sampled_from([1, 64, 200, 32_768]))
    def change_settings(self, count: int, interval: int) -> None:
        self.settings = CacheSettings(count=count, interval=interval)

    @rule()
    def clear(self) -> None:
        self.machine.engine.clear_cache()
        self.machine.cache.check_integrity()
        assert self.machine.cache.num_states() == 0

    @property
    def chat(self) -> list[Message]:
        return self.chats[self.at]

    @property
    def alternatives(self) -> list[AssistantMessage]:
        return self.replies[self.at]

    def _say(self, said: list[str | int]) -> None:
        shown = (part if isinstance(part, str) else self.draw(part) for part in said)
        self.chat.append(user(*shown))

    def _settle(self) -> None:
        """The chosen reply becomes history; a message without one is taken back."""
        if self.alternatives:
            self.chat.append(self.alternatives[-1])
            self.alternatives.clear()
        elif len(self.chat) > 1:
            self.chat.pop()

    def _cut(self, data: st.DataObject, first: int = 1) -> None:
        """Back to right before one of the user's messages, which lie at the odd places."""
        places = range(first, len(self.chat), 2)
        del self.chat[data.draw(st.sampled_from(places)) :]
        self.alternatives.clear()

    def _answer(self, seed: int) -> None:
        sampling = HOT.model_copy(update={"seed": seed})
        warm = self.machine.ask(self.chat, cache=self.settings, sampling=sampling)
        same(warm, Machine(self.base).ask(self.chat, sampling=sampling))
        self.alternatives.append(warm.reply)


@pytest.mark.parametrize("name", ["hybrid", "pure"])
def test_X1_I8_S4_S12_W2_random_trees_answer_like_cold_engines(
    loaded_of: Callable[..., LoadedModel], picture: Callable[..., ImagePart], name: str
) -> None:
    class Trees(RandomTrees):
        base = loaded_of(name)
        draw = staticmethod(picture)

    few = hypothesis_settings(
        max_examples=hypothesis_settings().max_examples // 8, stateful_step_count=12
    )
    run_state_machine_as_test(Trees, settings=few)
