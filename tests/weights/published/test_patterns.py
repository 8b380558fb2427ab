"""Patterns match as Python's do, and none holds up the engine."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError
from core.weights.published.scheme import MAX_LENGTH, MOST, Patterns

LAYERS = (
    "lm_head",
    "model.language_model.layers.0.linear_attn.in_proj_qkv",
    "model.language_model.layers.11.self_attn.o_proj",
    "model.language_model.layers.3.mlp.gate_proj",
    "model.visual.blocks.2.attn.qkv",
    "mtp.fc",
)
# As found in published folders.
PUBLISHED = (
    ".*attn.*", ".*shared_expert.*", ".*mtp.*", ".*visual.*", ".*lm_head", "visual.*",
    r".*mlp\.gate$", r"model\.layers\.\d+\.mlp", r".*\.(gate|up)_proj", "^lm_head$",
    r"model\.language_model\.layers\.(0|1[0-9])\.", r"(?!.*visual).*proj$", "(?:.*)qkv",
    r"^(?!.*\.mlp\.).*", "vision_tower.*", r".*layers\.[0-9]{1,2}\.self_attn", ".*o_proj|mtp",
)  # fmt: skip


@pytest.mark.parametrize("source", PUBLISHED)
def test_published_patterns_match_as_in_python(source: str) -> None:
    patterns = Patterns([source])
    for layer in LAYERS:
        assert patterns.match(layer) is bool(re.match(source, layer)), layer


@pytest.fixture(scope="module")
def several() -> Patterns:
    return Patterns(PUBLISHED[:5])


@given(name=st.text(max_size=30))
def test_a_list_matches_where_any_of_it_does(several: Patterns, name: str) -> None:
    assert several.match(name) is any(bool(re.match(each, name)) for each in PUBLISHED[:5])


DEEP = "(" * 400 + ")" * 400
UNREADABLE = ["(", "a)", "[a", "a**", "*a", "a{3,2}", "a\\", "[b-a]", "(?P<x"]
NOT_FOLLOWED = ["(?i)a", r"(a)\1", "(?<=a)b", "(?>a)", "a++", "((((a*)*)*)*)*b", DEEP]


@pytest.mark.parametrize("source", UNREADABLE + NOT_FOLLOWED)
def test_a_pattern_that_is_not_followed_is_refused(source: str) -> None:
    with pytest.raises(UnsupportedQuantisationError, match="can't be read") as caught:
        Patterns(["fine", source])
    assert caught.value.title and "quantization_config" in caught.value.message


def test_too_long_or_too_many_patterns_are_refused() -> None:
    with pytest.raises(UnsupportedQuantisationError):
        Patterns(["a" * (MAX_LENGTH + 1)])
    with pytest.raises(BrokenConfigError):
        Patterns(["a"] * (MOST + 1))


@pytest.mark.parametrize(
    "source",
    [
        r"(\w+\.?)+X", "(a|a)*b", "((a*)*)*b", "(a|a)" * 150 + "b", ".*" * 499 + "X",
        "(a?){4000000000}b", "a{99,4000000000}b", "(?!(a|a)*b)(.*a){50}b",
    ],
)  # fmt: skip
def test_a_pattern_made_to_take_long_is_followed_at_once(source: str) -> None:
    """Python's matcher takes hours for most of them, and holds up every thread."""
    began = time.process_time()
    assert not Patterns([source]).match("a" * 60)
    assert time.process_time() - began < 5


def test_a_stop_is_heard_between_two_patterns() -> None:
    asked: list[None] = []
    patterns = Patterns(["a", "b", "c"], lambda: asked.append(None))
    asked.clear()
    assert patterns.match("b")
    assert len(asked) == 2


PIECES = st.sampled_from(r"a b . 1 \. \d \w \W \s [ab] [^a] [b-d] ^ $ \b".split())


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        inner = expressions(depth - 1) if depth else PIECES
        kind = draw(st.sampled_from(["one", "group", "either", "ahead", "not"]))
        one, other = draw(PIECES), draw(inner)
        parts.append(
            {
                "one": one,
                "group": f"({other})" + draw(st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}?"])),
                "either": f"(?:{one}|{other})",
                "ahead": f"(?={other})",
                "not": f"(?!{other})",
            }[kind]
        )
    return "".join(parts)


@given(source=expressions(), name=st.text("ab1. \n", max_size=8))
def test_any_pattern_that_is_followed_matches_as_in_python(source: str, name: str) -> None:
    assert Patterns([source]).match(name) is bool(re.match(source, name))
