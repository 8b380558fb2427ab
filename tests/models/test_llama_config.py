"""Llama's and Qwen3's config.json as published, and what is refused by the name of its key."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from core.api.errors import BrokenConfigError
from core.layers.rope import inverse_frequencies
from core.models.llama import parse_config

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
SCALING = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
CPU = torch.device("cpu")


def test_what_an_early_llama_leaves_out_has_its_published_value() -> None:
    config = parse_config(LLAMA)
    assert (config.num_key_value_heads, config.head_dim) == (4, 16)
    assert config.max_position_embeddings == 2048 and not config.tie_word_embeddings
    assert config.rope_parameters.rope_theta == 10_000


def test_what_a_qwen3_leaves_out_has_its_published_value() -> None:
    config = parse_config(LLAMA | {"model_type": "qwen3", "sliding_window": None})
    assert config.head_dim == 128 and config.max_position_embeddings == 32_768


def test_rope_is_read_in_its_older_spelling() -> None:
    config = parse_config(LLAMA | {"rope_theta": 500000, "rope_scaling": SCALING})
    rope = config.rope_parameters
    assert (rope.rope_type, rope.rope_theta, rope.factor) == ("llama3", 5e5, 8.0)
    older = LLAMA | {"rope_scaling": {"type": "linear", "factor": 2}}
    frequencies = parse_config(older).rope_parameters.frequencies(16, CPU)
    assert torch.equal(frequencies, inverse_frequencies(1e4, 16, CPU) / 2)


def test_stretched_frequencies_keep_the_fast_and_slow_down_the_slow() -> None:
    rope = parse_config(LLAMA | {"rope_theta": 500000, "rope_scaling": SCALING}).rope_parameters
    plain = inverse_frequencies(5e5, 128, CPU)
    ratio = rope.frequencies(128, CPU) / plain
    assert ratio[0] == 1 and ratio[-1] == 1 / 8
    assert bool((ratio.diff() <= 0).all())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "dynamic"),
        ({"rope_parameters": "none"}, "rope_parameters"),
        ({"rope_scaling": SCALING | {"high_freq_factor": 1.0}}, "high_freq_factor"),
        ({"partial_rotary_factor": 0.5, "rope_parameters": {"partial_rotary_factor": 0.5}}, "part"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"head_dim": 15}, "head_dim"),
        ({"vocab_size": None}, "vocab_size"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"hidden_size": "wide"}, "hidden_size"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenConfigError, match=words):
        parse_config(LLAMA | change)
