"""Quantisation settings in config.json: accepted, refused and left out."""

from __future__ import annotations

from typing import Any

import pytest

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError
from core.weights.published.formats import (
    AwqFormat,
    Float4Format,
    Float8Format,
    GptqFormat,
    PackQuantizedFormat,
)
from core.weights.published.scheme import Scheme, read_scheme

FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


def packed(**weights: Any) -> dict[str, Any]:
    """The scheme that llm-compressor writes, with other values in `weights`."""
    scheme = {
        "num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32,
        "actorder": None, "dynamic": False, "observer": "mse", "block_structure": None,
    }  # fmt: skip
    group = {"targets": ["Linear"], "weights": scheme | weights, "input_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head", "re:.*visual.*", "model.layers.0.mlp.down_proj"],
        "kv_cache_scheme": None,
        "sparsity_config": {},
        "transform_config": {},
    }


def float4(kind: str, **weights: Any) -> dict[str, Any]:
    nvfp4 = {"type": "float", "strategy": "tensor_group", "group_size": 16}
    mxfp4 = {"type": "float", "strategy": "group", "group_size": 32}
    given = nvfp4 if kind == "nvfp4" else mxfp4
    return packed(**given | weights) | {"format": f"{kind}-pack-quantized"}


MODELOPT = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "ignore": ["lm_head", "model.layers.0.self_attn*"],
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
    "producer": {"name": "modelopt", "version": "0.37.0"},
}


def scheme(values: Any) -> Scheme:
    found = read_scheme({"quantization_config": values})
    assert found is not None
    return found


def plain(group_size: int, *, symmetric: bool = True, reordered: bool = False) -> GptqFormat:
    return GptqFormat(group_size, symmetric, reordered, zeros_less_one=True)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (FP8, Float8Format((128, 128))),
        (FP8 | {"weight_block_size": [64, 32]}, Float8Format((64, 32))),
        (FP8 | {"activation_scheme": "dynamic", "scale_fmt": None}, Float8Format((128, 128))),
        (GPTQ, plain(128)),
        (GPTQ | {"group_size": -1, "desc_act": True}, plain(-1, reordered=True)),
        (GPTQ | {"sym": False, "checkpoint_format": "gptq"}, plain(128, symmetric=False)),
        (GPTQ | {"checkpoint_format": "GPTQ_V2"}, GptqFormat(128, True, False, False)),
        (GPTQ | {"format": "gptq_v2"}, GptqFormat(128, True, False, False)),
        (GPTQ | {"dynamic": {"lm_head": {}, "-:.*attn.*": {}, "+:.*": {"bits": 4}}}, plain(128)),
        (GPTQ | {"dynamic": {"-:.*attn.*": {"bits": 8}}}, plain(128)),
        (AWQ, AwqFormat(128)),
        (AWQ | {"version": "GEMM", "modules_to_not_convert": None}, AwqFormat(128)),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, AwqFormat(64)),
        (packed(), PackQuantizedFormat(32, symmetric=True, reordered=False)),
        (packed(symmetric=False), PackQuantizedFormat(32, symmetric=False, reordered=False)),
        (packed(actorder="static"), PackQuantizedFormat(32, symmetric=True, reordered=False)),
        (packed(actorder="group"), PackQuantizedFormat(32, symmetric=True, reordered=True)),
        (
            packed(strategy="channel", group_size=None),
            PackQuantizedFormat(-1, symmetric=True, reordered=False),
        ),
        (
            float4("nvfp4"),
            Float4Format(16, ".weight_packed", whole=".weight_global_scale", divides=True),
        ),
        (float4("mxfp4"), Float4Format(32, ".weight_packed")),
        (MODELOPT, Float4Format(16, ".weight", whole=".weight_scale_2")),
        ({"quant_method": "mxfp4"}, Float4Format(32, "_blocks", "_scales", grouped=True)),
    ],
)
def test_known_formats(values: Any, expected: object) -> None:
    assert scheme(values).format == expected


