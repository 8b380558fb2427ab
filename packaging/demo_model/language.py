"""The language part's forward for training: transformers' modules, fewer and larger operations.

No cache, no mask: sequences are padded on the right, where causal layers never look. The delta rule
runs in short chunks whose triangular system is inverted by doubling, as batched products; on two
CPU cores that is several times faster than a solve per chunk. `test_training_parts.py` compares.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5Attention,
    Qwen3_5GatedDeltaNet,
    Qwen3_5TextModel,
    apply_rotary_pos_emb,
)

CHUNK = 32
Rotation = tuple[torch.Tensor, torch.Tensor]


def inverse_of_one_plus(lower: torch.Tensor) -> torch.Tensor:
    """(1 + L)^-1 for strictly lower L [..., CHUNK, CHUNK]: the product of 1 + (-L)^(2^k).

    Where many keys of a chunk are equal the powers grow and digits are lost. One step of Newton's
    iteration at the end brings them back.
    """
    power = -lower
    inverse = torch.eye(CHUNK, dtype=lower.dtype) + power
    reached = 2
    while reached < CHUNK:
        power = power @ power
        inverse = inverse + inverse @ power
        reached *= 2
    return inverse + inverse @ (torch.eye(CHUNK, dtype=lower.dtype) - inverse - lower @ inverse)


def in_chunks(values: torch.Tensor) -> torch.Tensor:
    """[B, T, heads, width] -> [B, heads, chunks, CHUNK, width]; T is a multiple of CHUNK."""
    batch, length, heads, width = values.shape
    return values.view(batch, length // CHUNK, CHUNK, heads, width).permute(0, 3, 1, 2, 4)


def delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
) -> torch.Tensor:
    """The gated delta rule from an empty state; q, k, v [B, T, hv, width], others [B, T, hv]."""
    batch, length, heads, width = value.shape
    query, key, value = (in_chunks(part) for part in (query, key, value))
    beta, decay = (in_chunks(part.unsqueeze(-1)) for part in (beta, decay))
    total = decay.squeeze(-1).cumsum(-1)
    upper = torch.ones(CHUNK, CHUNK, dtype=torch.bool).triu(1)
    between = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(upper, float("-inf")).exp()
    weighted = key * beta
    system = (weighted @ key.transpose(-1, -2) * between).tril(-1)
    inverse = inverse_of_one_plus(system)
    new = inverse @ (value * beta)
    read = inverse @ (weighted * total.exp().unsqueeze(-1))
    inside = query @ key.transpose(-1, -2) * between
    query = query * total.exp().unsqueeze(-1)
    key = key * (total[..., -1:] - total).exp().unsqueeze(-1)
    fade = total[..., -1].exp()[..., None, None]
    outputs = [inside[:, :, 0] @ new[:, :, 0]]
    state = key[:, :, 0].transpose(-1, -2) @ new[:, :, 0]
    for i in range(1, length // CHUNK):
        corrected = new[:, :, i] - read[:, :, i] @ state
        outputs.append(query[:, :, i] @ state + inside[:, :, i] @ corrected)
        state = state * fade[:, :, i] + key[:, :, i].transpose(-1, -2) @ corrected
    # [B, heads, chunks, CHUNK, width] -> [B, T, heads, width]
    return torch.stack(outputs, 2).permute(0, 2, 3, 1, 4).reshape(batch, length, heads, width)


def rms_norm(norm: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(hidden, hidden.shape[-1:], 1.0 + norm.weight, 1e-6)


def unit(values: torch.Tensor) -> torch.Tensor:
    """Each vector scaled to length one, as the family's rule softens it."""
    return values * torch.rsqrt((values * values).sum(-1, keepdim=True) + 1e-6)


def convolve(layer: Qwen3_5GatedDeltaNet, mixed: torch.Tensor) -> torch.Tensor:
    """The causal depthwise convolution of [B, T, channels] as four shifted products."""
    taps = layer.conv1d.weight.squeeze(1)
    length, reach = mixed.shape[1], taps.shape[1] - 1
    padded = F.pad(mixed, (0, 0, reach, 0))
    summed = padded[:, reach:] * taps[:, reach]
    for tap in range(reach):
        summed = summed + padded[:, tap : tap + length] * taps[:, tap]
    return F.silu(summed)


def run_delta_layer(layer: Qwen3_5GatedDeltaNet, hidden: torch.Tensor) -> torch.Tensor:
    """A gated delta-net layer on normed [B, T, width]."""
    batch, length, _ = hidden.shape
    mixed = convolve(layer, layer.in_proj_qkv(hidden))
    sizes = [layer.key_dim, layer.key_dim, layer.value_dim]
    query, key, value = mixed.float().split(sizes, -1)
    query, key = (part.view(batch, length, layer.num_k_heads, -1) for part in (query, key))
    repeats = layer.num_v_heads // layer.num_k_heads
    query = (unit(query) * layer.head_k_dim**-0.5).repeat_interleave(repeats, 2)
    key = unit(key).repeat_interleave(repeats, 2)
    value = value.view(batch, length, layer.num_v_heads, -1)
    rate = F.softplus(layer.in_proj_a(hidden).float() + layer.dt_bias)
    beta = layer.in_proj_b(hidden).float().sigmoid()
    with torch.autocast("cpu", enabled=False):
        mixed = delta_rule(query, key, value, -layer.A_log.exp() * rate, beta)
    gate = layer.in_proj_z(hidden).view_as(mixed)
    normed = F.rms_norm(mixed, mixed.shape[-1:], layer.norm.weight, 1e-6) * F.silu(gate.float())
    projected: torch.Tensor = layer.out_proj(normed.flatten(2))
    return projected


def run_attention(
    layer: Qwen3_5Attention, hidden: torch.Tensor, rotation: Rotation
) -> torch.Tensor:
    """A gated attention layer on normed [B, T, width]."""
    batch, length, _ = hidden.shape
    query, gate = layer.q_proj(hidden).view(batch, length, -1, 2 * layer.head_dim).chunk(2, -1)
    key, value = (
        p(hidden).view(batch, length, -1, layer.head_dim) for p in (layer.k_proj, layer.v_proj)
    )
    query = rms_norm(layer.q_norm, query.float()).transpose(1, 2)
    key = rms_norm(layer.k_norm, key.float()).transpose(1, 2)
    query, key = apply_rotary_pos_emb(query, key, *rotation)
    value = value.float().transpose(1, 2)
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    gated = mixed.transpose(1, 2).flatten(2) * gate.flatten(2).float().sigmoid()
    projected: torch.Tensor = layer.o_proj(gated)
    return projected


def run_language(
    model: Qwen3_5TextModel, embedded: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """[B, T, width] embeddings and [3, B, T] positions -> final hidden states [B, T, width]."""
    length = embedded.shape[1]
    extra = -length % CHUNK
    hidden = F.pad(embedded.float(), (0, 0, 0, extra))
    rotation = model.rotary_emb(hidden, F.pad(positions, (0, extra)))
    for layer in model.layers:
        normed = rms_norm(layer.input_layernorm, hidden)
        if hasattr(layer, "linear_attn"):
            hidden = hidden + run_delta_layer(layer.linear_attn, normed)
        else:
            hidden = hidden + run_attention(layer.self_attn, normed, rotation)
        normed = rms_norm(layer.post_attention_layernorm, hidden)
        hidden = hidden + layer.mlp(normed)
    return rms_norm(model.norm, hidden[:, :length])
