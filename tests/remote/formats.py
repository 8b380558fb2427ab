"""Answers in the formats of the programs: lists of models and streams, by their documentation and
sources (vLLM 0.32, SGLang, llama.cpp's server, Ollama, LM Studio)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Chunk = dict[str, Any]
# Answers of real servers, and the model that they are asked for.
RECORDED = Path(__file__).with_name("recorded")
MODEL = "tiny"


def _chunk(choices: list[Chunk], model: str, **more: object) -> Chunk:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1790000000}
    return {**head, "model": model, "choices": choices, **more}


def _choice(delta: Chunk, reason: str | None = None, **more: object) -> Chunk:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, **more}


VLLM_MODELS = {
    "object": "list",
    "data": [
        {
            "id": "Qwen/Qwen3-8B",
            "object": "model",
            "created": 1790000000,
            "owned_by": "vllm",
            "root": "Qwen/Qwen3-8B",
            "parent": None,
            "max_model_len": 40960,
            "permission": [{"id": "modelperm-1", "object": "model_permission", "allow_view": True}],
        }
    ],
}
VLLM = [
    _chunk(
        [_choice({"role": "assistant", "content": ""}, token_ids=None)],
        "Qwen/Qwen3-8B",
        prompt_token_ids=[1, 2, 3],
    ),
    _chunk([_choice({"reasoning": "Easy."}, token_ids=[7])], "Qwen/Qwen3-8B"),
    _chunk([_choice({"content": "Red"}, token_ids=[11, 12])], "Qwen/Qwen3-8B"),
    _chunk(
        [_choice({"content": "."}, "stop", stop_reason=None, token_ids=[13, 2])], "Qwen/Qwen3-8B"
    ),
    _chunk(
        [],
        "Qwen/Qwen3-8B",
        usage={
            "prompt_tokens": 300,
            "total_tokens": 304,
            "completion_tokens": 4,
            "prompt_tokens_details": {
                "cached_tokens": 256,
                "created_cache_tokens": 0,
                "multimodal_tokens": None,
            },
        },
    ),
]

SGLANG_MODELS = {
    "object": "list",
    "data": [
        {
            "id": "qwen/qwen2.5-0.5b-instruct",
            "object": "model",
            "created": 1790000000,
            "owned_by": "sglang",
            "root": "qwen/qwen2.5-0.5b-instruct",
            "max_model_len": 32768,
        }
    ],
}
_SG = "qwen/qwen2.5-0.5b-instruct"
SGLANG = [
    _chunk([_choice({"role": "assistant", "content": "", "reasoning_content": None})], _SG),
    _chunk([_choice({"role": None, "content": None, "reasoning_content": "Easy."})], _SG),
    _chunk([_choice({"content": "Red", "reasoning_content": None})], _SG),
    _chunk([_choice({"content": "."})], _SG),
    _chunk([_choice({"content": None}, "stop", matched_stop=151645)], _SG),
    _chunk(
        [],
        _SG,
        usage={
            "prompt_tokens": 300,
            "total_tokens": 304,
            "completion_tokens": 4,
            "prompt_tokens_details": None,
        },
    ),
]

LLAMACPP_MODELS = {
    "models": [{"name": "gemma-3-4b-it-Q4_K_M.gguf", "capabilities": ["completion", "multimodal"]}],
    "object": "list",
    "data": [
        {
            "id": "gemma-3-4b-it-Q4_K_M.gguf",
            "object": "model",
            "created": 1790000000,
            "owned_by": "llamacpp",
            "meta": {
                "vocab_type": 1,
                "n_vocab": 262144,
                "n_ctx_train": 131072,
                "n_embd": 2560,
                "n_params": 3880099328,
                "size": 2480873472,
            },
        }
    ],
}
_LC = "gemma-3-4b-it-Q4_K_M.gguf"
LLAMACPP = [
    _chunk(
        [_choice({"role": "assistant", "content": None})],
        _LC,
        prompt_progress={"total": 300, "cache": 256, "processed": 256, "time_ms": 0},
    ),
    _chunk(
        [_choice({})],
        _LC,
        prompt_progress={"total": 300, "cache": 256, "processed": 300, "time_ms": 90},
    ),
    _chunk([_choice({"reasoning_content": "Easy."})], _LC),
    _chunk([_choice({"content": "Red"})], _LC),
    _chunk([_choice({"content": "."})], _LC),
    _chunk([_choice({}, "stop")], _LC),
    _chunk(
        [],
        _LC,
        usage={
            "completion_tokens": 4,
            "prompt_tokens": 300,
            "total_tokens": 304,
            "prompt_tokens_details": {"cached_tokens": 256},
        },
        timings={
            "cache_n": 256,
            "prompt_n": 44,
            "prompt_ms": 90.1,
            "prompt_per_second": 488.3,
            "predicted_n": 4,
            "predicted_ms": 200.0,
            "predicted_per_token_ms": 50.0,
            "predicted_per_second": 20.0,
        },
    ),
]

OLLAMA_MODELS = {
    "object": "list",
    "data": [
        {"id": "qwen3:8b", "object": "model", "created": 1790000000, "owned_by": "library"},
        {"id": "llama3.2:latest", "object": "model", "created": 1790000000, "owned_by": "library"},
    ],
}
OLLAMA = [
    _chunk([_choice({"role": "assistant", "content": "", "reasoning": "Easy."})], "qwen3:8b"),
    _chunk([_choice({"role": "assistant", "content": "Red"})], "qwen3:8b"),
    _chunk([_choice({"role": "assistant", "content": "."})], "qwen3:8b"),
    _chunk([_choice({"role": "assistant", "content": ""}, "stop")], "qwen3:8b"),
    _chunk(
        [],
        "qwen3:8b",
        usage={
            "prompt_tokens": 300,
            "completion_tokens": 4,
            "total_tokens": 304,
            "prompt_tokens_details": {"cached_tokens": 256},
        },
    ),
]

LMSTUDIO_MODELS = {
    "data": [
        {"id": "qwen2-vl-7b-instruct", "object": "model", "owned_by": "organization_owner"},
        {"id": "text-embedding-nomic", "object": "model", "owned_by": "organization_owner"},
    ],
    "object": "list",
}
LMSTUDIO_OWN = {
    "object": "list",
    "data": [
        {
            "id": "qwen2-vl-7b-instruct",
            "object": "model",
            "type": "vlm",
            "publisher": "mlx-community",
            "arch": "qwen2_vl",
            "compatibility_type": "mlx",
            "quantization": "4bit",
            "state": "not-loaded",
            "max_context_length": 32768,
        },
        {
            "id": "text-embedding-nomic",
            "object": "model",
            "type": "embeddings",
            "state": "not-loaded",
            "max_context_length": 2048,
        },
    ],
}
_LM = "qwen2-vl-7b-instruct"
LMSTUDIO = [
    _chunk([_choice({"role": "assistant", "content": "<think>\n"})], _LM),
    _chunk([_choice({"role": "assistant", "content": "Easy.\n</th"})], _LM),
    _chunk([_choice({"role": "assistant", "content": "ink>\n\nRed"})], _LM),
    _chunk([_choice({"role": "assistant", "content": "."})], _LM),
    _chunk([_choice({}, "stop")], _LM),
    _chunk([], _LM, usage={"prompt_tokens": 300, "completion_tokens": 4, "total_tokens": 304}),
]
