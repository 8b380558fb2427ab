"""Mamba-2's state space: one step for decode, chunks of 64 tokens for prefill, time steps."""
