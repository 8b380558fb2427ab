"""The whole model's figure, computed from made-up figures."""

from __future__ import annotations

import pytest

from tests.bench.peer import Reading
from tests.bench.rounds import Row, Step
from tests.bench.shapes import chosen
from tests.bench.speed_tables import PEER
from tests.bench.spread import Spread
from tests.bench.test_speed import lines_of
from tests.bench.whole import Parts, whole_table

CUT = chosen("35B-A3B/8")
PROMPT, GENERATE, LOAD = Step("prompt", 100), Step("generate", 10, 50), Step("load", 0)
SECOND = f"{PEER} float32"


def row(step: Step, work: int, **seconds: float) -> Row:
    """A row of readings, each engine with the same work, on a machine that does 100 a second."""
    named = {"int4": seconds["own"], PEER: seconds["peer"], SECOND: seconds["second"]}
    is_prompt = step.task == "prompt"
    readings = {
        name: [Reading(each, operations=work if is_prompt else 0, least_bytes=work)]
        for name, each in named.items()
    }
    return Row(step, readings, {name: [100.0] for name in named})


def test_all_layers_take_the_head_and_as_much_as_each_was_seen_to() -> None:
    parts = Parts(5.0, 1.0, CUT)
    assert (parts.layer, parts.every) == (0.5, 21.0)
    assert (CUT.layers, CUT.whole) == (8, 40)


def test_the_table_is_computed_from_both_measurements() -> None:
    rows = {
        GENERATE: row(GENERATE, 900, own=50.0, peer=90.0, second=170.0),
        PROMPT: row(PROMPT, 90, own=5.0, peer=9.0, second=17.0),
        LOAD: row(LOAD, 1, own=1.0, peer=1.0, second=1.0),
    }
    heads = {
        GENERATE: row(GENERATE, 100, own=10.0, peer=10.0, second=10.0),
        PROMPT: row(PROMPT, 10, own=1.0, peer=1.0, second=1.0),
    }
    llama = {"llama.cpp": {PROMPT: Spread(10, 10, 10, 1), GENERATE: Spread(0.1, 0.1, 0.1, 1)}}
    llama_head = {"llama.cpp": {PROMPT: Spread(50, 50, 50, 1)}}  # it failed at the other
    text = whole_table(CUT, "int4", (rows, llama), (heads, llama_head))
    assert text.startswith("Computed for all 40 layers from these 8, and from the same table")
    header, *lines = lines_of(text)
    assert header[1:] == [
        "Waymark", PEER, "ratio", "of the limit", SECOND, "ratio", "llama.cpp", "ratio",
    ]  # fmt: skip
    assert [line[0] for line in lines] == [
        "prompt of 100: a layer, ms",
        "prompt of 100: table and head, ms",
        "prompt of 100: 40 layers, tokens/s",
        "behind 50: a layer, ms",
        "behind 50: table and head, ms",
        "behind 50: 40 layers, tokens/s",
    ]
    # 5 s are 1 of the head and 0.5 of each layer: 21 s for all. Likewise 9, 17 and, of 10 a second
    # and 50 without layers, 10 and 2.
    assert lines[0][1:] == ["500", "1,000", "0.50", "0.20", "2,000", "0.25", "1,000", "0.50"]
    assert lines[1][1:] == ["1,000", "1,000", "1.00", "0.10", "1,000", "1.00", "2,000", "0.50"]
    assert lines[2][1:] == ["4.76", "2.44", "1.95", "0.20", "1.23", "3.86", "2.38", "2.00"]
    # A token's time, and nothing of who was measured in one of both alone.
    assert lines[3][1:] == ["500", "1,000", "0.50", "0.20", "2,000", "0.25", "", ""]
    assert lines[5][1:4] == ["0.05", "0.02", "1.95"]


@pytest.mark.parametrize("own", [1.0, 0.5])
def test_layers_that_took_no_time_are_not_told(own: float) -> None:
    rows = {PROMPT: row(PROMPT, 90, own=own, peer=9.0, second=17.0)}
    heads = {PROMPT: row(PROMPT, 10, own=1.0, peer=1.0, second=1.0)}
    _, layer, head, every = lines_of(whole_table(CUT, "int4", (rows, {}), (heads, {})))
    assert layer[1:] == ["", "1,000", "", "", "2,000", ""]
    assert head[1:3] == ["1,000", "1,000"]
    assert every[1:4] == ["", "2.44", ""]
