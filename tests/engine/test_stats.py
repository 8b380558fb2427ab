"""Which message a token belongs to, and how little is made to tell it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.chat import Message
from core.api.events import Prefilling
from core.api.positions import TokenIndex
from core.api.prompt import Image, Prompt, TextRun
from core.api.stats import ContextPart
from core.cache.tier import DiskTier
from core.engine import stats
from core.engine.stats import MessageMap
from tests.promises.fixtures import PictureOf
from tests.promises.machine import Machine, user, words


@given(st.lists(st.integers(0, 50)).map(sorted), st.integers(0, 60))
def test_a_token_is_in_the_last_message_that_starts_at_or_before_it(
    starts: list[int], token: int
) -> None:
    messages = MessageMap(tuple(map(TokenIndex, starts)), frozenset())
    before = [index for index, start in enumerate(starts) if start <= token]
    assert messages.at(TokenIndex(token)) == (before[-1] if before else None)


def test_W1_parts_are_made_for_stretches_and_not_for_runs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told after every run, parts for every run would be as many as the square of the runs."""
    made: list[ContextPart] = []

    def counted(**fields: object) -> ContextPart:
        made.append(ContextPart.model_validate(fields))
        return made[-1]

    monkeypatch.setattr(stats, "ContextPart", counted)
    chat: list[Message] = [user("One")]
    for index in range(20):
        chat += [machine.ask(chat[:1]).reply, user(words(3, f"{index}-"))]
    made.clear()
    answer = machine.ask(chat)
    told = [event.stats.parts for event in answer.events if isinstance(event, Prefilling)]
    told.append(answer.stats.parts)
    assert len(made) == sum(map(len, told)) <= 2 * len(told) + 1
    assert len(told) > 40


def test_W1_the_disk_is_asked_less_often_than_there_are_runs(
    kept: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked about each after every run, it would be asked as often as the square of the runs."""
    asked: list[bytes] = []
    real = DiskTier.holds_rows

    def counted(self: DiskTier, key: bytes) -> bool:
        asked.append(key)
        return real(self, key)

    chat: list[Message] = [user("One")]
    for index in range(20):
        chat += [kept.ask(chat[:1]).reply, user(words(3, f"{index}-"))]
    kept.write()
    monkeypatch.setattr(DiskTier, "holds_rows", counted)
    answer = kept.ask(chat)
    assert 0 < len(asked) < len(kept.prompt(chat).runs) > 40
    assert any(part.on_disk for part in answer.stats.parts)


def test_W1_parts_say_of_every_token_what_it_is_and_where(
    machine: Machine, picture: PictureOf
) -> None:
    """A picture is a part of its own, and text that is alike is one."""
    chat: list[Message] = [user(words(100), picture(1), picture(2), "Both.")]
    chat += [machine.ask(chat).reply, user("More.")]
    answer = machine.ask(chat)
    *parts, reply = answer.stats.parts
    runs = machine.prompt(chat).runs
    assert [part.start for part in (*parts, reply)] == [0, *(part.end for part in parts)]
    assert parts[-1].end == runs[-1].end.token.value
    assert (reply.source, reply.end - reply.start) == ("reply", len(answer.ids))
    evaluated = [part.end - part.start for part in parts if part.source == "evaluated"]
    assert sum(evaluated) == answer.evaluated
    pictures = [run for run in runs if isinstance(run.content, Image)]
    assert [(part.start, part.end) for part in parts if part.kind == "image"] == [
        (run.start.token.value, run.end.token.value) for run in pictures
    ]
    assert [(part.kind, part.source) for part in parts] == [
        ("text", "reused"),
        ("image", "reused"),
        ("text", "reused"),  # the marks between the pictures
        ("image", "reused"),
        ("text", "reused"),
        ("text", "evaluated"),
    ]
    assert all(part.tier == "slab" and not part.on_disk for part in parts)


GRID = TextRun((1,) * 8)
END = TextRun((9,))
SHORT = TextRun((1, 1))


@pytest.mark.parametrize(
    ("parts", "starts", "edges"),
    [
        ((GRID, SHORT, END, SHORT), (0,), [8]),
        ((GRID, GRID, SHORT, END, SHORT), (0,), [16, 8]),
        ((GRID, GRID, SHORT, SHORT, END, SHORT), (0,), [16]),
        ((SHORT, END, SHORT), (0,), []),
        # A long reply, and a long message before the last one.
        ((SHORT, END, GRID, SHORT, END, SHORT, END, SHORT), (0, 3, 14), []),
        ((GRID, SHORT, END, SHORT, END, SHORT, END, SHORT), (0, 11, 14), []),
        ((GRID, SHORT, END, SHORT, END, GRID, SHORT, END, SHORT), (0, 11, 14), [22]),
        # A raw prompt, which programs send again with more text.
        ((GRID, GRID, SHORT), (), [16, 8]),
        ((SHORT,), (), []),
    ],
)
def test_S8_the_last_grid_cuts_of_the_last_question_are_edges(
    parts: tuple[TextRun, ...], starts: tuple[int, ...], edges: list[int]
) -> None:
    replies = frozenset({1}) if starts else frozenset[int]()
    messages = MessageMap(tuple(map(TokenIndex, starts)), replies)
    roles = messages.roles(Prompt(parts, frozenset({9}), 8))
    assert [token.value for token, role in roles.items() if role == "edge"] == edges
