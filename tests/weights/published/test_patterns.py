"""Patterns match as Python's do, and none holds up the engine."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError
from core.weights.published.patterns import MAX_LENGTH, MOST, Patterns

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


def test_an_empty_list_matches_nothing_and_starts_nothing() -> None:
    patterns = Patterns([])
    assert not patterns.match("lm_head")
    assert patterns._helper.pid is None


@pytest.mark.parametrize(
    "source", ["(", "a)", "[a", "a**", "*a", "a{3,2}", "a\\", "[b-a]", "(?P<x"]
)
def test_what_cannot_be_read_is_refused(source: str) -> None:
    with pytest.raises(UnsupportedQuantisationError) as caught:
        Patterns(["fine", source])
    assert caught.value.title and "quantization_config" in caught.value.message


def test_what_is_too_long_or_too_many_is_refused() -> None:
    with pytest.raises(UnsupportedQuantisationError):
        Patterns(["a" * (MAX_LENGTH + 1)])
    with pytest.raises(BrokenConfigError):
        Patterns(["a"] * (MOST + 1))


@pytest.mark.parametrize("source", [r"(\w+\.?)+X", "(a|a)*b", "((a*)*)*b"])
def test_a_pattern_made_to_take_long_ends_the_helper_and_not_the_engine(source: str) -> None:
    patterns = Patterns([source])
    with pytest.raises(BrokenConfigError, match="takes too long"):
        patterns.match("a" * 60)
    # And it is a fresh helper that is asked next.
    assert patterns.match("X") is bool(re.match(source, "X"))
