"""The plain attention on cases small enough to know the answer."""

from __future__ import annotations

import torch

from kernels.attention.reference import causal_attention, full_attention, run_attention


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


def test_a_window_hides_what_is_older() -> None:
    queries, keys, values = torch.randn(2, 2, 4), torch.zeros(5, 2, 4), torch.randn(5, 2, 4)
    attended = causal_attention(queries, keys, values, 1.0, window=2)
    torch.testing.assert_close(attended[0], values[2:4].mean(0))
    torch.testing.assert_close(attended[1], values[3:].mean(0))


def test_a_sink_is_a_key_without_a_value() -> None:
    queries, keys, values = torch.randn(2, 2, 4), torch.randn(5, 1, 4), torch.randn(5, 1, 4)
    sinks = torch.tensor([0.3, -2.0])
    attended = causal_attention(queries, keys, values, 1.0, None, sinks)
    scores = torch.einsum("hd,kd->hk", queries[1], keys[:, 0])
    kept = torch.sigmoid(scores.logsumexp(1) - sinks)[:, None]
    plain = causal_attention(queries, keys, values, 1.0)
    torch.testing.assert_close(attended[1], kept * plain[1])


def test_a_run_that_attends_both_ways_sees_what_follows_in_it() -> None:
    queries, keys, values = torch.randn(2, 2, 4), torch.zeros(5, 2, 4), torch.randn(5, 2, 4)
    attended = run_attention(queries, keys, values, 1.0)
    torch.testing.assert_close(attended, values.mean(0).expand(2, 2, 4))
    # A window looks back only: what follows in the run is seen however far it is.
    attended = run_attention(queries, keys, values, 1.0, window=2)
    torch.testing.assert_close(attended[0], values[2:].mean(0))
    torch.testing.assert_close(attended[1], values[3:].mean(0))
