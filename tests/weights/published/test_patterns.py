"""The matcher agrees with Python's on everything it reads, and never takes long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError
from core.weights.published.patterns import MAX_DEPTH, MAX_LENGTH, Pattern

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
    pattern = Pattern(source)
    for layer in LAYERS:
        assert pattern.matches(layer) is bool(re.match(source, layer)), layer


ATOMS = st.sampled_from(r"a b \. . [ab] [^a] [a-c.] []a] [a-] \w \d [\w-] ^ $".split())


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{1,}", "*?", "+?", "??"])
    groups = st.sampled_from(["({})", "(?:{})", "(?={})", "(?!{})"])
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{}|{}".format, inner, inner),
        st.builds(lambda group, each: group.format(each), groups, inner),
        st.builds("(?:{}){}".format, inner, repeats),
    )


@given(st.recursive(ATOMS, _grow, max_leaves=8), st.text("ab.c1", max_size=7))
def test_it_agrees_with_python(source: str, text: str) -> None:
    assert Pattern(source).matches(text) is bool(re.match(source, text))


@pytest.mark.parametrize(
    "source",
    ["(", ")", "a)", "(a", "[a", "a**", "*a", "a{2", "a{3,2}", "a{999}", "a{b}", r"(a)\1", "(?i)a",
     "(?<=a)b", "(?P<x>a)", r"\bword", "a\\", "[b-a]", "[[:alpha:]]", "^*", "(?=a)*", "a*+", "{",
     "a{1,2}{3}", "(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1), "a" * (MAX_LENGTH + 1)],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(source: str) -> None:
    with pytest.raises(UnsupportedQuantisationError) as caught:
        Pattern(source)
    assert caught.value.title and "quantization_config" in caught.value.message


@pytest.mark.parametrize("source", [r"(\w+\.?)+X", "(a*)*b", "(a|a)*b", "((a*)*)*b", ".*.*.*.*.*b"])
def test_patterns_that_hold_up_python_do_not_hold_up_this(source: str) -> None:
    pattern = Pattern(source)
    for _ in range(20):
        assert not pattern.matches("a" * 60)


@pytest.mark.parametrize(
    "source",
    ["(((((a*)*)*)*)*)*b" * 8, "((((){256}){256}){256}){256}", "((((|a){256}){256}){256}){256}"],
)
def test_a_pattern_made_to_take_long_is_refused(source: str) -> None:
    pattern = Pattern(source)

    def match() -> None:
        for _ in range(10_000):
            pattern.matches("a" * 80)

    with pytest.raises(BrokenConfigError, match="takes too long"):
        match()
