"""The poison itself works; without it the kernel tests would prove less than they say."""

from __future__ import annotations

import torch

from tests.kernels.poison import poisoned_memory


def test_empty_memory_is_poisoned() -> None:
    with poisoned_memory():
        assert torch.empty(3).isnan().all()
        assert torch.empty_like(torch.ones(2)).isnan().all()
        assert torch.ones(2).new_empty(4).isnan().all()
