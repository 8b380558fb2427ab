from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from desktop.chat.markdown import blocks as blocks_module
from desktop.chat.markdown import stream
from desktop.chat.markdown.blocks import MOST_CELLS, Block
from desktop.chat.markdown.stream import (
    LONGEST_BLOCK,
    LONGEST_CODE,
    MOST_LINES,
    MOST_STACKED,
    BlockStream,
)

pytestmark = pytest.mark.usefixtures("dressed")

SAMPLE = """# Title

One
line.

- a
- b

  more
```python
print(1)
``
```
| a | b |
|---|---|
| 1 | 2 |
> quote

~~~
left open"""

PIECES = st.sampled_from(
    [
        *(
            "a",
            "\n",
            "\n\n",
            "- ",
            "1. ",
            "# ",
            "```",
            "`",
            "~~~",
            "|",
            "|-|\n",
            "> ",
            "    ",
            "  ",
        ),
        *("\r\n", "\r", "***", "=", "-", "[a]: b", "<b>", "\x00", "\u2029"),
    ]
)


def streamed(pieces: Sequence[str]) -> list[Block]:
    stream = BlockStream()
    for piece in pieces:
        stream.append(piece)
    stream.finish()
    return stream.closed


def split_blocks(text: str) -> list[Block]:
    return streamed([text])


