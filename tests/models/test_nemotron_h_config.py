"""Nemotron-H's config.json and names as published, and what is refused by the name of its key."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from core.api.errors import BrokenConfigError
from core.models.nemotron_h import NemotronHConfig, parse_config
from tests.oracle.runs import load, our_logits, text
from tests.oracle.tiny_nemotron_h import TinyNemotron, write_nemotron

# The sizes of nvidia/NVIDIA-Nemotron-Nano-9B-v2's config.json, in the names it was written with.
PUBLISHED: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "num_hidden_layers": 56,
    "hidden_size": 4480,
    "intermediate_size": 15680,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 131072,
    "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "n_groups": 8,
    "mamba_num_heads": 128,
    "mamba_head_dim": 80,
}


def test_a_published_config_is_read_as_it_is() -> None:
    config = parse_config(PUBLISHED)
    kinds = config.layers_block_type
    assert [kinds.count(each) for each in ("linear_attention", "full_attention", "mlp")] == [
        27, 4, 25,
    ]  # fmt: skip
    sizes, form = config.mamba_sizes, config.mamba_form
    assert (sizes.width, sizes.conv_width) == (10240, 10240 + 2 * 8 * 128)
    assert (form.norm_groups, form.gate_first, form.limits) == (8, True, (0.001, math.inf))


def test_newer_names_of_blocks_mean_the_same() -> None:
    kinds = list(parse_config(PUBLISHED).layers_block_type)
    rest = {key: value for key, value in PUBLISHED.items() if key != "hybrid_override_pattern"}
    older = {"linear_attention": "mamba", "full_attention": "attention", "mlp": "mlp"}
    for key in ("layers_block_type", "layer_types"):
        assert parse_config(rest | {key: kinds}) == parse_config(PUBLISHED)
        named = [older[kind] for kind in kinds]
        assert parse_config(rest | {key: named}) == parse_config(PUBLISHED)


def test_older_keys_come_before_newer_ones() -> None:
    """As transformers reads them."""
    older = {"mamba_n_groups": 4, "mamba_d_conv": 3, "mamba_dt_min": 0.01, "mamba_conv_bias": False}
    config = parse_config(PUBLISHED | older)
    assert (config.n_groups, config.conv_kernel, config.time_step_min) == (4, 3, 0.01)
    assert not config.use_conv_bias


def test_parsing_what_was_parsed_changes_nothing() -> None:
    config = parse_config(PUBLISHED)
    assert NemotronHConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hybrid_override_pattern": "MEM*"}, "experts"),
        ({"hybrid_override_pattern": "MX"}, "layers_block_type"),
        ({"hybrid_override_pattern": ""}, "layers_block_type"),
        ({"hybrid_override_pattern": "M" * 5000}, "layers_block_type"),
        ({"hybrid_override_pattern": None}, "layers_block_type"),
        ({"layers_block_type": ["sliding"]}, "layers_block_type"),
        ({"layers_block_type": [3]}, "layers_block_type"),
        ({"num_key_value_heads": 7}, "num_key_value_heads"),
        ({"n_groups": 7}, "n_groups"),
        ({"mlp_hidden_act": "gelu"}, "mlp_hidden_act"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings"),
        ({"time_step_min": -1.0}, "time_step_min"),
        ({"hidden_size": "wide"}, "hidden_size"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenConfigError, match=words):
        parse_config(PUBLISHED | change)


def test_both_spellings_of_the_weights_are_read(tmp_path: Path) -> None:
    """Releases say backbone where transformers says model."""
    write_nemotron(tmp_path, TinyNemotron("M*"))
    expected = our_logits(load(tmp_path), [text(20)])
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    spelling = {"model.": "backbone.", "backbone.": "model."}
    before = "model." if any(name.startswith("model.") for name in tensors) else "backbone."
    after = {name.replace(before, spelling[before], 1): each for name, each in tensors.items()}
    assert after.keys() != tensors.keys()
    save_file(after, path, metadata={"format": "pt"})
    assert our_logits(load(tmp_path), [text(20)]).equal(expected)
