"""The vision tower run on a batch of equal grids at once, and trained.

transformers' own forward loops over pictures; this calls the same modules on [N, patches, width].
`test_training_parts.py` compares the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5VisionModel,
    apply_rotary_pos_emb_vision,
)
from transformers.vision_utils import (
    get_vision_interpolation_indices_and_weights,
    get_vision_position_ids,
)

Rotation = tuple[torch.Tensor, torch.Tensor]


def place_of_patches(
    tower: Qwen3_5VisionModel, grid: torch.Tensor
) -> tuple[torch.Tensor, Rotation]:
    """The position embedding [patches, width] and the rotation of one picture's patches."""
    indices, weights = get_vision_interpolation_indices_and_weights(
        grid,
        num_grid_per_side=tower.num_grid_per_side,
        mode=tower.interpolation_mode,
        align_corners=tower.interpolation_align_corners,
        spatial_merge_size=tower.spatial_merge_size,
        kwargs={},
    )
    embedded = (tower.pos_embed(indices) * weights[:, :, None]).sum(1)
    positions = get_vision_position_ids(grid, tower.spatial_merge_size, kwargs={})
    return embedded, tower.rotary_pos_emb(embedded, positions)


def attend(attention: nn.Module, hidden: torch.Tensor, rotation: Rotation) -> torch.Tensor:
    """Bidirectional attention inside each picture; `hidden` is [N, patches, width]."""
    count, length, width = hidden.shape
    qkv = attention.qkv(hidden).view(count, length, 3, attention.num_heads, -1)
    query, key, value = qkv.unbind(2)
    query, key = apply_rotary_pos_emb_vision(query, key, *rotation)
    heads = [part.transpose(1, 2) for part in (query, key, value)]
    mixed = F.scaled_dot_product_attention(*heads)
    projected: torch.Tensor = attention.proj(mixed.transpose(1, 2).reshape(count, length, width))
    return projected


def run_tower(
    tower: Qwen3_5VisionModel, patches: torch.Tensor, grid: tuple[int, int, int] = (1, 6, 6)
) -> torch.Tensor:
    """[N, patches, 1536] -> [N, merged tokens, out_hidden_size]."""
    count, length, _ = patches.shape
    embedded, rotation = place_of_patches(tower, torch.tensor([grid]))
    convolution = tower.patch_embed.proj
    hidden = F.linear(patches, convolution.weight.flatten(1), convolution.bias) + embedded
    for block in tower.blocks:
        hidden = hidden + attend(block.attn, block.norm1(hidden), rotation)
        hidden = hidden + block.mlp(block.norm2(hidden))
    merged: torch.Tensor = tower.merger(hidden.flatten(0, 1))
    return merged.view(count, length // 4, -1)


def descend(
    parameters: list[nn.Parameter], loss_of: Callable[[], torch.Tensor], steps: int
) -> None:
    """Take `steps` steps of AdamW on batches that `loss_of` chooses."""
    optimiser = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    started = time.monotonic()
    for step in range(steps):
        loss = loss_of()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch leaves it untyped
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            seconds = time.monotonic() - started
            print(f"step {step} loss {loss.item():.4f} {seconds:.0f} s", flush=True)
