"""The plain attention on cases small enough to know the answer."""

from __future__ import annotations

import torch

from kernels.attention.reference import causal_attention, full_attention


def test_the_first_token_sees_only_itself() -> None:
    queries, keys, values = torch.randn(3, 2, 4), torch.randn(3, 1, 4), torch.randn(3, 1, 4)
    attended = causal_attention(queries, keys, values, 1.0)
    torch.testing.assert_close(attended[0], values[0].expand(2, 4))


def test_equal_keys_give_the_mean_of_what_is_seen() -> None:
    queries, keys, values = torch.randn(2, 2, 4), torch.zeros(5, 2, 4), torch.randn(5, 2, 4)
    attended = causal_attention(queries, keys, values, 1.0)
    torch.testing.assert_close(attended[0], values[:4].mean(0))
    torch.testing.assert_close(attended[1], values.mean(0))
    torch.testing.assert_close(
        full_attention(keys, keys, values, 1.0), values.mean(0).expand(5, 2, 4)
    )
