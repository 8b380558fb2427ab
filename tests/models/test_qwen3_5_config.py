"""config.json as it comes: every published spelling, and what is refused by the name of its key."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from core.api.errors import BrokenConfigError
from core.models.qwen3_5 import Qwen3_5Config, parse_config

TEXT: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [2, 1, 1]},
}
VISION: dict[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 64,
    "out_hidden_size": 32,
}
WHOLE: dict[str, Any] = {"model_type": "qwen3_5", "text_config": TEXT, "vision_config": VISION}


def changed(path: str, value: Any) -> dict[str, Any]:
    """WHOLE with one key set, or removed for Ellipsis."""
    values = copy.deepcopy(WHOLE)
    *parents, key = path.split(".")
    inner = values
    for parent in parents:
        inner = inner[parent]
    if value is ...:
        del inner[key]
    else:
        inner[key] = value
    return values


def test_the_usual_spelling() -> None:
    config = parse_config(WHOLE)
    assert config.text_config.types == ("linear_attention",) * 3 + ("full_attention",)
    assert config.text_config.rope_parameters.rope_theta == 5e6
    assert config.text_config.rotary_dim == 8
    assert config.vision is not None
    assert (config.vision.patch_size, config.vision.temporal_patch_size) == (16, 2)


def test_a_text_only_config_has_its_keys_on_top() -> None:
    config = parse_config({**TEXT, "model_type": "qwen3_5_text", "tie_word_embeddings": True})
    assert config.text_config.hidden_size == 32
    assert config.vision is None
    assert config.tied


def test_older_files_spread_the_rope_keys() -> None:
    values = changed("text_config.rope_parameters", ...)
    values["text_config"] |= {
        "rope_theta": 5_000_000,
        "partial_rotary_factor": 0.5,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]},
    }
    rope = parse_config(values).text_config.rope_parameters
    assert (rope.rope_theta, rope.partial_rotary_factor) == (5e6, 0.5)
    assert rope.mrope_section == (2, 1, 1)


@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
def test_rope_keys_may_be_null(key: str) -> None:
    values = changed("text_config.rope_parameters", ...)
    values["text_config"][key] = None
    assert parse_config(values).text_config.rope_parameters.rope_theta == 10_000


def test_the_interval_makes_the_pattern_when_there_is_no_list() -> None:
    kinds = parse_config(changed("text_config.full_attention_interval", 2)).text_config.types
    assert kinds == ("linear_attention", "full_attention") * 2
    listed = ["full_attention"] * 4
    config = parse_config(changed("text_config.layer_types", listed))
    assert config.text_config.types == tuple(listed)


@pytest.mark.parametrize(
    ("top", "inner", "tied"),
    [(None, None, False), (True, False, True), (False, True, False), (None, True, True)],
)
def test_the_top_level_decides_about_the_head(
    top: bool | None, inner: bool | None, tied: bool
) -> None:
    values = changed("tie_word_embeddings", top)
    values["text_config"] = TEXT | {"tie_word_embeddings": inner}
    assert parse_config(values).tied == tied


@pytest.mark.parametrize(
    ("path", "value"),
    [("vision_config", ...), ("vision_config", None), ("language_model_only", True)],
)
def test_a_folder_without_vision(path: str, value: Any) -> None:
    assert parse_config(changed(path, value)).vision is None


def test_unknown_keys_are_let_be() -> None:
    values = WHOLE | {"dtype": "bfloat16", "torch_dtype": "bfloat16", "output_gate_type": "swish"}
    assert isinstance(parse_config(values), Qwen3_5Config)


BAD: list[tuple[str, Any]] = [
    ("text_config", ...),
    ("text_config", 3),
    ("text_config.vocab_size", ...),
    ("text_config.hidden_size", ...),
    ("text_config.num_attention_heads", ...),
    ("text_config.hidden_size", "32"),
    ("text_config.hidden_size", -32),
    ("text_config.hidden_size", True),
    ("text_config.hidden_size", 32.5),
    ("text_config.num_attention_heads", 0),
    ("text_config.num_key_value_heads", 3),
    ("text_config.num_hidden_layers", 10**9),
    ("text_config.linear_num_value_heads", 17),
    ("text_config.layer_types", ["full_attention"]),
    ("text_config.layer_types", ["mamba"] * 4),
    ("text_config.layer_types", "full_attention"),
    ("text_config.rms_norm_eps", 0),
    ("text_config.rms_norm_eps", float("nan")),
    ("text_config.hidden_act", "relu"),
    ("text_config.attn_output_gate", False),
    ("text_config.head_dim", 5),
    ("text_config.rope_parameters", "default"),
    ("text_config.rope_parameters.rope_type", "yarn"),
    ("text_config.rope_parameters.rope_theta", "large"),
    ("text_config.rope_parameters.mrope_section", [1, 2]),
    ("text_config.rope_parameters.mrope_interleaved", False),
    ("text_config.rope_parameters.mrope_section", [-1, 3, 2]),
    ("text_config.rope_parameters.rope_type", [["default"]]),
    ("vision_config.in_channels", 4),
    ("vision_config.num_heads", 3),
    ("vision_config.depth", None),
    ("vision_config.out_hidden_size", 48),
    ("vision_config.num_position_embeddings", 35),
    ("vision_config.deepstack_visual_indexes", [1, 2]),
]


@pytest.mark.parametrize(
    ("path", "value"), BAD, ids=[f"{path}={value}"[:60] for path, value in BAD]
)
def test_nonsense_is_refused_by_name(path: str, value: Any) -> None:
    with pytest.raises(BrokenConfigError) as caught:
        parse_config(changed(path, value))
    key = path.rpartition(".")[2]
    assert {"num_heads": "hidden_size"}.get(key, key) in caught.value.message
    assert caught.value.message.startswith("config.json does not describe a model")


def test_several_faults_are_named_at_once() -> None:
    values = changed("text_config.hidden_size", 0)
    values["text_config"]["vocab_size"] = "many"
    with pytest.raises(BrokenConfigError, match=r"hidden_size.*vocab_size"):
        parse_config(values)
