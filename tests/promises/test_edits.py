"""U3, S8, D1: the tokens that an edit reads again, with the default settings."""

from __future__ import annotations

import pytest

from core.api.chat import Message
from core.api.params import CacheSettings
from tests.promises.machine import Answer, Machine, num_common, system, user, words
from tests.promises.reading import GRID

DEFAULTS = CacheSettings()
# The tokens of "</document>" and the blank line, of which one is before the split point.
CLOSING = 13
BEGINNING = system("Be brief. " + words(10))
QUESTIONS = ("Who is it?", "What does it say?")
everywhere = pytest.mark.parametrize(
    "machine", ["hybrid", "pure", "gemma3", "thinking"], indirect=True
)


def document(count: int, salt: str) -> str:
    return f'<document name="{salt}.txt">\n{words(count, salt)}\n</document>\n\n'


def read(machine: Machine, chat: list[Message]) -> Answer:
    """Answer, and prefill the reply as an idle engine does."""
    answer = machine.ask(chat, cache=DEFAULTS)
    machine.settle([*chat, answer.reply], cache=DEFAULTS)
    return answer


def read_again(before: Answer, after: Answer) -> int:
    return num_common(before.finished.prompt_ids, after.finished.prompt_ids) - after.reused


@everywhere
def test_U3_another_question_after_documents_reads_itself(machine: Machine) -> None:
    documents = [document(60, "a"), document(90, "b")]
    first = read(machine, [BEGINNING, user(*documents, QUESTIONS[0])])
    other = machine.same_as_cold([BEGINNING, user(*documents, QUESTIONS[1])], cache=DEFAULTS)
    assert 0 <= read_again(first, other) <= CLOSING
    without = machine.same_as_cold([BEGINNING, user(documents[0], QUESTIONS[1])], cache=DEFAULTS)
    assert 0 <= read_again(first, without) <= CLOSING
    elsewhere = machine.same_as_cold(
        [BEGINNING, user(*documents, "In another chat?")], cache=DEFAULTS, chat="0" * 32
    )
    assert 0 <= read_again(first, elsewhere) <= CLOSING


@everywhere
def test_U3_a_dropped_document_is_prefilled_to_its_end(machine: Machine) -> None:
    dropped = document(90, "a")
    machine.read_ahead([user(dropped, "")], cache=DEFAULTS)
    draft = machine.prompt([user(dropped, "")]).ids(0)
    asked = machine.same_as_cold([user(dropped, QUESTIONS[0])], cache=DEFAULTS)
    assert 0 <= num_common(draft, asked.finished.prompt_ids) - asked.reused <= CLOSING
    assert asked.stats.miss is None


@pytest.mark.parametrize("count", [100, 150, 200])
def test_S8_a_question_after_a_long_text_reads_less_than_one_grid_step_again(
    machine: Machine, count: int
) -> None:
    pasted = words(count)
    first = read(machine, [user(f"{pasted}\n\n{QUESTIONS[0]}")])
    # One or two checkpoints serve such edits; the others are the message's end and the prompt's.
    assert len(first.stats.checkpoints) in (3, 4)
    other = machine.same_as_cold([user(f"{pasted}\n\n{QUESTIONS[1]}")], cache=DEFAULTS)
    assert 0 <= read_again(first, other) < GRID


@pytest.mark.parametrize("most", [CLOSING, 3 * GRID // 2])
def test_D1_an_edit_after_a_restart_reads_what_it_would_have_read_before(
    kept: Machine, most: int
) -> None:
    long = [document(120, "a")] if most == CLOSING else [words(200) + "\n\n"]
    chats: list[list[Message]] = [
        [user(*long, question) if most == CLOSING else user(long[0] + question)]
        for question in QUESTIONS
    ]
    first = read(kept, chats[0])
    kept.reopen()
    other = kept.same_as_cold(chats[1], cache=DEFAULTS)
    assert other.stats.restored_from == "disk"
    assert 0 <= read_again(first, other) <= most


def test_D1_an_edit_of_a_text_that_grew_reads_no_more_after_a_restart(kept: Machine) -> None:
    for count in range(140, 200, 20):
        read(kept, [user(words(count))])
    first = read(kept, [user(f"{words(200)}\n\n{QUESTIONS[0]}")])
    kept.reopen()
    other = kept.same_as_cold([user(f"{words(200)}\n\n{QUESTIONS[1]}")], cache=DEFAULTS)
    assert other.stats.restored_from == "disk"
    assert 0 <= read_again(first, other) <= 3 * GRID // 2
