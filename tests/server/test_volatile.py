"""Lines of system prompts that change with each request don't break what is reused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import AssistantMessage, Conversation, Message, SystemMessage
from core.api.commands import Generate
from core.server.held import HeldReplies, Placed, steadied
from core.server.kept_replies import KeptReplies
from tests.server.serving import ScriptedEngine, serving
from tests.server.test_held import ANSWER, FIRST, NEXT, numbers, placed

SYSTEM = "You are Claude Code.\n{date}\nBe brief.\n"
ATTRIBUTION = "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch={hash};"


@pytest.mark.parametrize(
    ("text", "around", "names"),
    [
        (ATTRIBUTION + "You are", ("You are",), ("Claude Code's attribution",)),
        ("a\n<total_tokens>149 tokens left</total_tokens>\n", ("a\n",), ("tokens left",)),
        ("a\nToday's date: 2026-11-26\nb", ("a\n", "\nb"), ("date",)),
        ("The current date is Thursday, 26 November 2026.", ("", ""), ("date",)),
        ("- Current time: 10:15", ("", ""), ("date",)),
        ("Today is a good day.\nCurrent time is money", None, ()),
        ("The x-anthropic-billing-header: is a header", None, ()),
    ],
)  # fmt: skip
def test_lines_that_are_volatile(
    text: str, around: tuple[str, ...] | None, names: tuple[str, ...]
) -> None:
    found = steadied(text)
    assert found.around == (around or (text,)) and found.names == names


def system(date: str, mark: str = "") -> SystemMessage:
    return SystemMessage(text=mark + SYSTEM.format(date=f"Today's date: {date}"))


def prompt(found: Placed) -> str:
    first: Message = found.conversation.messages[0]
    assert isinstance(first, SystemMessage)
    return first.text


def test_a_chat_keeps_the_date_of_its_first_request_and_another_gets_its_own(
    tmp_path: Path,
) -> None:
    with closing(KeptReplies(tmp_path / "replies.db")) as kept:
        held = HeldReplies(kept=kept)
        first = placed(held, system("2026-11-26"), FIRST)
        held.keep(first, ANSWER)
        sent = AssistantMessage(text=ANSWER.text)
        # A restart is no reason for another date.
        for each in (held, HeldReplies(kept=kept)):
            later = placed(each, system("2026-11-27"), FIRST, sent, NEXT)
            assert prompt(later) == prompt(first) and numbers(later) == [1]
            assert later.volatile == ("date",)
        assert "2026-11-28" in prompt(placed(held, system("2026-11-28"), NEXT))
        messages = (system("2026-11-29"), FIRST, sent, NEXT)
        unsteady = HeldReplies(kept=kept, steady=False)
        kept_as_sent = unsteady.place(Conversation(messages=messages), "me")
        assert "2026-11-29" in prompt(kept_as_sent) and kept_as_sent.volatile == ()


def test_a_question_that_is_asked_again_on_another_day_is_answered_of_that_day() -> None:
    held = HeldReplies()
    first = placed(held, system("2026-11-26"), FIRST)
    held.keep(first, ANSWER)
    # The same request again is the same chat, as with another reply.
    assert placed(held, system("2026-11-26"), FIRST).branch == first.branch
    second = placed(held, system("2026-11-27"), FIRST)
    assert second.branch != first.branch and "2026-11-27" in prompt(second)
    held.keep(second, ANSWER)
    again = placed(held, system("2026-11-28"), FIRST, AssistantMessage(text=ANSWER.text), NEXT)
    assert again.branch == second.branch and "2026-11-27" in prompt(again)


def test_the_attribution_of_each_request_is_left_out(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    with serving(engine.connect, tmp_path) as served:
        for at in range(2):
            blocks: Any = [
                {"type": "text", "text": ATTRIBUTION.format(hash=f"fa69{at}")},
                {"type": "text", "text": "You are Claude Code."},
            ]
            message = served.anthropic().messages.create(
                model="m", max_tokens=9, system=blocks,
                messages=[{"role": "user", "content": "Hello"}],
            )  # fmt: skip
            assert message.model_extra is not None
            timings = message.model_extra["timings"]
            assert timings["volatile_lines"] == ["Claude Code's attribution"]
        assert served.seen[-1].volatile == ("Claude Code's attribution",)
    commands: list[Generate] = engine.commands
    texts = {each.conversation.messages[0] for each in commands}
    assert texts == {SystemMessage(text="You are Claude Code.")}