@pytest.mark.parametrize("values", [{}, {"quantization_config": None}, {"quantization_config": {}}])
def test_plain_weights_have_no_scheme(values: Any) -> None:
    assert read_scheme(values) is None


def test_it_is_found_where_it_may_be() -> None:
    for config in (
        {"compression_config": packed()},
        {"text_config": {"quantization_config": packed()}},
        {"quantization_config": packed(), "text_config": {"quantization_config": packed()}},
    ):
        assert read_scheme(config) is not None


def test_two_that_differ_are_refused() -> None:
    config = {"quantization_config": GPTQ, "text_config": {"quantization_config": AWQ}}
    with pytest.raises(BrokenConfigError, match="differ"):
        read_scheme(config)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"quant_method": "bitsandbytes"}, "bitsandbytes.*compressed-tensors"),
        ({"quant_method": "x" * 10_000}, "xxx"),
        (FP8 | {"weight_block_size": None}, "weight_block_size"),
        (FP8 | {"fmt": "e5m2"}, "e5m2"),
        (FP8 | {"scale_fmt": "ue8m0"}, "ue8m0"),
        (FP8 | {"activation_scheme": "none"}, "activation_scheme"),
        (GPTQ | {"bits": 8}, "bits = 8"),
        (GPTQ | {"bits": 3}, "bits = 3"),
        (GPTQ | {"bits": True}, "bits"),
        (GPTQ | {"bits": 4.0}, "bits"),
        (GPTQ | {"checkpoint_format": "marlin"}, "marlin"),
        (GPTQ | {"pack_dtype": "int8"}, "pack_dtype"),
        (GPTQ | {"dynamic": {r"+:.*\.down.*": {"bits": 8}}}, "bits = 8"),
        (GPTQ | {"dynamic": {"lm_head": {"group_size": 32}}}, "group_size = 32"),
        (GPTQ | {"dynamic": {"lm_head": {"sym": False}}}, "sym = False"),
        (GPTQ | {"dynamic": {"-:(x": {}}}, "pattern"),
        (AWQ | {"bits": 8}, "bits = 8"),
        (AWQ | {"version": "gemv"}, "gemv"),
        (AWQ | {"version": "exllama"}, "exllama"),
        (AWQ | {"zero_point": False}, "zero_point"),
        (AWQ | {"backend": "llm-awq"}, "llm-awq"),
        (packed() | {"format": "nvfp4-pack-quantized"}, "type = int"),
        (float4("nvfp4", group_size=32), "group_size = 32"),
        (float4("mxfp4", num_bits=8), "num_bits = 8"),
        (MODELOPT | {"quant_algo": "NVFP4_AWQ"}, "nvfp4_awq"),
        (MODELOPT | {"quant_algo": "FP8"}, "quant_algo = fp8"),
        (packed() | {"format": "float-quantized"}, "float-quantized"),
        (packed() | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse"),
        (packed() | {"transform_config": {"config_groups": {"u": {}}}}, "transform_config"),
        (packed(num_bits=8), "num_bits = 8"),
        (packed(num_bits=2), "num_bits = 2"),
        (packed(type="float"), "float"),
        (packed(strategy="tensor"), "tensor"),
        (packed(strategy="block"), "block"),
        (packed(strategy="tensor_group"), "tensor_group"),
        (packed(actorder="random"), "random"),
        (packed(dynamic=True), "dynamic"),
    ],
)
def test_what_is_not_known_is_refused(values: Any, words: str) -> None:
    with pytest.raises(UnsupportedQuantisationError, match=words) as caught:
        scheme(values)
    assert caught.value.title == "Waymark can't read this quantisation"
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    "values",
    [
        "fp8",
        ["fp8"],
        4,
        {"bits": 4},
        {"quant_method": 4},
        {"quant_method": None, "bits": 4},
        FP8 | {"weight_block_size": [128]},
        FP8 | {"weight_block_size": 128},
        FP8 | {"weight_block_size": [0, 128]},
        FP8 | {"weight_block_size": [128, -1]},
        FP8 | {"weight_block_size": [128.0, 128]},
        FP8 | {"modules_to_not_convert": "lm_head"},
        FP8 | {"modules_to_not_convert": [None]},
        FP8 | {"modules_to_not_convert": ["a"] * 20_001},
        GPTQ | {"group_size": 0},
        GPTQ | {"group_size": -2},
        GPTQ | {"group_size": 2**40},
        GPTQ | {"group_size": "128"},
        GPTQ | {"group_size": None},
        GPTQ | {"group_size": True},
        GPTQ | {"sym": 1},
        GPTQ | {"desc_act": "no"},
        GPTQ | {"checkpoint_format": 1},
        GPTQ | {"dynamic": ["-:.*"]},
        GPTQ | {"dynamic": {"-:.*": 3}},
        GPTQ | {"dynamic": {f"-:{index}": {} for index in range(201)}},
        AWQ | {"group_size": 0},
        AWQ | {"modules_to_not_convert": {"visual": True}},
        packed(group_size=0),
        packed(group_size=None),
        packed(symmetric="yes"),
        packed() | {"config_groups": {}},
        packed() | {"config_groups": None},
        packed() | {"config_groups": ["W4A16"]},
        packed() | {"config_groups": {"W4A16": ["Linear"]}},
        packed() | {"ignore": "lm_head"},
    ],
)
def test_what_is_broken_is_refused(values: Any) -> None:
    with pytest.raises((BrokenConfigError, UnsupportedQuantisationError)) as caught:
        scheme(values)
    assert "config" in caught.value.message
    assert len(caught.value.message) < 400


