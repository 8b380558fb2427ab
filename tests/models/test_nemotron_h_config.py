"""Nemotron-H's config.json and names as published, and what is refused by the name of its key."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.api.errors import BrokenConfigError
from core.models.nemotron_h import NemotronHConfig, NemotronHModel, parse_config
from core.weights.plan import Weights, plan_weights
from kernels.common.shapes import Routing
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

# Facts of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16's.
NANO_3: dict[str, Any] = PUBLISHED | {
    "num_hidden_layers": 52,
    "hidden_size": 2688,
    "intermediate_size": 1856,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "max_position_embeddings": 262144,
    "mlp_bias": False,
    "mlp_hidden_act": "relu2",
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_group": 1,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 6,
    "routed_scaling_factor": 2.5,
    "topk_group": 1,
    "use_bias": False,
    "use_conv_bias": True,
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


def test_a_published_config_with_experts_is_read_as_it_is() -> None:
    config = parse_config(NANO_3)
    kinds = config.layers_block_type
    assert [kinds.count(each) for each in ("linear_attention", "full_attention", "moe")] == [
        23, 6, 23,
    ]  # fmt: skip
    sizes = config.expert_sizes
    assert (sizes.count, sizes.inner, sizes.gated, sizes.latent) == (128, 1856, False, None)
    assert sizes.routing == Routing(6, normalise=True, sigmoid=True, scale=2.5)

    def build(weights: Weights) -> None:
        weights.stored = lambda name: () if name.endswith("_proj") else None
        NemotronHModel(config, weights, torch.device("cpu"))

    plan = plan_weights(build, torch.bfloat16)
    assert sum(spec.num_elements for spec in plan.values()) == pytest.approx(31.58e9, rel=1e-3)
    scope = "model.layers.1.mixer."
    correction = plan[f"{scope}gate.e_score_correction_bias"]
    assert (correction.shape, correction.dtype) == ((128,), torch.float32)
    assert plan[f"{scope}gate.weight"].exact and plan[f"{scope}gate.weight"].shape == (128, 2688)
    assert plan[f"{scope}experts.up_proj"].stored_shape == (128, 1856, 2688)
    assert plan[f"{scope}shared_experts.up_proj.weight"].shape == (3712, 2688)


def test_what_is_left_out_about_experts_has_the_value_that_transformers_gives_it() -> None:
    config = parse_config({"layers_block_type": ["moe"]})
    sizes = config.expert_sizes
    assert (sizes.count, sizes.inner, config.moe_shared_expert_intermediate_size) == (8, 7688, 7688)
    assert sizes.routing == Routing(2, sigmoid=True)
    assert (
        parse_config({"layers_block_type": ["moe"], "num_local_experts": 5}).n_routed_experts == 5
    )


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_routed_experts": 0}, "n_routed_experts"),
        ({"num_experts_per_tok": 129}, "num_experts_per_tok"),
        ({"n_group": 5}, "n_group"),
        ({"n_group": 128}, "n_group"),
        ({"n_group": 4, "topk_group": 5}, "topk_group"),
        ({"n_group": 64, "topk_group": 2}, "num_experts_per_tok"),
        ({"n_shared_experts": 2}, "n_shared_experts"),
        ({"moe_latent_size": 0}, "moe_latent_size"),
        ({"moe_latent_size": 64, "mlp_bias": True}, "mlp_bias"),
        ({"routed_scaling_factor": 0.0}, "routed_scaling_factor"),
    ],
)
def test_what_does_not_fit_about_experts_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenConfigError, match=words):
        parse_config(NANO_3 | change)


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