@pytest.fixture
def small_limits() -> Iterator[None]:
    """So small that a test can write longer texts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {"LONGEST_BLOCK": 40, "MOST_LINES": 5, "LONGEST_CODE": 15}.items():
            patch.setattr(stream, name, size)
        patch.setattr(blocks_module, "MOST_CELLS", 6)
        yield


def test_a_text_is_split_into_its_top_level_blocks() -> None:
    assert split_blocks(SAMPLE) == [
        Block("prose", "# Title"),
        Block("prose", "One\nline."),
        Block("prose", "- a\n- b\n\n  more"),
        Block("code", "print(1)\n``", "python"),
        Block("prose", "| a | b |\n|---|---|\n| 1 | 2 |"),
        Block("prose", "> quote"),
        Block("code", "left open"),
    ]


def assert_arrives_the_same(text: str, data: st.DataObject | None) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text))))) if data else range(len(text))
    edges = [0, *cuts, len(text)]
    arriving = [text[start:end] for start, end in pairwise(edges)]
    assert streamed(arriving) == split_blocks(text)


@given(st.lists(PIECES, max_size=40), st.data())
# A line that opens a listing, and that the next line would make the head of a table.
@example(["```  |-|\n", "-|-|\n", "x"], None)
def test_how_a_text_arrives_makes_no_difference(
    pieces: list[str], data: st.DataObject | None
) -> None:
    assert_arrives_the_same("".join(pieces), data)


@given(st.lists(PIECES, max_size=80), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_how_a_long_text_arrives_makes_no_difference(
    small_limits: None, pieces: list[str], data: st.DataObject
) -> None:
    assert_arrives_the_same("".join(pieces), data)


@given(st.lists(PIECES, max_size=40))
def test_a_closed_block_never_changes_and_open_code_only_grows(pieces: list[str]) -> None:
    stream = BlockStream()
    closed: list[Block] = []
    shown: list[Block] = []
    for piece in pieces:
        stream.append(piece)
        assert stream.closed[: len(closed)] == closed
        closed, before = list(stream.closed), shown
        shown = closed + stream.open
        for block, old in zip(shown, before, strict=False):
            if block.extends(old) and len(block.source) >= len(old.source):
                assert block.source.startswith(old.source)


def test_a_listing_is_open_until_its_fence_is_closed() -> None:
    stream = BlockStream()
    # What may become its end is not shown.
    for piece in ("```py\nprint(1)\n", "  ", "``", "`", " "):
        stream.append(piece)
        assert stream.open == [Block("code", "print(1)", "py", closed=False)]
    stream.append("\n")
    assert (stream.closed, stream.open) == ([Block("code", "print(1)", "py")], [])


@pytest.mark.parametrize(
    ("last", "code"), [("````", "a"), ("  `````", "a"), ("```", "a\n```"), ("~~~~", "a\n~~~~")]
)
def test_a_last_line_without_an_end_may_close_a_listing(last: str, code: str) -> None:
    assert split_blocks(f"````py\na\n{last}") == [Block("code", code, "py")]


@pytest.mark.parametrize(
    ("pieces", "block"),
    [
        # A longer fence holds a shorter one.
        (["````md\n```\ninner\n```\n````\n"], Block("code", "```\ninner\n```", "md")),
        # Only the fence's indentation is removed.
        (["  ```\n  a\n    b\n c\n  ```\n"], Block("code", "a\n  b\nc")),
        # All ends of lines are one.
        (["```\r", "\na\r", "b\r\n", "```\r"], Block("code", "a\nb")),
        # Characters that Qt reserves are replaced.
        (["a\x00b\ufdd0c\ud800d\u2029e"], Block("prose", "a\ufffdb\ufffdc\ufffdd\ufffde")),
        # A table of many cells is a table still.
        (
            ["|a|b|\n|-|-|\n" + "|c|d|\n" * (MOST_CELLS // 2 - 1)],
            Block("prose", "|a|b|\n|-|-|" + "\n|c|d|" * (MOST_CELLS // 2 - 1)),
        ),
    ],
)
def test_a_text_becomes_one_block(pieces: list[str], block: Block) -> None:
    assert streamed(pieces) == [block]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_marks_over_letters_are_shown_up_to_a_number(size: int) -> None:
    text = "a" + "\u0301" * 1_000 + "b"
    stream = BlockStream()
    for start in range(0, len(text), size):
        stream.append(text[start : start + size])
    stream.finish()
    assert stream.closed == [Block("prose", "a" + "\u0301" * MOST_STACKED + "b")]


def test_only_the_open_blocks_are_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = BlockStream()
    stream.append("".join(f"paragraph {number}\n\n" for number in range(100)))
    longest = 0
    real = blocks_module.find_blocks

    def watched(text: str) -> tuple[blocks_module.Found, ...]:
        nonlocal longest
        longest = max(longest, len(text))
        return real(text)

    monkeypatch.setattr("desktop.chat.markdown.stream.find_blocks", watched)
    for word in ["last ", "words ", "come\n"]:
        stream.append(word)
    assert 0 < longest <= len("paragraph 99\n\nlast words come\n")


def test_an_open_listing_is_not_parsed_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = BlockStream()
    stream.append("```\nfirst\n")
    monkeypatch.setattr("desktop.chat.markdown.stream.find_blocks", None)
    for _ in range(50):
        stream.append("more\n")
    assert stream.open == [Block("code", "first" + "\nmore" * 50, closed=False)]


def test_a_block_too_long_to_parse_is_cut_into_plain_pieces() -> None:
    length = 2 * LONGEST_BLOCK + 10
    blocks = split_blocks("x" * length)
    assert [block.kind for block in blocks] == ["plain", "plain", "prose"]
    assert "".join(block.source for block in blocks) == "x" * length


def test_a_list_too_long_goes_on_in_a_second_one() -> None:
    text = "".join(f"{number}. item\n" for number in range(1, 2 * MOST_LINES))
    blocks = split_blocks(text)
    assert [block.kind for block in blocks] == ["prose", "prose"]
    assert blocks[1].source.startswith(f"{MOST_LINES + 1}. item\n")
    assert "".join(block.source for block in blocks) == text.removesuffix("\n")


@pytest.mark.parametrize("after", ["", "\n> quote\n", "\nwords\n"])
def test_a_table_too_large_is_a_listing_up_to_the_next_empty_line(after: str) -> None:
    table = "|a|b|\n|-|-|\n" + "|c|d|\n" * MOST_CELLS
    first, *rest = split_blocks("before\n\n" + table + after)[1:]
    assert first == Block("code", table.removesuffix("\n"), "table")
    assert [block.source for block in rest] == ([after.strip()] if after else [])


@pytest.mark.parametrize("line", ["x" * 99 + "\n", "\n", "x" * LONGEST_CODE, "```x", " ", "  x\n"])
@pytest.mark.parametrize("indent", ["", "  "])
def test_a_listing_too_long_comes_in_pieces_that_lose_nothing(line: str, indent: str) -> None:
    code = line * (3 * LONGEST_CODE // len(line) + 2)
    code = code if code.endswith("\n") else code + "\n"
    shown = code.replace("\n", f"\n{indent}").removesuffix(indent)
    blocks = split_blocks(f"{indent}```py\n{indent}{shown}{indent}```\nafter")
    assert blocks.pop() == Block("prose", "after")
    assert {(block.kind, block.language) for block in blocks} == {("code", "py")}
    assert [block.continues for block in blocks] == [False] + [True] * (len(blocks) - 1)
    assert [block.closed for block in blocks] == [False] * (len(blocks) - 1) + [True]
    assert max(len(block.source) for block in blocks) <= LONGEST_CODE
    assert "".join(block.source for block in blocks) == code.removesuffix("\n")
