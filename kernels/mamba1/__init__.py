"""Mamba-1's selective scan: one step for decode, the same token after token for prefill."""
