"""An MTP head for the tiny folders of Qwen3.5 and its kin, and what it computes, written from its
published description.

Slot i reads the hidden row of token i behind the final norm and the embedding of token i + 1, at
the position of token i: norms, one matrix over both (embedding first), a layer that attends over
the slots before, a norm, and the model's own output head, which then predicts token i + 2.
"""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.oracle.checkpoints import Tiny
from tests.oracle.runs import Pair, Pieces, oracle_inputs, positions

WEIGHTS = "model.safetensors"
LAYER = "mtp.layers.0."


def head_tensors(path: Path, tiny: Tiny, seed: int = 0) -> dict[str, Tensor]:
    """Random ones for the folder at `path`; of sparse experts those of its last layer, mixed."""
    generator = torch.Generator().manual_seed(90 + seed)

    def matrix(outputs: int, inputs: int) -> Tensor:
        return torch.randn(outputs, inputs, generator=generator) / math.sqrt(inputs)

    def norm(width: int) -> Tensor:
        return 0.1 * torch.randn(width, generator=generator)

    width, heads, head_dim = tiny.hidden, tiny.heads, tiny.head_dim
    found = {
        "mtp.fc.weight": matrix(width, 2 * width),
        "mtp.pre_fc_norm_embedding.weight": norm(width),
        "mtp.pre_fc_norm_hidden.weight": norm(width),
        "mtp.norm.weight": norm(width),
        f"{LAYER}input_layernorm.weight": norm(width),
        f"{LAYER}post_attention_layernorm.weight": norm(width),
        f"{LAYER}self_attn.q_proj.weight": matrix(2 * heads * head_dim, width),
        f"{LAYER}self_attn.k_proj.weight": matrix(tiny.kv_heads * head_dim, width),
        f"{LAYER}self_attn.v_proj.weight": matrix(tiny.kv_heads * head_dim, width),
        f"{LAYER}self_attn.o_proj.weight": matrix(width, heads * head_dim),
        f"{LAYER}self_attn.q_norm.weight": norm(head_dim),
        f"{LAYER}self_attn.k_norm.weight": norm(head_dim),
    }
    last = f"layers.{len(tiny.layers) - 1}."
    for name, tensor in load_file(path / WEIGHTS).items():
        if last in name and ".mlp." in name:
            order = torch.randperm(tensor.shape[-1], generator=generator)
            found[LAYER + name.rpartition(last)[2]] = tensor[..., order].float()
    return found


def add_head(path: Path, head: dict[str, Tensor]) -> None:
    """Put these tensors into the folder, in the type of its others."""
    tensors = load_file(path / WEIGHTS)
    dtype = tensors[next(name for name in tensors if name.endswith("embed_tokens.weight"))].dtype
    added = {name: tensor.to(dtype).contiguous() for name, tensor in head.items()}
    save_file(tensors | added, path / WEIGHTS, {"format": "pt"})


def expected_logits(pair: Pair, tiny: Tiny, head: dict[str, Tensor], pieces: Pieces) -> Tensor:
    """[tokens - 1, vocabulary] float32: row i predicts token i + 2."""
    oracle = cast(Any, pair.oracle)
    seen: dict[str, Tensor] = {}
    stack = oracle.model.language_model if hasattr(oracle.model, "language_model") else oracle.model

    def embedded(module: Any, args: Any, kwargs: Any) -> None:
        seen["embeddings"] = kwargs["inputs_embeds"][0]

    def normed(module: Any, args: Any, output: Tensor) -> None:
        seen["hidden"] = output[0]

    hooks = [
        stack.register_forward_pre_hook(embedded, with_kwargs=True),
        stack.norm.register_forward_hook(normed),
    ]
    with torch.inference_mode():
        oracle(**oracle_inputs(pieces), use_cache=False)
        for hook in hooks:
            hook.remove()
        both = torch.cat(
            [
                rms(seen["embeddings"][1:], head["mtp.pre_fc_norm_embedding.weight"]),
                rms(seen["hidden"][:-1], head["mtp.pre_fc_norm_hidden.weight"]),
            ],
            dim=1,
        )
        rows = both @ head["mtp.fc.weight"].T
        rows = rows + attended(rows, tiny, head, positions(pieces)[:, :-1])
        inputs = rms(rows, head[f"{LAYER}post_attention_layernorm.weight"])
        # The oracle's own: dense, or sparse experts.
        feed_forward, scope = copy.deepcopy(stack.layers[-1].mlp), f"{LAYER}mlp."
        feed_forward.load_state_dict(
            {name.removeprefix(scope): head[name] for name in head if name.startswith(scope)}
        )
        rows = rows + feed_forward(inputs[None])[0]
        logits: Tensor = oracle.lm_head(rms(rows, head["mtp.norm.weight"]))
    return logits


def rms(rows: Tensor, weight: Tensor) -> Tensor:
    """Over the last axis, times 1 + w."""
    return rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6) * (1 + weight)


def attended(rows: Tensor, tiny: Tiny, head: dict[str, Tensor], places: Tensor) -> Tensor:
    """The gated attention of the layer, over all rows up to each."""
    count, heads, head_dim = rows.shape[0], tiny.heads, tiny.head_dim
    inputs = rms(rows, head[f"{LAYER}input_layernorm.weight"])
    doubled = (inputs @ head[f"{LAYER}self_attn.q_proj.weight"].T).view(count, heads, 2, head_dim)
    queries, gate = doubled.unbind(2)
    keys = (inputs @ head[f"{LAYER}self_attn.k_proj.weight"].T).view(count, -1, head_dim)
    values = (inputs @ head[f"{LAYER}self_attn.v_proj.weight"].T).view(count, -1, head_dim)
    queries = rotated(rms(queries, head[f"{LAYER}self_attn.q_norm.weight"]), places)
    keys = rotated(rms(keys, head[f"{LAYER}self_attn.k_norm.weight"]), places)
    group = heads // tiny.kv_heads
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(head_dim)
    later = torch.ones(count, count, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(-1)
    mixed = torch.einsum("hqk,khd->qhd", weights, values) * torch.sigmoid(gate)
    return mixed.reshape(count, -1) @ head[f"{LAYER}self_attn.o_proj.weight"].T


def rotated(heads: Tensor, places: Tensor) -> Tensor:
    """The first half of each head by interleaved M-RoPE with sections (3, 3, 2), theta 10,000."""
    width = heads.shape[-1] // 2
    count = width // 2
    axis = [1 if i % 3 == 1 and i < 9 else 2 if i % 3 == 2 and i < 6 else 0 for i in range(count)]
    frequencies = 10000.0 ** (-2 * torch.arange(count) / width)
    angles = (places[axis].T * frequencies).unsqueeze(1)
    first, second, rest = heads.split([count, count, heads.shape[-1] - width], dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], dim=-1)