def test_groups_that_differ_are_refused() -> None:
    values = packed()
    values["config_groups"]["group_1"] = packed(group_size=64)["config_groups"]["group_0"]
    with pytest.raises(UnsupportedQuantisationError, match="config_groups"):
        scheme(values)
    values["config_groups"]["group_1"] = dict(values["config_groups"]["group_0"])
    assert scheme(values).format == PackQuantizedFormat(32, symmetric=True, reordered=False)


TEXT, VISION = "model.language_model.layers.3.", "model.visual.blocks.0."


@pytest.mark.parametrize(
    ("values", "left_out", "kept"),
    [
        (
            FP8 | {"modules_to_not_convert": ["lm_head", "model.visual", "linear_attn.in_proj_a"]},
            ["lm_head", VISION + "attn.qkv", TEXT + "linear_attn.in_proj_a"],
            [TEXT + "linear_attn.in_proj_ab", TEXT + "mlp.up_proj", "model.visual_head"],
        ),
        (
            FP8 | {"ignored_layers": ["model.layers.3.mlp.gate", "3.self_attn.o_proj.weight"]},
            [TEXT + "mlp.gate", TEXT + "self_attn.o_proj", "model.layers.3.mlp.gate"],
            [TEXT + "mlp.gate_proj", "model.language_model.layers.13.mlp.gate"],
        ),
        (
            AWQ | {"modules_to_not_convert": ["visual", "mlp.gate", "", "model."]},
            [VISION + "mlp.linear_fc1", TEXT + "mlp.gate"],
            [TEXT + "mlp.gate_proj", TEXT + "self_attn.q_proj"],
        ),
        (
            GPTQ | {"dynamic": {"lm_head": {}, "-:.*attn.*": {}, "-:.*visual.*": {}}},
            [TEXT + "self_attn.q_proj", TEXT + "linear_attn.out_proj", VISION + "mlp.linear_fc1"],
            [TEXT + "mlp.up_proj", "lm_head"],
        ),
        (
            packed(),
            ["lm_head", VISION + "attn.proj", "model.language_model.layers.0.mlp.down_proj"],
            [TEXT + "mlp.down_proj", "model.embed_tokens"],
        ),
    ],
    ids=["fp8", "prefixes", "awq", "gptq", "compressed"],
)
def test_modules_left_out(values: Any, left_out: list[str], kept: list[str]) -> None:
    found = scheme(values)
    assert [module for module in left_out if not found.leaves_out(module)] == []
    assert [module for module in kept if found.leaves_out(module)] == []
